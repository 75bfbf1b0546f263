"""Remote segments without metadata, because an unclean election of __remote_log_metadata lost it.

Brokers delete segments locally once they are copied, and know remote segments only from that topic, which each broker
reads again when it starts (KIP-405). If the only replica that acknowledged the end of a copy dies, as
min.insync.replicas=1 permits, the metadata is lost: the objects exist, and no broker looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from harness.model.contract.internal_topics import TIER_METADATA, metadata_partition
from harness.model.documents.contract import InternalContract
from harness.model.documents.steps import TieredSeen
from harness.model.excuse import TIER_METADATA_LOST
from harness.model.finding import Finding, Kind
from harness.verify.checks.read_from import ReadFrom
from harness.verify.checks.tier.seam import OBJECTS, uncovered
from harness.verify.checks.tier.state import (
    STARTED,
    TIERS,
    Partition,
    StoredObject,
    Tier,
    last_look,
    lineage_of,
    tiers_of,
)
from harness.verify.engine.case import Case, Place
from harness.verify.engine.elections import LeaderChange
from harness.verify.engine.known import Known
from harness.verify.engine.prepared import Prepared
from harness.verify.excuse import Excuse, Permit, Permitted
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.config_history import in_force
from harness.verify.excuses.unclean_elections import internal_elections
from harness.verify.unreadable import Unreadable, covering

_UNCLEAN: Final = "unclean.leader.election.enable"
_RECORDS: Final = (Kind.LOST, Kind.VANISHED)
# The ISR that brokers report may be older than the one that its leader uses; and a copy is not yet finished when its
# object is seen.
_METADATA_NS: Final = 2 * 10**9


def _by_tables(given: Prepared) -> list[Clause]:
    """Clauses for such records, and for reads that were answered with OFFSET_OUT_OF_RANGE there."""
    if not any(list(_elections(case)) for case in given.cases):
        return []
    tiers = tiers_of(given)
    return [row for n, case in enumerate(given.cases) for row in _clauses(n, case, tiers[n])]


def _clauses(number: int, case: Case, tier: Tier) -> Iterator[Clause]:
    for span in _orphaned(case, tier):
        at = partial(clauses, number, topic=span.place[0], partition=span.place[2], offsets=(span.low, span.high))
        yield from at(_RECORDS, span.why, evidence=span.evidence, acked_ns=(0, span.until_ns))
        yield from at([Kind.SKIPPED_READ], span.why, evidence=span.evidence, reason=ReadFrom.DENIED)


def _gaps(known: Known) -> Permit:
    """A gap that consists only of orphaned offsets."""
    spans = list(_unreadable(known))

    def permitted(finding: Finding) -> Permitted | None:
        place = finding.topic, finding.topic_id, finding.partition
        first, last = finding.offset_first, finding.offset_last
        if first is None or last is None:
            return None
        mine = covering([span for span in spans if span.place == place], first, last + 1)
        return Permitted(mine[0].why, mine[0].evidence) if mine else None

    return permitted


def _unreadable(known: Known) -> Iterator[Unreadable]:
    return _orphaned(known.case, known.of(TIERS))


def _orphaned(case: Case, tier: Tier) -> Iterator[Unreadable]:
    """Orphaned offsets that the evidence shows, as far as the contract permits them.

    A step saw them in the tier before the election, and not while the elected replica was in sync, which would know
    every copy finished by then. Complete objects of them are in the tier, without metadata that they are finished or
    deleted. No finished copy and no replica has the offsets.
    """
    for change, why in _elections(case):
        for place, partition in sorted(tier.partitions.items()):
            if _metadata_partition_of(case, place) == change.partition:
                known_ns = change.in_sync_ns - _METADATA_NS
                known, seen = _seen_below(case, place, known_ns), _seen_below(case, place, change.sure_ns)
                for low, high in _unclaimed(partition, known_ns):
                    if max(low, known) < min(high, seen):
                        yield Unreadable(place, max(low, known), min(high, seen), change.sure_ns, why, change.evidence)


def _elections(case: Case) -> Iterator[tuple[LeaderChange, str]]:
    """Elections that the contract permits to lose what a single replica acknowledged, each with the reason."""
    contract = case.contract.tier
    if contract is None or contract.min_insync_replicas > 1:
        return
    for change in internal_elections(case, TIER_METADATA):
        if _permitted(case, contract, change.at_ns):
            alone = f"with min.insync.replicas={contract.min_insync_replicas}"
            what = "it may lose the only metadata of segments that brokers had deleted locally"
            election = f"{TIER_METADATA}/{change.partition} in epoch {change.leader_epoch}"
            yield change, f"unclean election of {election}, which the contract permits {alone}: {what}"


def _permitted(case: Case, contract: InternalContract, at_ns: int) -> bool:
    return contract.unclean_election or in_force(case, TIER_METADATA, _UNCLEAN, "true", at_ns)


def _metadata_partition_of(case: Case, place: Place) -> int | None:
    """The partition of __remote_log_metadata with the metadata of a place; None if the place is not tiered."""
    topic, contract = case.contract.topics.get(place[0]), case.contract.tier
    if topic is None or not topic.tiered or contract is None:
        return None
    try:
        return 0 if contract.partitions == 1 else metadata_partition(place[1], place[2], contract.partitions)
    except ValueError:  # evidence without topic ids
        return None


def _seen_below(case: Case, place: Place, by_ns: int) -> int:
    """Offset up to which brokers had reported the place as tiered by that time."""
    seen = [event for event, _ in case.events(TieredSeen) if event.at_ns <= by_ns]
    return max((e.below for e in seen if (e.topic, e.partition) == (place[0], place[2])), default=0)


def _unclaimed(partition: Partition, known_ns: int) -> Iterator[tuple[int, int]]:
    """Ranges [low, high) of objects that were first seen after `known_ns` and have no metadata."""
    replicas = last_look(partition.replicas)
    begins = min((row.local_log_start for row in replicas), default=0)
    finished = [segment for segment in partition.segments.values() if segment.finished_ms is not None]
    lineages = {lineage_of(row.epochs) for row in replicas}
    if () in lineages:
        return  # which offsets that replica shares with a copy is unknown
    for segment_id, rows in partition.objects.items():
        log = _complete_log(rows)
        if log is None or min(row.looked_ns for row in rows) <= known_ns or _has_metadata(partition, segment_id):
            continue
        low, end = log
        spans = [(low, min(end + 1, begins))]
        for lineage in sorted(lineages):
            spans = [gap for low, high in spans for gap in uncovered(finished, lineage, low, high)]
        yield from spans


def _complete_log(rows: Sequence[StoredObject]) -> tuple[int, int] | None:
    """The first and the last offset in the log of a copy that is complete at the end; None = not so, or damaged."""
    last = {row.kind: row for row in last_look(rows)}
    log = last.get("log")
    if log is None or not last.keys() >= set(OBJECTS) or log.faulty:
        return None
    return None if log.first_offset is None or log.last_offset is None else (log.first_offset, log.last_offset)


def _has_metadata(partition: Partition, segment_id: str) -> bool:
    """Whether the metadata has more than the start of the copy."""
    segment = partition.segments.get(segment_id)
    return segment is not None and any(state != STARTED for state, _, _ in segment.reported)


EXCUSES: Final = (
    Excuse(
        name=TIER_METADATA_LOST,
        permits=f"A permitted unclean election of {TIER_METADATA} lost the metadata of copied segments.",
        kinds=(*_RECORDS, Kind.SKIPPED_READ, Kind.TIER_GAP),
        by_tables=_by_tables,
        of_findings=_gaps,
        unreadable=_unreadable,
    ),
)
