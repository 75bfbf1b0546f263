"""The seam between the brokers' logs and the remote tier (KIP-405): no offset may be missing, truncated or changed.

Only segments whose metadata did not change while the probe looked are judged. A finished copy covers an offset only as
far as its leader epochs are those of the replica: a copy by another leader from before an unclean election covers
nothing of the log that came after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from harness.model.documents.steps import ClockSet
from harness.model.doubt_names import DoubtName
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.addition import Addition
from harness.verify.checks.tier.retention import ever_copied
from harness.verify.checks.tier.state import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    TIERS,
    Lineage,
    Partition,
    Segment,
    StoredObject,
    Tier,
    agreed,
    last_look,
    lineage_of,
    rows_of_look,
)
from harness.verify.engine.case import NO_BROKER, Case, Place
from harness.verify.engine.known import Known
from harness.verify.engine.runs import RecordRange
from harness.verify.sentences import promise

_GONE: Final = (Kind.LOST, Kind.LOG_START)
LISTED_MAX: Final = 50  # of a kind and partition
EARLIER_LOOKS: Final = ("loaded", "healed")
# Delay of answers after a look began, and difference between the clocks of one machine.
ANSWERS_NS: Final = 5 * 10**9
# Every finished copy has these objects; a transaction index only if the metadata does not say that it is empty.
OBJECTS: Final = ("log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot")
_TXN_INDEX: Final = "txnindex"
# RemoteLogSegmentState.isValidTransition in Kafka; a repeated state is no transition.
_NEXT: Final[Mapping[str | None, frozenset[str]]] = {
    None: frozenset({STARTED}),
    STARTED: frozenset({FINISHED, DELETING}),
    FINISHED: frozenset({DELETING}),
    DELETING: frozenset({DELETED}),
    DELETED: frozenset(),
}


def judged(known: Known) -> Addition:
    """Findings, doubts and notes, if a topic is tiered and the run finished; and whether missing records had been in
    the tier."""
    case, tier = known.case, known.of(TIERS)
    names = _tiered_topics(case)
    findings: list[Finding] = []
    notes: list[str] = []
    for one in _judged_partitions(case, tier):
        for found in (
            one.gaps(),
            one.claims(),
            one.objects(),
            one.contradictions(),
            one.states(),
        ):
            findings += one.listed(found)
        notes += one.leaks()
    doubts = [*_not_read(names, tier), *_replicas_not_seen(case, names, tier)] if names else []
    details = {run: words for run in known.reported if (words := _in_tier(run, case, tier))}
    return Addition(findings=findings, doubts=doubts, notes=notes, details=details)


def _in_tier(run: RecordRange, case: Case, tier: Tier) -> str:
    """For missing records of a tiered topic: whether they had been copied."""
    topic, place = case.contract.topics.get(run.topic), (run.topic, run.topic_id, run.partition)
    first, last = run.offset_first, run.offset_last
    if run.kind not in _GONE or topic is None or not topic.tiered or first is None or last is None:
        return ""
    return ever_copied(tier.partitions[place], first, last)


def missing_objects(case: Case, tier: Tier) -> dict[Finding, Segment]:
    """The findings that only report an object of a copy as missing, each with the copy."""
    return {
        one.finding_of(segment, what): segment
        for one in _judged_partitions(case, tier)
        for segment, defect, what in one.defects()
        if defect is _Defect.MISSING
    }


def _tiered_topics(case: Case) -> set[str]:
    """The topics to be judged; none of a run that did not finish."""
    return {name for name, topic in case.contract.topics.items() if topic.tiered} if case.complete else set()


def _judged_partitions(case: Case, tier: Tier) -> Iterator[_TieredPartition]:
    """None if the tier was not read, which proves nothing and is a doubt."""
    names = _tiered_topics(case)
    # Before an upgrade, brokers recorded nothing about empty transaction indexes.
    one_release = not (case.scenario.shape and case.scenario.shape.starts_on)
    every = [s for place, p in tier.partitions.items() if place[0] in names for s in p.segments.values()]
    knows_empty = one_release and any(segment.txn_index_empty for segment in every)
    for place, partition in sorted(tier.partitions.items()) if every else ():
        # A partition that no replica reports at the end is of a deleted topic of the same name.
        if place[0] in names and last_look(partition.replicas):
            yield _TieredPartition(case, place, partition, knows_empty)


class _Defect(Enum):
    """The defect of an object of a finished copy."""

    MISSING = auto()
    WRONG = auto()  # damaged, not as the metadata says, or changed


@dataclass(frozen=True, slots=True)
class _TieredPartition:
    """One partition. knows_empty: brokers of this release record when a segment has no transaction index."""

    case: Case
    place: Place
    partition: Partition
    knows_empty: bool

    # --- coverage ---

    def gaps(self) -> Iterator[Finding]:
        """Offsets from the log start to a replica's local log start that no finished copy has, now or at an earlier
        look."""
        at_the_end = self._missing("end", [s for s in self.partition.segments.values() if s.copied])
        for (low, high), brokers in sorted(at_the_end.items()):
            what = ", and no finished copy with the log's leader epochs has these offsets"
            yield self._gap(low, high, brokers, what)
        for look in EARLIER_LOOKS if self._timed else ():
            rows = rows_of_look(self.partition.replicas, look)
            until_ns = max((row.looked_ns for row in rows), default=0) + ANSWERS_NS
            copied = [s for s in self.partition.segments.values() if s.copied_by(until_ns)]
            for (low, high), brokers in sorted(self._missing(look, copied).items()):
                if (low, high) not in at_the_end:
                    what = f" before a copy was finished, at the look `{look}`"
                    yield self._gap(low, high, brokers, what)

    def claims(self) -> Iterator[Finding]:
        """Offsets that a replica has locally and reports as copied (ListOffsets, latest-tiered), without any
        finished copy: it deletes them as soon as retention permits. Replicas were asked before the metadata was
        read."""
        finished = [s for s in self.partition.segments.values() if s.finished_ms is not None]
        said: dict[tuple[int, int], list[int]] = {}
        for row in last_look(self.partition.replicas):
            lineage, start, highest = lineage_of(row.epochs), row.local_log_start, row.highest_tiered
            for low, high in (
                uncovered(finished, lineage, start, highest + 1) if lineage and highest is not None else ()
            ):
                said.setdefault((low, high), []).append(row.broker)
        for (low, high), brokers in sorted(said.items()):
            where = f"broker {', '.join(map(str, sorted(brokers)))}"
            detail = f"{where} reports all offsets up to {high - 1} as copied, and no copy of these was finished"
            yield self._finding(Kind.TIER_GAP, detail, (low, high - 1), where)

    def _gap(self, low: int, high: int, brokers: Sequence[int], what: str) -> Finding:
        where = f"broker {', '.join(map(str, sorted(brokers)))}"
        return self._finding(Kind.TIER_GAP, f"deleted on {where}{what}", (low, high - 1), where)

    @property
    def _timed(self) -> bool:
        """Whether the brokers' times and the times of the looks come from clocks that agree."""
        return not self.case.events(ClockSet)

    def _missing(self, look: str, copied: Sequence[Segment]) -> dict[tuple[int, int], list[int]]:
        """The brokers that lack offset ranges [low, high) which no copy has."""
        replicas = rows_of_look(self.partition.replicas, look)
        # The leader's log start counts: followers learn of it later, and must not be ahead of it.
        starts = {row.broker: row.log_start for row in replicas}
        start = starts.get(self._leader, max(starts.values(), default=0))
        missing: dict[tuple[int, int], list[int]] = {}
        for row in replicas:
            lineage = lineage_of(row.epochs)
            for low, high in uncovered(copied, lineage, start, row.local_log_start) if lineage else ():
                missing.setdefault((low, high), []).append(row.broker)
        return missing

    @property
    def _leader(self) -> int:
        """The leader at the end."""
        leaders = [p.leader for p in self.case.last_partitions if p.place == self.place]
        return NO_BROKER if not leaders or leaders[0] is None else leaders[0]

    # --- objects ---

    def objects(self) -> Iterator[Finding]:
        return (self.finding_of(segment, what) for segment, _, what in self.defects())

    def defects(self) -> Iterator[tuple[Segment, _Defect, str]]:
        """The defects of finished copies that no later one replaces."""
        wrong = self._incomplete()
        for segment in wrong:
            if not self._is_replaced(segment, wrong):
                yield from ((segment, defect, what) for defect, what in wrong[segment])

    def finding_of(self, segment: Segment, what: str) -> Finding:
        base = segment.base_offset or 0
        span = base, segment.end_offset or base
        # The name of a copy, as in the names of its objects.
        return self._finding(Kind.TIER_OBJECT, f"{base:020d}-{segment.id}{what}", span, "the remote tier")

    def _incomplete(self) -> dict[Segment, list[tuple[_Defect, str]]]:
        """Finished copies, and what is wrong with each."""
        finished = [s for s in self.partition.segments.values() if s.state == FINISHED and s.stable]
        found = {s: list(self._wrong(s, self.partition.objects.get(s.id, []))) for s in finished}
        return {s: what for s, what in found.items() if what and s.base_offset is not None}

    def _is_replaced(self, segment: Segment, wrong: Collection[Segment]) -> bool:
        """Whether a later complete copy has the same offsets. LocalTieredStorage checks only that files exist: a
        leader that loses its replica during a copy leaves an incomplete copy, marks it finished, and the next leader
        copies the segment again."""
        whole = (s for s in self.partition.segments.values() if s.state == FINISHED and s.stable and s not in wrong)
        return any(other.replaces(segment) for other in whole)

    def contradictions(self) -> Iterator[Finding]:
        """Finished copies of the same offsets and epochs with different logs, although replicas have the same
        batches."""
        logs: dict[tuple[int, int, Lineage], dict[str, str]] = {}
        for segment in self.partition.segments.values():
            seen = [row for row in last_look(self.partition.objects.get(segment.id, [])) if row.kind == "log"]
            if segment.state == FINISHED and segment.stable and seen and segment.base_offset is not None:
                key = (segment.base_offset, segment.end_offset or segment.base_offset, segment.epochs)
                logs.setdefault(key, {})[segment.id] = seen[0].sha256
        for (base, end, _), digests in sorted(logs.items()):
            if len(set(digests.values())) > 1:
                detail = f"finished copies {', '.join(sorted(digests))} of the same offsets and epochs differ"
                yield self._finding(Kind.TIER_OBJECT, detail, (base, end), "the remote tier")

    def _wrong(self, segment: Segment, rows: Sequence[StoredObject]) -> Iterator[tuple[_Defect, str]]:
        found = {row.kind: row for row in last_look(rows)}
        wanted = [*OBJECTS, *([_TXN_INDEX] if self.knows_empty and not segment.txn_index_empty else [])]
        for kind in wanted:
            if kind not in found:
                yield _Defect.MISSING, f".{kind} is missing, and the metadata says {segment.state}"
        log = found.get("log")
        if log is not None:
            yield from ((_Defect.WRONG, f".log {what}") for what in _wrong_log(segment, log))
        for row in rows if self._timed else ():
            now = found.get(row.kind)
            if now is not None and segment.copied_by(row.looked_ns) and row.sha256 != now.sha256:
                differs = f"differs from what it was at the look `{row.look}`; objects must never change"
                yield _Defect.WRONG, f".{row.kind} {differs}"

    # --- states ---

    def states(self) -> Iterator[Finding]:
        """States with which one broker contradicts itself. States of two brokers may cross when a leader is
        replaced."""
        for segment in self.partition.segments.values():
            before, writer = None, segment.reported[0][1]
            for state, broker, _ in segment.reported:
                if state != before and state not in _NEXT[before] and broker == writer:
                    came = "without having started a copy of it" if before is None else f"after {before}"
                    detail = f"broker {broker} wrote {state} for segment {segment.id} {came}"
                    span = None if segment.base_offset is None else (segment.base_offset, segment.end_offset or 0)
                    yield self._finding(Kind.TIER_STATE, detail, span, f"broker {broker}")
                before, writer = state, broker

    # --- leakage ---

    def leaks(self) -> Iterator[str]:
        """Notes on objects that take space and do no harm."""
        where = f"{self.place[0]}-{self.place[2]}"
        segments, objects = self.partition.segments, self.partition.objects
        there = {id_ for id_, rows in objects.items() if last_look(rows)}
        orphans = [id_ for id_ in there if id_ not in segments or segments[id_].state == DELETED]
        dangling = [s for s in segments.values() if s.state == STARTED and s.stable]
        wrong = self._incomplete()
        replaced = [segment for segment in wrong if self._is_replaced(segment, wrong)]
        if replaced:
            yield f"tier: {len(replaced)} copies of {where} are incomplete, and later copies of them are complete"
        if orphans:
            yield f"tier: {len(orphans)} segments of {where} have objects in the remote tier that no metadata names"
        if dangling:
            yield f"tier: {len(dangling)} copies of {where} were started and neither finished nor deleted"

    def listed(self, findings: Iterator[Finding]) -> list[Finding]:
        """At most LISTED_MAX findings, and one more with the number of the others."""
        found = list(findings)
        rest = [] if len(found) <= LISTED_MAX else [self._more(found)]
        return [*found[:LISTED_MAX], *rest]

    def _more(self, found: Sequence[Finding]) -> Finding:
        topic, topic_id, partition = self.place
        more = len(found) - LISTED_MAX
        detail = f"{more} more findings of this partition"
        return Finding(
            kind=found[0].kind, topic=topic, topic_id=topic_id, partition=partition, count=more, detail=detail
        )

    def _finding(self, kind: Kind, detail: str, span: tuple[int, int] | None, reader: str) -> Finding:
        topic, topic_id, partition = self.place
        return Finding(
            kind=kind,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            offset_first=span[0] if span else None,
            offset_last=span[1] if span else None,
            count=span[1] - span[0] + 1 if span else 1,
            reader=reader,
            detail=detail,
            contract=promise(kind, topic, None, self.case.contract),
        )


