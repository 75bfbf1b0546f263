"""The log start offset went back: records that were deleted are back."""

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


class LogStartBack(Rule):
    """Compares answers of one leader epoch only. Each replica deletes its segments at its own times, so the log of
    the next leader may begin lower, rightly."""

    name: ClassVar[str] = "log_start_back"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "Within one leader epoch the log start offset only grows. Deleted records are readable again, and the leader's "
        "state of its log is wrong: it may delete other records."
    )
    remedy: ClassVar[str] = "Look in the leader's log for errors about its checkpoint of log start offsets or its disk."
    source: ClassVar[str] = "KIP-107; UnifiedLog.maybeIncrementLogStartOffset"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets
        if now.log_start >= before.log_start or now.leader_epoch != before.leader_epoch:
            return ()
        if now.log_start == UNKNOWN or now.leader_epoch == UNKNOWN or look.error is not None:
            return ()
        state = view.partition(look.topic_id, look.partition)
        leader = "unknown leader" if state is None else f"broker {state.leader}"
        what = (
            f"The log start offset of {look.topic}/{look.partition} went back from {before.log_start} to "
            f"{now.log_start} in leader epoch {now.leader_epoch}: {ranged(now.log_start, before.log_start)}, were "
            "deleted and are back."
        )
        suspicion = of_look(self.name, look, cause=f"{leader}, {clock(look.answered_ns)}", what=what)
        return (replace(suspicion, first_offset=now.log_start, end_offset=before.log_start),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        if look.offsets.log_start == UNKNOWN:
            return undecided(suspicion, look)
        if look.offsets.leader_epoch != suspicion.leader_epoch:
            return None
        return suspicion if look.offsets.log_start < (suspicion.end_offset or 0) else None

    def over(self, suspicion: Suspicion, view: View) -> bool:
        caught_up = view.offsets(suspicion.topic_id, suspicion.partition or 0).log_start >= (suspicion.end_offset or 0)
        return caught_up or forgotten(self, suspicion, view)
