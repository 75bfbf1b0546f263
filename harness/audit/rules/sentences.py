"""Parts of sentences, and suspicions about one partition. A sentence names the place, the numbers and the epoch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from harness.audit.look import PartitionLook
from harness.audit.rules.rule import Suspicion
from harness.model.clock import NS_PER_MS, NS_PER_S
from harness.model.history.changes import PartitionChange

_UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_WORDS: Final = ("day", "hour")  # units with a plural
NAMED_MAX: Final = 100  # partitions with one cause that get a suspicion of their own


def counted(number: int, noun: str) -> str:
    """Such as "1 record" or "1,234 records"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ranged(first: int, end: int) -> str:
    """Such as "50 records, offsets 100 to 149"."""
    return f"{counted(end - first, 'record')}, offset{'s' if end - first > 1 else ''} {first}" + (
        f" to {end - 1}" if end - first > 1 else ""
    )


def lasting(ms: float) -> str:
    """A duration in its largest whole unit, such as "7 days" or "1,500 ms"."""
    for size, unit in _UNITS:
        if ms >= size and ms % size == 0:
            return counted(int(ms // size), unit) if unit in _WORDS else f"{int(ms // size):,} {unit}"
    return f"{ms:,.0f} ms"


def clock(at_ns: int) -> str:
    """A time to the minute: the same for what happens to many partitions at once."""
    return datetime.fromtimestamp(at_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")


def numbers(brokers: Iterable[int]) -> str:
    """Such as "broker 3" or "brokers 1, 2"."""
    named = sorted(brokers)
    return f"broker{'s' if len(named) != 1 else ''} {', '.join(map(str, named))}"


def of_look(rule: str, look: PartitionLook, *, cause: str, what: str) -> Suspicion:
    """A suspicion that rests on a look. A second look confirms it."""
    return Suspicion(
        rule=rule,
        cause=cause,
        what=what,
        at_ns=look.answered_ns,
        topic=look.topic,
        topic_id=look.topic_id,
        partition=look.partition,
        leader_epoch=look.offsets.leader_epoch,
        needs_look=True,
    )


def of_state(rule: str, state: PartitionChange, *, cause: str, what: str) -> Suspicion:
    """A suspicion that rests on the metadata log."""
    return Suspicion(
        rule=rule,
        cause=cause,
        what=what,
        at_ns=state.time_ns,
        topic=state.topic,
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        metadata_offset=state.offset,
    )


def ms_to_ns(ms: float) -> int:
    return int(ms * NS_PER_MS)
