"""What becomes of records when something happens: effects, the worst first, and a promise of them with its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from harness.model.contract.configuration import ClientSettings, TopicSettings

REFERENCE: Final = "Kafka documentation"


class Effect(StrEnum):
    """What becomes of records, the worst first."""

    LOST = "lost"
    SKIPPED = "skipped"  # by an application that never saw them, though they are there
    ARCHIVED = "archived"  # by a share group, which has given it as often as it may, and it was accepted by nobody
    UNAVAILABLE = "unavailable"
    STOPPED = "stopped with an error"  # an application, until somebody says where it is to go on
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    SHOWN = "aborted records shown"
    RETURNED = "deleted records back"
    UNTOLD = "outcome not told"
    DELETED = "deleted as configured"
    KEPT = "kept"


def reported(seen: Mapping[Effect, float] | Mapping[str, float], silent_s: float) -> str:
    """What was seen, in words. seen: effects with how many records, or for how many seconds; empty = kept. silent_s:
    how long no ack came while something was broken."""
    words = [_reported(effect, seen[effect]) for effect in Effect if effect in seen] or [Effect.KEPT.value]
    if silent_s and Effect.UNAVAILABLE not in seen:
        words.append(f"{silent_s:.1f} s without acks")
    return ", ".join(words)


def _reported(effect: Effect, amount: float) -> str:
    if effect is Effect.UNAVAILABLE:
        return f"unavailable for {amount:.1f} s"
    if effect is Effect.STOPPED:
        return effect.value
    return f"{int(amount):,} {effect.value}" if amount else "what was not acknowledged is gone or torn"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a cluster or a client; `name` is how it is asked for."""

    name: str
    happens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """effects: the worst first. which: the records, or for how long. mend: settings that would keep them."""

    event: Event
    effects: tuple[Effect, ...]
    which: str
    why: str
    source: str
    mend: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """The higher, the worse."""
        return len(Effect) - min(list(Effect).index(effect) for effect in self.effects)


Rule = Callable[[Event, TopicSettings, ClientSettings], Promise | None]


def kept(event: Event, why: str, source: str, which: str = "every acknowledged record") -> Promise:
    return Promise(event=event, effects=(Effect.KEPT,), which=which, why=why, source=source)


def lost(event: Event, which: str, why: str, source: str, *mend: str) -> Promise:
    return Promise(event=event, effects=(Effect.LOST,), which=which, why=why, source=source, mend=mend)


def away(event: Event, which: str, why: str, source: str, *mend: str) -> Promise:
    return Promise(event=event, effects=(Effect.UNAVAILABLE,), which=which, why=why, source=source, mend=mend)


def both(worse: Promise | None, other: Promise) -> Promise:
    """What becomes of some records, and what of others at the same time."""
    if worse is None:
        return other
    bad = {*worse.effects, *other.effects} - {Effect.KEPT}
    return replace(
        worse,
        effects=tuple(effect for effect in Effect if effect in bad),
        which=f"{worse.which}; {other.which}",
        why=f"{worse.why}; {other.why}",
        source="; ".join(dict.fromkeys(f"{worse.source}; {other.source}".split("; "))),
        mend=tuple(dict.fromkeys((*worse.mend, *other.mend))),
    )
