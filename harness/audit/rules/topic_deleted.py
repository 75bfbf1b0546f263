"""A topic was deleted: all of its records are removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S
from harness.audit.rules.retention import whole
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import NAMED_MAX, counted, lasting, ms_to_ns
from harness.audit.store.partitions import UNKNOWN
from harness.model.clock import NS_PER_S
from harness.model.history.changes import AnyChange, TopicChange, TopicEvent
from harness.model.severity import Severity

_DELAY: Final = "log.segment.delete.delay.ms"
_DELAY_MS_DEFAULT: Final = 60_000


class TopicDeleted(Rule):
    """A snapshot that shows the deletion has no time for it, so then no time is left either."""

    name: ClassVar[str] = "topic_deleted"
    severity: ClassVar[Severity] = Severity.DANGER
    explanation: ClassVar[str] = "Brokers remove the files of a deleted topic after file.delete.delay.ms."
    remedy: ClassVar[str] = (
        "If it was a mistake, stop the brokers before the time is over and copy the folders with the suffix -delete. "
        "Records in the remote tier are deleted, too."
    )
    source: ClassVar[str] = "KIP-516; LogManager.deleteLogs"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if not isinstance(after, TopicChange) or after.event is not TopicEvent.DELETED:
            return ()
        return self._suspicions(after, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return view.now_ns - suspicion.at_ns > self.limit_of(suspicion.topic, KEEP) * NS_PER_S

    def _suspicions(self, after: TopicChange, view: View) -> Iterator[Suspicion]:
        delay_ms = whole(view.broker_setting(_DELAY))
        delay_ms = _DELAY_MS_DEFAULT if delay_ms is None else delay_ms
        partitions = 0
        for partition in count():
            if view.partition(after.topic_id, partition) is None:
                break
            partitions += 1
        left = "" if after.from_snapshot else f" Brokers remove its files after {lasting(delay_ms)}."
        what = f"Topic {after.topic} with id {after.topic_id} and {counted(partitions, 'partition')} was deleted.{left}"
        first = Suspicion(
            rule=self.name,
            cause=f"topic {after.topic}, id {after.topic_id}",
            what=what,
            at_ns=after.time_ns,
            topic=after.topic,
            topic_id=after.topic_id,
            metadata_offset=after.offset,
            deleted_at_ns=None if after.from_snapshot else after.time_ns + ms_to_ns(delay_ms),
        )
        others = max(0, partitions - NAMED_MAX)
        for partition in range(min(partitions, NAMED_MAX)):
            seen = view.offsets(after.topic_id, partition)
            known = UNKNOWN not in (seen.log_start, seen.high_watermark)
            yield replace(
                first,
                partition=partition,
                first_offset=seen.log_start if known else None,
                end_offset=seen.high_watermark if known else None,
                others=others if partition == 0 else 0,
            )
        if not partitions:
            yield first
