"""A new leader epoch begins below the committed end of the last one: the exact records that an election lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import clock, of_look, ranged
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.severity import Severity

_COMMITTED_IN: Final = "committed in epoch"


class EpochBelowCommit(Rule):
    """Without the start of the new epoch its high watermark counts: a new leader answers only after that has reached
    the log end which it had when it was elected (KIP-207), so a lower one proves the loss of at least the rest."""

    name: ClassVar[str] = "epoch_below_commit"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "The log of a new leader ended below offsets that were committed under the last leader. The records from "
        "there on are lost, and new records get their offsets."
    )
    remedy: ClassVar[str] = (
        "Stop the producers of this topic. A replica of the former ISR that has not started yet still has the records: "
        "keep a copy of its log, because it truncates when it follows the new leader."
    )
    source: ClassVar[str] = "KIP-101, KIP-207, KIP-966"
    needs: ClassVar[frozenset[str]] = frozenset({"offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets
        if now.leader_epoch <= before.leader_epoch or look.error is not None:
            return ()
        if before.leader_epoch == UNKNOWN or before.high_watermark <= 0:
            return ()
        start = _start_after(before.leader_epoch, look, view)
        first = now.high_watermark if start is None else start
        if first == UNKNOWN or first >= before.high_watermark:
            return ()
        state = view.partition(look.topic_id, look.partition)
        leader = "unknown leader" if state is None else f"broker {state.leader}"
        suspicion = of_look(self.name, look, cause=f"{leader}, {clock(look.answered_ns)}", what="")
        found = replace(suspicion, end_offset=before.high_watermark, detail={_COMMITTED_IN: str(before.leader_epoch)})
        # A high watermark that has grown since would dismiss it wrongly, so only the start of the epoch is asked again.
        return (_at_risk(found, first, is_start=start is not None),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        start = _start_after(int(suspicion.detail[_COMMITTED_IN]), look, view)
        if start is None:
            return suspicion
        return _at_risk(suspicion, start, is_start=True) if start < (suspicion.end_offset or 0) else None

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)


def _start_after(epoch: int, look: PartitionLook, view: View) -> int | None:
    """Where the first epoch after this one begins; None if the leader was not asked."""
    chain = look.epochs or view.epochs(look.topic_id, look.partition)
    return min((start for later, start in chain if later > epoch), default=None)


def _at_risk(suspicion: Suspicion, first: int, *, is_start: bool) -> Suspicion:
    end = suspicion.end_offset or 0
    where = "begins at" if is_start else "has the high watermark"
    at_least = "" if is_start else "at least "
    what = (
        f"Leader epoch {suspicion.leader_epoch} of {suspicion.topic}/{suspicion.partition} {where} {first}, but "
        f"records up to offset {end - 1} were committed in epoch {suspicion.detail[_COMMITTED_IN]}: {at_least}"
        f"{ranged(first, end)}, are lost."
    )
    return replace(suspicion, what=what, first_offset=first, needs_look=is_start)
