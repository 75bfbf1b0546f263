"""Effects of an event on records, and promises: which effect a configuration has, on which records, why, by which
source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from harness.model.contract.configuration import ClientSettings, TopicSettings

REFERENCE: Final = "Kafka documentation"


class Effect(StrEnum):
    """The effect of an event on records, the worst first."""

    LOST = "lost"
    SKIPPED = "skipped"  # by an application: they are in the log, and it never reads them
    ARCHIVED = "archived"  # by a share group, at its delivery limit, without a member that accepted them
    UNAVAILABLE = "unavailable"
    STOPPED = "stopped with an error"  # an application, until an operator says where it continues
    ABORTED = "aborted after their acknowledgement"  # by the coordinator, and the commit is refused
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    SHOWN = "aborted records shown"
    RETURNED = "deleted records back"
    UNKNOWN = "outcome unknown"
    DELETED = "deleted as configured"
    KEPT = "kept"


def reported(seen: Mapping[Effect, float] | Mapping[str, float], silent_s: float) -> str:
    """The observed effects, as text. seen: effects with the number of records, or of seconds; empty = kept. silent_s:
    how many seconds no ack came during the fault.
    """
    words = [_reported(effect, seen[effect]) for effect in Effect if effect in seen] or [Effect.KEPT.value]
    if silent_s and Effect.UNAVAILABLE not in seen:
        words.append(f"{silent_s:.1f} s without acks")
    return ", ".join(words)


def _reported(effect: Effect, amount: float) -> str:
    if effect is Effect.UNAVAILABLE:
        return f"unavailable for {amount:.1f} s"
    if effect is Effect.STOPPED:
        return effect.value
    return f"{int(amount):,} {effect.value}" if amount else "unacknowledged records lost or torn"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a cluster or a client. name: its identifier. happens: a clause that follows "when"."""

    name: str
    happens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The promise of Kafka at an event.

    effects: the worst first. which: the records that are affected, or what is unavailable for how long. why: the
    reason, a clause that follows "because". source: where the promise can be read. fix: settings that would prevent it.
    """

    event: Event
    effects: tuple[Effect, ...]
    which: str
    why: str
    source: str
    fix: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """A higher number is worse."""
        return len(Effect) - min(list(Effect).index(effect) for effect in self.effects)


Rule = Callable[[Event, TopicSettings, ClientSettings], Promise | None]


def kept(event: Event, why: str, source: str, which: str = "every acknowledged record") -> Promise:
    return Promise(event=event, effects=(Effect.KEPT,), which=which, why=why, source=source)


def lost(event: Event, which: str, why: str, source: str, *fix: str) -> Promise:
    return Promise(event=event, effects=(Effect.LOST,), which=which, why=why, source=source, fix=fix)


def away(event: Event, which: str, why: str, source: str, *fix: str) -> Promise:
    return Promise(event=event, effects=(Effect.UNAVAILABLE,), which=which, why=why, source=source, fix=fix)


def both(worse: Promise | None, other: Promise) -> Promise:
    """One promise for two effects of the same event on different records."""
    if worse is None:
        return other
    bad = {*worse.effects, *other.effects} - {Effect.KEPT}
    return replace(
        worse,
        effects=tuple(effect for effect in Effect if effect in bad),
        which=f"{worse.which}; {other.which}",
        why=f"{worse.why}; {other.why}",
        source="; ".join(dict.fromkeys(f"{worse.source}; {other.source}".split("; "))),
        fix=tuple(dict.fromkeys((*worse.fix, *other.fix))),
    )
