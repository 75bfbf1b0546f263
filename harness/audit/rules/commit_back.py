"""The committed offset of a group went back: it reads records again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.look import CommitLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import ranged
from harness.audit.store.partitions import UNKNOWN
from harness.model.severity import Severity


class CommitBack(Rule):
    """Two looks in a row must show it, because a coordinator that was deposed may answer once with what it knew. Looks
    at a topic with another id are not compared."""

    name: ClassVar[str] = "commit_back"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "An operator reset the offsets, a member committed an older offset, or the coordinator lost commits. The group "
        "processes records a second time."
    )
    remedy: ClassVar[str] = (
        "If no operator did it, see whether __consumer_offsets had an unclean election, and whether members that left "
        "the group still commit."
    )
    source: ClassVar[str] = "KIP-122, KIP-447; GroupCoordinatorService"
    needs: ClassVar[frozenset[str]] = frozenset({"groups"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._seen_once: dict[tuple[str, str, int], int] = {}  # the offset before it went back

    def on_commit(self, look: CommitLook, before: CommitLook | None, view: View) -> Iterable[Suspicion]:
        place = look.group, look.topic_id, look.partition
        was = self._seen_once.pop(place, None)
        if look.offset == UNKNOWN:
            return ()
        if was is not None:
            return (self._back(look, was),) if look.offset < was else ()
        if before is not None and before.topic_id == look.topic_id and look.offset < before.offset:
            self._seen_once[place] = before.offset
        return ()

    def over(self, suspicion: Suspicion, view: View) -> bool:
        group = suspicion.cause.removeprefix("group ")
        now = view.committed(group).get((suspicion.topic, suspicion.partition or 0), UNKNOWN)
        return now >= (suspicion.end_offset or 0) or forgotten(self, suspicion, view)

    def _back(self, look: CommitLook, was: int) -> Suspicion:
        what = (
            f"The committed offset of group {look.group} in {look.topic}/{look.partition} went back from {was} to "
            f"{look.offset}: it reads {ranged(look.offset, was)}, again."
        )
        return Suspicion(
            rule=self.name,
            cause=f"group {look.group}",
            what=what,
            at_ns=look.answered_ns,
            topic=look.topic,
            topic_id=look.topic_id,
            partition=look.partition,
            first_offset=look.offset,
            end_offset=was,
        )
