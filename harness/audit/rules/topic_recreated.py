"""A topic was created with the name of one that was deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, TopicChange, TopicEvent
from harness.model.severity import Severity

_NAMES_MAX: Final = 10_000  # deleted topics that are remembered


class TopicRecreated(Rule):
    name: ClassVar[str] = "topic_recreated"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "The new topic has another id and none of the old records. Clients that kept an offset of the old topic skip "
        "records of the new one, or read none until its log reaches that offset."
    )
    remedy: ClassVar[str] = "Reset the offsets of the groups that read the old topic, and restart their clients."
    source: ClassVar[str] = "KIP-516, KIP-848"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def _begin(self) -> None:
        self._deleted: dict[str, str] = {}  # name -> id of the last one

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if not isinstance(after, TopicChange):
            return ()
        if after.event is TopicEvent.DELETED:
            if view.topic_id(after.topic) not in (None, after.topic_id):
                # A snapshot names the new topic first.
                return (self._recreated(after, str(view.topic_id(after.topic)), after.topic_id),)
            self._deleted[after.topic] = after.topic_id
            if len(self._deleted) > _NAMES_MAX:
                del self._deleted[next(iter(self._deleted))]
            return ()
        old = self._deleted.pop(after.topic, None)
        return () if old in (None, after.topic_id) else (self._recreated(after, after.topic_id, str(old)),)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        age_s = (view.now_ns - suspicion.at_ns) / NS_PER_S
        kept_s = self.limit_of(suspicion.topic, KEEP)
        return age_s > kept_s or view.topic_id(suspicion.topic) != suspicion.topic_id

    def _recreated(self, change: TopicChange, new: str, old: str) -> Suspicion:
        return Suspicion(
            rule=self.name,
            cause=f"topic {change.topic}, id {new}",
            what=f"Topic {change.topic} was created again with id {new}; the deleted one had id {old}.",
            at_ns=change.time_ns,
            topic=change.topic,
            topic_id=new,
            metadata_offset=change.offset,
        )
