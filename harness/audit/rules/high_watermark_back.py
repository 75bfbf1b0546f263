"""The high watermark went back: committed records are no longer readable, or are lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten, undecided
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock, of_look, ranged
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.severity import Severity


class HighWatermarkBack(Rule):
    """Compares answers of one leader epoch only. In a new epoch a leader answers with its high watermark only after
    that has reached the start of the epoch (KIP-207), so there a lower one is the subject of `epoch_below_commit`.
    """

    name: ClassVar[str] = "high_watermark_back"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "Within one leader epoch the high watermark never goes back. Records above it were committed and no reader "
        "gets them now."
    )
    remedy: ClassVar[str] = (
        "Stop the producers of this topic before they write other records at these offsets, and compare the logs of "
        "all replicas."
    )
    source: ClassVar[str] = "KIP-101, KIP-207; Partition.maybeIncrementLeaderHW"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets
        if now.high_watermark >= before.high_watermark or now.leader_epoch != before.leader_epoch:
            return ()
        if now.high_watermark == UNKNOWN or now.leader_epoch == UNKNOWN or look.error is not None:
            return ()
        state = view.partition(look.topic_id, look.partition)
        leader = "unknown leader" if state is None else f"broker {state.leader}"
        suspicion = of_look(self.name, look, cause=f"{leader}, {clock(look.answered_ns)}", what="")
        return (_at_risk(suspicion, now.high_watermark, before.high_watermark),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        end = suspicion.end_offset or 0
        epoch, seen = look.offsets.leader_epoch, look.offsets.high_watermark
        if seen == UNKNOWN or epoch < (suspicion.leader_epoch or 0):
            return undecided(suspicion, look)
        # A lower high watermark of the next leader proves it too, because its answer comes after KIP-207.
        return _at_risk(suspicion, min(seen, suspicion.first_offset or 0), end) if seen < end else None

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)


def _at_risk(suspicion: Suspicion, first: int, end: int) -> Suspicion:
    what = (
        f"The high watermark of {suspicion.topic}/{suspicion.partition} went back from {end} to {first} in leader "
        f"epoch {suspicion.leader_epoch}: {ranged(first, end)}, were committed and are not readable."
    )
    return replace(suspicion, what=what, first_offset=first, end_offset=end)
