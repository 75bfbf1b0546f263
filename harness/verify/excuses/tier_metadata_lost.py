"""Records in the remote tier that nobody tells of any more: an unclean election of __remote_log_metadata took the word.

Brokers delete what is copied, and what is copied they know from that topic alone, which each reads anew when it starts
(KIP-405). A leader that acknowledged alone that a copy was finished takes that with it when it dies, as its
min.insync.replicas lets it: the objects are there, and no broker looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.model.contract.internal_topics import ORPHANED_OF, TIER_METADATA, InternalContract, metadata_partition
from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt
from harness.verify.checks.read_from import DENIED
from harness.verify.checks.tier_seam import OBJECTS, uncovered
from harness.verify.checks.tier_state import STARTED, Partition, Row, Tier, last_look, lineage_of, tiers_of
from harness.verify.engine.case import Case, Place, place_of
from harness.verify.engine.prepared import Prepared
from harness.verify.excuses.clauses import clauses
from harness.verify.excuses.config_history import in_force
from harness.verify.excuses.offset_loss import unclean_elections

_UNCLEAN: Final = "unclean.leader.election.enable"
_RECORDS: Final = (Kind.LOST, Kind.VANISHED)
# What brokers tell of an ISR may be older than what its leader goes by; nor is a copy finished when its object is seen.
_METADATA_NS: Final = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Orphaned:
    """Offsets from `low` on and below `high`, of records that were acknowledged by `until_ns`."""

    place: Place
    low: int
    high: int
    until_ns: int
    why: str


def orphaned_clauses(given: Prepared) -> list[tuple[Any, ...]]:
    """Rows of `EXCUSES` of records that went so, and of reads that were told that these are out of range."""
    if not any(list(_elections(case)) for case in given.cases):
        return []
    tiers = tiers_of(given)
    return [row for n, case in enumerate(given.cases) for row in _clauses(n, case, tiers[n])]


def gaps_excused(case: Case, tier: Tier, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of the seam, those excused that say no more than that nobody tells of such offsets."""
    spans = list(orphaned(case, tier))
    return [_gap_excused(finding, spans) if finding.kind is Kind.TIER_GAP else finding for finding in findings]


def holes(case: Case, spans: Sequence[Orphaned]) -> Iterator[Doubt]:
    """Holes in what was drained that are not excused whole: whatever was in them, no reader comes by."""
    for read in case.reads:
        for hole in read.get("holes") or []:
            low, high = hole["from_offset"], hole["to_offset"]
            if not _within([span for span in spans if span.place == place_of(read)], low, high):
                where = f"{read['topic']}/{read['partition']}, read as {read['isolation']}"
                yield Doubt("hole", f"offsets {low} to {high - 1} of {where} could not be read and are not excused")


def _gap_excused(finding: Finding, spans: Sequence[Orphaned]) -> Finding:
    place = finding.topic, finding.topic_id, finding.partition
    first, last = finding.offset_first, finding.offset_last
    if first is None or last is None:
        return finding
    mine = _within([span for span in spans if span.place == place], first, last + 1)
    return replace(finding, excused_by=mine[0].why) if mine else finding


def _within(spans: Sequence[Orphaned], low: int, high: int) -> list[Orphaned]:
    """Those of one partition that together have all of [low, high); none where they have not."""
    used = []
    for span in sorted(spans, key=lambda span: span.low):
        if span.low <= low < span.high and low < high:
            low = span.high
            used.append(span)
    return used if low >= high else []


def _clauses(number: int, case: Case, tier: Tier) -> Iterator[tuple[Any, ...]]:
    for span in orphaned(case, tier):
        where: dict[str, Any] = {"topic": span.place[0], "partition": span.place[2], "offsets": (span.low, span.high)}
        yield from clauses(number, _RECORDS, span.why, **where, acked_ns=(0, span.until_ns))
        yield from clauses(number, [Kind.SKIPPED_READ], span.why, **where, reason=DENIED)


