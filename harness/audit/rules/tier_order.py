"""A segment of the remote tier went through its states in an order that Kafka does not allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import RemoteSegment
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock
from harness.audit.store.segments import DELETED, DELETING, FINISHED, STARTED
from harness.model.severity import Severity

_NEXT: Final[Mapping[str, frozenset[str]]] = {
    STARTED: frozenset({FINISHED, DELETING}),
    FINISHED: frozenset({DELETING}),
    DELETING: frozenset({DELETED}),
    DELETED: frozenset(),
}


class TierOrder(Rule):
    """The same state again is a retry. A segment that is not known may have begun before the metadata was read, so only
    the states of known segments are judged."""

    name: ClassVar[str] = "tier_order"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Two brokers manage the same segment, or one lost its state: a copy may be deleted that is in use, or kept "
        "although its records are deleted. Replicas that read the metadata differ about what the tier has."
    )
    remedy: ClassVar[str] = (
        "See in the logs of both brokers which one leads the partition, and check that the objects of the segment are "
        "there."
    )
    source: ClassVar[str] = "KIP-405; RemoteLogSegmentState.isValidTransition"
    needs: ClassVar[frozenset[str]] = frozenset({"tier"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_segment(self, after: RemoteSegment, before: RemoteSegment | None, view: View) -> Iterable[Suspicion]:
        if before is None or after.state == before.state or after.state in _NEXT[before.state]:
            return ()
        what = (
            f"Segment {after.segment_id} of {after.topic}/{after.partition} with offsets {after.first_offset} to "
            f"{after.last_offset} went from {before.state} to {after.state}, which is no legal order; broker "
            f"{after.broker} wrote it."
        )
        at_ns = after.at_ns or view.now_ns
        return (
            Suspicion(
                rule=self.name,
                cause=f"broker {after.broker}, {clock(at_ns)}",
                what=what,
                at_ns=at_ns,
                topic=after.topic,
                topic_id=after.topic_id,
                partition=after.partition,
                first_offset=after.first_offset if after.first_offset >= 0 else None,
                end_offset=after.last_offset + 1 if after.last_offset >= 0 else None,
                broker=after.broker if after.broker >= 0 else None,
            ),
        )

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)
