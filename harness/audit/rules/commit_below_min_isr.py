"""Records were committed while fewer replicas were in sync than min.insync.replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock, of_look, ranged
from harness.audit.rules.standing import Standing, missing_replicas, needed_in_sync
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, PartitionChange
from harness.model.severity import Severity

_STEP: Final = "step"
_SETTLING: Final = "the leader may not know the ISR yet"
_WATCHING: Final = "waits for the high watermark to move"
_MOVED: Final = "the metadata log may not say yet that the ISR grew"
_PLACES_MAX: Final = 10_000
_METADATA_VERSION: Final = "metadata.version"
_SINCE: Final = 15  # 3.7-IV0: every broker is 3.7 or later


class CommitBelowMinIsr(Rule):
    """A leader and the metadata log learn of a new ISR at slightly different times. So the high watermark has to move
    between two looks, with `settle_s` before the first and after the second in which the partition did not change."""

    name: ClassVar[str] = "commit_below_min_isr"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Since 3.7 a leader does not move the high watermark while its ISR is below min.insync.replicas. It did, so "
        "records were acknowledged that fewer replicas have than was promised."
    )
    remedy: ClassVar[str] = (
        "Bring the missing replicas back before the leader fails, and report it: the release breaks its promise."
    )
    source: ClassVar[str] = "KAFKA-15583; Partition.maybeIncrementLeaderHW"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata", "offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {
        "settle_s": Limit(2.0, "the leader and the metadata log may know different ISRs for so long"),
        "watch_s": Limit(10.0, "the high watermark is watched for so long"),
        "again_s": Limit(30.0, "a partition is suspected again after this time"),
        KEEP: KEEP_S,
    }

    def _begin(self) -> None:
        self._standing = Standing(missing_replicas)
        self._suspected_ns: dict[tuple[str, int], int] = {}

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._standing.note(state, view)

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        self._standing.note_change(after, view)
        return ()

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets
        if now.high_watermark <= before.high_watermark or now.leader_epoch != before.leader_epoch:
            return ()
        if before.high_watermark == UNKNOWN or look.error is not None:
            return ()
        if not self._standing.holds(look.topic_id, look.partition):
            return ()
        state = view.partition(look.topic_id, look.partition)
        if state is None or state.leader_epoch != now.leader_epoch or _needed(state, view) is None:
            return ()
        place, again_s = (look.topic_id, look.partition), self.limit_of(look.topic, "again_s")
        if look.answered_ns - self._suspected_ns.get(place, 0) < again_s * NS_PER_S:
            return ()
        self._suspected_ns[place] = look.answered_ns
        if len(self._suspected_ns) > _PLACES_MAX:
            del self._suspected_ns[next(iter(self._suspected_ns))]
        what = f"The high watermark of {look.topic}/{look.partition} moved below min.insync.replicas."
        suspicion = of_look(self.name, look, cause=f"broker {state.leader}, {clock(look.answered_ns)}", what=what)
        return (
            replace(
                suspicion,
                metadata_offset=state.offset,
                broker=state.leader,
                detail={_STEP: _SETTLING},
                limits={"settle_s": self.limit_of(look.topic, "settle_s")},
            ),
        )

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        state = view.partition(look.topic_id, look.partition)
        needed = None if state is None else _needed(state, view)
        if state is None or needed is None or state.offset != suspicion.metadata_offset:
            return None
        if look.offsets.leader_epoch != suspicion.leader_epoch or not view.covers("metadata"):
            return None
        if look.offsets.high_watermark == UNKNOWN:
            return None
        return self._next_step(suspicion, look, state, needed)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        state = view.partition(suspicion.topic_id, suspicion.partition or 0)
        enough = state is not None and _needed(state, view) is None
        return enough or forgotten(self, suspicion, view)

    def _next_step(
        self, suspicion: Suspicion, look: PartitionLook, state: PartitionChange, needed: int
    ) -> Suspicion | None:
        step, seen = suspicion.detail[_STEP], look.offsets.high_watermark
        waited_s = (look.asked_ns - suspicion.at_ns) / NS_PER_S
        settled = waited_s >= self.limit_of(suspicion.topic, "settle_s")
        if step == _WATCHING:
            if seen > (suspicion.first_offset or 0):
                moved = replace(suspicion, end_offset=seen, at_ns=look.answered_ns, detail={_STEP: _MOVED})
                return replace(moved, again=True)
            watched = waited_s >= self.limit_of(suspicion.topic, "watch_s")
            return None if watched else replace(suspicion, again=True)
        if not settled:
            return replace(suspicion, again=True)
        if step == _SETTLING:
            watching = replace(suspicion, first_offset=seen, at_ns=look.answered_ns, detail={_STEP: _WATCHING})
            return replace(watching, again=True)
        first, end = suspicion.first_offset or 0, suspicion.end_offset or 0
        what = (
            f"The high watermark of {look.topic}/{look.partition} moved from {first} to {end} in leader epoch "
            f"{state.leader_epoch} while the ISR was {[*state.isr]} in partition epoch {state.partition_epoch}, fewer "
            f"than the {needed} replicas that min.insync.replicas requires: {ranged(first, end)}, were committed."
        )
        return replace(suspicion, what=what)


def _needed(state: PartitionChange, view: View) -> int | None:
    """How many replicas have to be in sync; None if there are enough, or if the release need not wait for them."""
    if view.feature(_METADATA_VERSION) < _SINCE:
        return None
    needed = needed_in_sync(state, view)
    return needed if len(state.isr) < needed else None