def uncovered(copied: Sequence[Segment], lineage: Lineage, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges of [start, end) that none of the copies has with the lineage's leader epochs."""
    at = start
    for low, high in sorted(piece for segment in copied for piece in agreed(segment, lineage)):
        if low > at and at < end:
            yield at, min(low, end)
        at = max(at, high)
    if at < end:
        yield at, end


def _wrong_log(segment: Segment, log: StoredObject) -> Iterator[str]:
    if log.faulty:
        yield f"is damaged: {log.faulty}"
    if log.size_bytes != segment.size_bytes:
        yield f"has {log.size_bytes} bytes, and {segment.size_bytes} according to its metadata"
    held, reported = (log.first_offset, log.last_offset), (segment.base_offset, segment.end_offset)
    if held == (None, None):
        yield "is empty"
    elif held != reported:
        yield f"has offsets {held[0]} to {held[1]}, and {reported[0]} to {reported[1]} according to its metadata"


def _not_read(names: set[str], tier: Tier) -> Iterator[Doubt]:
    """Doubts about parts of the tier that were not read."""
    if tier.unreadable:
        first = tier.unreadable[0]
        where = f"partition {first.partition}, offset {first.offset}"
        text = f"{len(tier.unreadable)} records of the remote tier's metadata cannot be decoded, the first at {where}"
        yield Doubt(DoubtName.TIER_UNREADABLE, f"{text}: {first.why}")
    known = (s for place, p in tier.partitions.items() if place[0] in names for s in p.segments.values())
    if not any(segment.finished_ms for segment in known):
        yield Doubt(DoubtName.TIER_NOT_READ, "the metadata of the remote tier was not read, or has no finished copy")
    by_topic = {name: [p for place, p in tier.partitions.items() if place[0] == name] for name in names}
    for name, partitions in sorted(by_topic.items()):
        # A topic that has left the tier has no objects there, and brokers have recorded each deletion.
        copies = [s for p in partitions for s in p.segments.values() if s.finished_ms]
        wanted = not copies or any(segment.copied for segment in copies)
        if wanted and not any(last_look(rows) for p in partitions for rows in p.objects.values()):
            yield Doubt(DoubtName.TIER_NOT_READ, f"no object of {name} was seen in the remote tier at the end")
        if lacking := [row for p in partitions for row in last_look(p.replicas) if not lineage_of(row.epochs)]:
            unknown = f"the leader epochs of {len(lacking)} replicas of {name} are unknown"
            yield Doubt(
                DoubtName.TIER_NOT_READ, f"{unknown}, so their offsets were not compared with the copies in the tier"
            )


def _replicas_not_seen(case: Case, names: set[str], tier: Tier) -> Iterator[Doubt]:
    """Replicas that did not report at the end: what they have deleted locally is unknown."""
    last = case.last_snapshot
    for p in last.partitions if last else []:
        if p.topic in names:
            partition = tier.partitions.get(p.place, Partition())
            reported = {row.broker for row in last_look(partition.replicas)}
            if silent := sorted(set(p.replicas) - reported):
                where = f"{p.topic}-{p.partition} on brokers {', '.join(map(str, silent))}"
                yield Doubt(DoubtName.TIER_NOT_READ, f"the local log start of {where} was not reported at the end")
