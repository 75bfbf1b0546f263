"""The committed offset of a group disappeared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.look import CommitLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.store.partitions import UNKNOWN
from harness.model.severity import Severity


class CommitRemoved(Rule):
    """Two looks in a row must show it. With the topic its offsets are removed, too, and a new topic has none yet:
    neither is reported here."""

    name: ClassVar[str] = "commit_removed"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = (
        "The offset expired, an operator deleted the group or its offsets, or the coordinator lost it. The group "
        "continues by auto.offset.reset: with `latest` it skips every record that it has not read."
    )
    remedy: ClassVar[str] = (
        "Set the offset again (kafka-consumer-groups.sh --reset-offsets --to-offset) before a member starts. Raise "
        "offsets.retention.minutes above the longest time without a member."
    )
    source: ClassVar[str] = "KIP-211; offsets.retention.minutes"
    needs: ClassVar[frozenset[str]] = frozenset({"groups"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._seen_once: dict[tuple[str, str, int], int] = {}  # the offset that disappeared

    def on_commit(self, look: CommitLook, before: CommitLook | None, view: View) -> Iterable[Suspicion]:
        place = look.group, look.topic_id, look.partition
        was = self._seen_once.pop(place, None)
        if look.offset != UNKNOWN or view.topic_id(look.topic) != look.topic_id:
            return ()
        if was is not None:
            return (self._removed(look, was, view),)
        if before is not None and before.topic_id == look.topic_id and before.offset != UNKNOWN:
            self._seen_once[place] = before.offset
        return ()

    def over(self, suspicion: Suspicion, view: View) -> bool:
        group = suspicion.cause.removeprefix("group ")
        now = view.committed(group).get((suspicion.topic, suspicion.partition or 0), UNKNOWN)
        return now != UNKNOWN or forgotten(self, suspicion, view)

    def _removed(self, look: CommitLook, was: int, view: View) -> Suspicion:
        end = view.offsets(look.topic_id, look.partition).high_watermark
        behind = f", and the high watermark was {end} at the last look" if end != UNKNOWN else ""
        return Suspicion(
            rule=self.name,
            cause=f"group {look.group}",
            what=f"Group {look.group} has no committed offset in {look.topic}/{look.partition} any more; it was {was}"
            f"{behind}.",
            at_ns=look.answered_ns,
            topic=look.topic,
            topic_id=look.topic_id,
            partition=look.partition,
            first_offset=was,
            end_offset=max(was, end) if end != UNKNOWN else None,
        )
