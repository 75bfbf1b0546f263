"""The log end of a leader went back: a leader never truncates its log."""

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


class LogEndBack(Rule):
    """Compares answers of one leader epoch only, so a leader that was deposed and truncates as a follower is not
    compared."""

    name: ClassVar[str] = "log_end_back"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "Within one leader epoch the leader only appends. Records at its end have disappeared; followers that fetched "
        "them have another log now. It is a loss where the records were committed, and a danger otherwise."
    )
    remedy: ClassVar[str] = (
        "Look for errors of the leader's disk and compare the logs of all replicas. Move the leadership to a replica "
        "that still has the records."
    )
    source: ClassVar[str] = "KIP-101; UnifiedLog"
    needs: ClassVar[frozenset[str]] = frozenset({"replicas"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets
        if now.log_end >= before.log_end or now.leader_epoch != before.leader_epoch:
            return ()
        if now.log_end == UNKNOWN or now.leader_epoch == UNKNOWN or look.error is not None:
            return ()
        state = view.partition(look.topic_id, look.partition)
        leader = "unknown leader" if state is None else f"broker {state.leader}"
        what = (
            f"The log end of the leader of {look.topic}/{look.partition} went back from {before.log_end} to "
            f"{now.log_end} in leader epoch {now.leader_epoch}: {ranged(now.log_end, before.log_end)}, are not in its "
            "log any more."
        )
        suspicion = of_look(self.name, look, cause=f"{leader}, {clock(look.answered_ns)}", what=what)
        lost = now.log_end < before.high_watermark
        if lost:
            committed = ranged(now.log_end, min(before.high_watermark, before.log_end))
            suspicion = replace(suspicion, what=f"{what} Committed among them: {committed}.")
        return (
            replace(
                suspicion,
                first_offset=now.log_end,
                end_offset=before.log_end,
                severity=None if lost else Severity.DANGER,
            ),
        )

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        if look.offsets.log_end == UNKNOWN:
            return undecided(suspicion, look)
        if look.offsets.leader_epoch != suspicion.leader_epoch:
            return suspicion  # the leader has changed: nothing disproves what its answers showed
        if look.offsets.log_end < (suspicion.end_offset or 0):
            return suspicion
        # New records may have reached these offsets since. A wrong first answer would look the same.
        what = f"{suspicion.what} A second look saw the log end at {look.offsets.log_end}."
        return replace(suspicion, what=what, severity=Severity.NOTICE)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)
