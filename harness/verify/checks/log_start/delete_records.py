"""Records deleted by DeleteRecords (KIP-107): they stay deleted, unless no surviving broker knows the new log start.

DeleteRecords is acknowledged when every live replica knows the new log start. A broker writes its log starts to disk
every log.flush.start.offset.checkpoint.interval.ms, and at a controlled shutdown. A broker that is killed before that
returns with the old start, and learns the new one as soon as it follows a leader that knows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.model.documents.cluster import PartitionState
from harness.model.documents.steps import RecordsDeleted
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.verify.engine.case import NO_BROKER, Case
from harness.verify.engine.elections import leader_changes
from harness.verify.engine.steps import facts_in
from harness.verify.engine.tables import UNBOUNDED

# How late a broker on an overloaded machine may write its checkpoint.
_LATE_NS: Final = 30 * 10**9


@dataclass(frozen=True, slots=True)
class _Returned:
    """In-sync brokers of a place with logs that start below an offset up to which records were deleted, with
    these starts."""

    place: PartitionState
    before: int
    starts: Mapping[int, int]

    @property
    def brokers(self) -> str:
        return f"brokers {', '.join(map(str, sorted(self.starts)))}"


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a broker without a controlled shutdown, at some time between these two."""

    from_ns: int
    to_ns: int


def deleted_records_returned(case: Case) -> Iterator[Finding]:
    """Findings: records below an acknowledged DeleteRecords offset that an in-sync replica still has, or has again."""
    for back in _returned(case, by_design=False):
        first, place = min(back.starts.values()), back.place
        yield Finding(
            kind=Kind.LOG_START,
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            offset_first=first,
            offset_last=back.before - 1,
            count=back.before - first,
            reader=back.brokers,
            detail=f"DeleteRecords up to {back.before} was acknowledged, and the log starts at {first}",
            contract="records that DeleteRecords deleted stay deleted (KIP-107)",
        )


def returned_by_design(case: Case) -> list[str]:
    """Notes on deleted records that returned because every broker that knew the new log start was killed."""
    every_s = case.contract.start_checkpoint_ms / 1000
    return [
        f"{back.place.topic}/{back.place.partition}: DeleteRecords up to {back.before} was acknowledged, and "
        f"after a SIGKILL the log of {back.brokers} starts at {min(back.starts.values())} again: by design, brokers "
        f"write log starts to disk only every {every_s:g} s"
        for back in _returned(case, by_design=True)
    ]


def returned(case: Case) -> dict[str, int]:
    """By "topic/partition": how many deleted offsets are in the log again by design."""
    return {
        f"{back.place.topic}/{back.place.partition}": back.before - min(back.starts.values())
        for back in _returned(case, by_design=True)
    }


def _returned(case: Case, *, by_design: bool) -> Iterator[_Returned]:
    last = case.last_snapshot
    for place in last.partitions if last else ():
        kept = {log.broker: log.log_start for log in place.logs if log.broker in place.isr}
        found = []
        for event, _ in case.events(RecordsDeleted):
            here = (event.topic, event.partition) == (place.topic, place.partition)
            if last and here and event.at_ns <= last.at_ns:
                before = event.before_offset
                below = {broker: start for broker, start in kept.items() if start < before}
                starts = {b: s for b, s in below.items() if _may_lack(case, event, place, b) is by_design}
                found += [_Returned(place, before, starts)] if starts else []
        yield from sorted(found, key=lambda back: -back.before)[:1]


def _may_lack(case: Case, deletion: RecordsDeleted, place: PartitionState, broker: int) -> bool:
    """Whether a broker may have returned without knowing of a deletion, and followed no leader since that knew of
    it."""
    at_ns = deletion.at_ns
    until_ns = at_ns + case.contract.start_checkpoint_ms * 10**6 + _LATE_NS
    ends = {b: [end for end in _ends(case, b) if end.to_ns >= at_ns] for b in place.replicas}
    if not any(end.from_ns <= until_ns for end in ends.get(broker, [])):
        return False
    contract = case.contract.topics.get(place.topic)
    if contract is None or contract.unclean_election:  # then it may lead without having followed another leader
        return True
    over_ns = max(end.to_ns for of_one in ends.values() for end in of_one)
    return all(ends.get(leader, [None]) for leader in _leaders_since(case, place, over_ns))


def _leaders_since(case: Case, place: PartitionState, since_ns: int) -> set[int]:
    """The known leaders of a partition at that time and later: an in-sync replica learned the log start from each of
    them, with every fetch."""
    here = (place.topic, place.partition, place.topic_id)
    changes = sorted((c for c in leader_changes(case) if c.concerns(*here)), key=lambda change: change.at_ns)
    later = [change for change in changes if change.at_ns > since_ns]
    led = [change.new_leader for change in changes if change.at_ns <= since_ns]
    first: int | None = led[-1] if led else later[0].old_leader if later else place.leader
    leaders = {first, *(change.new_leader for change in later)}
    return {leader for leader in leaders if leader is not None and leader != NO_BROKER}


def _ends(case: Case, broker: int) -> Iterator[_End]:
    for stop in facts_in(case.steps, FactKind.STOPPED):
        if stop.how is not Stop.CLEANLY and stop.concerns(broker):
            yield _End(stop.from_ns, UNBOUNDED if stop.to_ns is None else stop.to_ns)
