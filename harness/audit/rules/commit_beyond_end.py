"""The committed offset of a group is beyond the log end: records were lost that it had read, or it skips new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.look import CommitLook, PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten, undecided
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import ranged
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.severity import Severity


class CommitBeyondEnd(Rule):
    """A log end that was read before the commit may be lower, rightly. So a look counts that began after it."""

    name: ClassVar[str] = "commit_beyond_end"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "A group read and committed records that the log does not have any more, or the offset belongs to a deleted "
        "topic of the same name. The group continues by auto.offset.reset, or skips records once the log is as long."
    )
    remedy: ClassVar[str] = "Compare the logs of all replicas, then reset the offsets of the group to the log end."
    source: ClassVar[str] = "KIP-320; KIP-848"
    needs: ClassVar[frozenset[str]] = frozenset({"groups", "offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_commit(self, look: CommitLook, before: CommitLook | None, view: View) -> Iterable[Suspicion]:
        state = view.partition(look.topic_id, look.partition)
        if state is None or look.offset == UNKNOWN:
            return ()
        end = _end(view.offsets(look.topic_id, look.partition))
        if end == UNKNOWN or look.offset <= end:
            return ()
        suspicion = Suspicion(
            rule=self.name,
            cause=f"group {look.group}",
            what="",
            at_ns=look.answered_ns,
            topic=look.topic,
            topic_id=look.topic_id,
            partition=look.partition,
            leader_epoch=state.leader_epoch,
            needs_look=True,
        )
        return (_beyond(suspicion, end, look.offset),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        committed, end = suspicion.end_offset or 0, _end(look.offsets)
        if end == UNKNOWN or look.asked_ns < suspicion.at_ns:
            return undecided(suspicion, look)
        return _beyond(suspicion, end, committed) if committed > end else None

    def over(self, suspicion: Suspicion, view: View) -> bool:
        group, place = suspicion.cause.removeprefix("group "), (suspicion.topic_id, suspicion.partition or 0)
        now = view.committed(group).get((suspicion.topic, suspicion.partition or 0), UNKNOWN)
        return now <= _end(view.offsets(*place)) or forgotten(self, suspicion, view)


def _end(offsets: Offsets) -> int:
    return max(offsets.log_end, offsets.high_watermark)


def _beyond(suspicion: Suspicion, end: int, committed: int) -> Suspicion:
    what = (
        f"{suspicion.cause.capitalize()} committed offset {committed} in {suspicion.topic}/{suspicion.partition}, but "
        f"the log ends at {end}: {ranged(end, committed)}, are not there."
    )
    return replace(suspicion, what=what, first_offset=end, end_offset=committed)