def orphaned(case: Case, tier: Tier) -> Iterator[Orphaned]:
    """What the evidence shows to have gone so, as far as the contract permits it.

    A step saw it in the tier before the election, and not while the elected replica was in sync: whatever was said to
    be copied by then it has. Whole objects of it lie in the tier, of which no metadata says that they are finished or
    go. No copy that was ever finished has the offsets, nor does a replica.
    """
    for told_by, at_ns, in_sync_ns, why in _elections(case):
        for place, partition in sorted(tier.partitions.items()):
            if _reported_by(case, place) == told_by:
                known_ns = in_sync_ns - _METADATA_NS
                known, seen = _seen_below(case, place, known_ns), _seen_below(case, place, at_ns)
                for low, high in _unclaimed(partition, known_ns):
                    if max(low, known) < min(high, seen):
                        yield Orphaned(place, max(low, known), min(high, seen), at_ns, why)


def _elections(case: Case) -> Iterator[tuple[int, int, int, str]]:
    """(partition of __remote_log_metadata, when it had its leader, when that was in sync at last, why) of those that
    the contract permits to have taken what one replica acknowledged."""
    contract = case.contract.tier
    if contract is None or contract.min_insync_replicas > 1:
        return
    for partition, epoch, _, at_ns, in_sync_ns in unclean_elections(case, TIER_METADATA):
        if _permitted(case, contract, at_ns):
            alone = f"with min.insync.replicas={contract.min_insync_replicas}"
            what = "what brokers had deleted that one replica alone knew to be in the tier"
            why = f"{ORPHANED_OF}{partition} in epoch {epoch}, which the contract permits {alone}: {what}"
            yield partition, at_ns, in_sync_ns, why


def _permitted(case: Case, contract: InternalContract, at_ns: int) -> bool:
    return contract.unclean_election or in_force(case, TIER_METADATA, _UNCLEAN, "true", at_ns)


def _reported_by(case: Case, place: Place) -> int | None:
    """The partition of __remote_log_metadata that tells of a place; None where it is in no tier."""
    topic, contract = case.contract.topics.get(place[0]), case.contract.tier
    if topic is None or not topic.tiered or contract is None:
        return None
    try:
        return 0 if contract.partitions == 1 else metadata_partition(place[1], place[2], contract.partitions)
    except ValueError:  # evidence that names no topic id
        return None


def _seen_below(case: Case, place: Place, by_ns: int) -> int:
    """Up to where brokers had said by a time that the tier has it."""
    seen = [event for event, _ in case.events("tiered_seen") if event["at_ns"] <= by_ns]
    return max((e["below"] for e in seen if (e["topic"], e["partition"]) == (place[0], place[2])), default=0)


def _unclaimed(partition: Partition, known_ns: int) -> Iterator[tuple[int, int]]:
    """From and to without the last, of objects that were first seen after `known_ns` and of which nobody tells."""
    replicas = last_look(partition.replicas)
    begins = min((row["local_log_start"] for row in replicas), default=0)
    finished = [segment for segment in partition.segments.values() if segment.finished_ms is not None]
    lineages = {lineage_of(row["epochs"]) for row in replicas}
    if () in lineages:
        return  # what a replica has of which copy is not known
    for segment_id, rows in partition.objects.items():
        log = _whole(rows)
        if log is None or min(row["looked_ns"] for row in rows) <= known_ns or _said(partition, segment_id):
            continue
        spans = [(log["first_offset"], min(log["last_offset"] + 1, begins))]
        for lineage in sorted(lineages):
            spans = [gap for low, high in spans for gap in uncovered(finished, lineage, low, high)]
        yield from spans


def _whole(rows: Sequence[Row]) -> Row | None:
    """The log of a copy that is there whole at the end; None = it is not, and was never finished."""
    last = {row["kind"]: row for row in last_look(rows)}
    log = last.get("log")
    if log is None or not last.keys() >= set(OBJECTS) or log["faulty"] or log["last_offset"] is None:
        return None
    return log


def _said(partition: Partition, segment_id: str) -> bool:
    """Whether anything is told of it but that it began."""
    segment = partition.segments.get(segment_id)
    return segment is not None and any(state != STARTED for state, _, _ in segment.reported)
