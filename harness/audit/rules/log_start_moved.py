"""The log start offset moved, and retention does not explain it: records were deleted that should still be there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.look import LogStartReason, PartitionLook
from harness.audit.rules.ending import KEEP, KEEP_S, forgotten, undecided
from harness.audit.rules.retention import (
    KEYS,
    POLICY,
    Retention,
    broker_default,
    has_partitions,
    retention_from,
    setting_of,
)
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.audit.rules.sentences import lasting, of_look, ranged
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.model.clock import NS_PER_MS, NS_PER_S
from harness.model.history.changes import AnyChange, ConfigChange, ResourceKind, TopicChange, TopicEvent
from harness.model.history.history import broker_keys
from harness.model.severity import Severity

_FROM, _YOUNG_FROM, _YOUNG_MS, _SIZE = "from", "young_from", "young_ms", "size_bytes"  # the first look's evidence
_SEGMENTS: Final = "segment deletion"
_REASONS_MAX: Final = 2_000  # lines of broker logs, of all partitions
_TOPICS_MAX: Final = 10_000  # with a known time of creation
_FORMER_MAX: Final = 1_000  # settings that changed lately


@dataclass(frozen=True, slots=True)
class _Former:
    """A setting as it was until lately. topic: "" = the default of the brokers."""

    topic: str
    key: str
    value: str | None
    until_ns: int


class LogStartMoved(Rule):
    """Retention explains a move if a limit by time or size may have been reached. What disproves a limit: a topic
    that is younger than it, a record that an earlier look found to be younger, or a log that is smaller.

    Settings that held within `settings_s` explain it too, because brokers learn of a change late. Kafka Streams
    deletes consumed records of its repartition topics, which have no limits, by DeleteRecords.
    """

    name: ClassVar[str] = "log_start_moved"
    severity: ClassVar[Severity] = Severity.LOSS
    explanation: ClassVar[str] = (
        "Records at the start of the log were deleted, although no limit of the topic was reached. The metadata log "
        "does not record DeleteRecords, so without broker logs it may have been a request of a client, and the alarm "
        "is a danger and no loss."
    )
    remedy: ClassVar[str] = (
        "Kafka keeps the files with the suffix .deleted for file.delete.delay.ms (1 min by default): stop the brokers "
        "at once and copy them. Look in their logs for 'Incremented log start offset'."
    )
    source: ClassVar[str] = "KIP-107, KIP-405, KAFKA-17062; UnifiedLog.deleteOldSegments, RemoteLogManager"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata", "offsets"})
    limits: ClassVar[Mapping[str, Limit]] = {
        "settings_s": Limit(900.0, "an earlier setting explains a move for so long"),
        "logs_s": Limit(10.0, "the line of a broker log may come so much later"),
        KEEP: KEEP_S,
    }

    def _begin(self) -> None:
        self._reasons: deque[LogStartReason] = deque(maxlen=_REASONS_MAX)
        self._former: deque[_Former] = deque(maxlen=_FORMER_MAX)
        self._created_ns: dict[str, int] = {}  # by topic id

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        if isinstance(after, TopicChange) and not after.from_snapshot:
            self._created_ns.pop(after.topic_id, None)
            if after.event is TopicEvent.CREATED:
                # At the first start of the auditor this may be long ago. The older time makes the rule weaker only.
                self._created_ns[after.topic_id] = min(view.now_ns, after.time_ns)
                if len(self._created_ns) > _TOPICS_MAX:
                    del self._created_ns[next(iter(self._created_ns))]
        elif isinstance(after, ConfigChange):
            self._remember(after, before if isinstance(before, ConfigChange) else None, view)
        return ()

    def on_log_start(self, reason: LogStartReason, view: View) -> Iterable[Suspicion]:
        self._reasons.append(reason)
        return ()

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        now = look.offsets.log_start
        if now <= before.log_start or before.log_start == UNKNOWN or look.error is not None:
            return ()
        found = self._unexplained(look, before.log_start, view)
        if found is None:
            return ()
        first, why, severity = found
        what = (
            f"The log start offset of {look.topic}/{look.partition} moved from {before.log_start} to {now}, and "
            f"retention does not explain it ({why}): {ranged(first, now)}, were deleted."
        )
        suspicion = of_look(self.name, look, cause=look.topic, what=what)
        seen = {_FROM: before.log_start, _YOUNG_FROM: look.young_from, _YOUNG_MS: look.young_ms, _SIZE: look.size_bytes}
        detail = {name: str(value) for name, value in seen.items()}
        return (replace(suspicion, first_offset=first, end_offset=now, severity=severity, detail=detail),)

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        if look.offsets.log_start == UNKNOWN:
            return undecided(suspicion, look)
        if look.offsets.log_start < (suspicion.end_offset or 0):
            return None  # of another replica, which still has the records, or a wrong answer
        if self._explained_now(suspicion, look, view):
            return None
        if not view.covers("logs"):
            what = f"{suspicion.what} It may have been DeleteRecords, which only broker logs show."
            low = Severity.DANGER if suspicion.severity is None else suspicion.severity
            return replace(suspicion, what=what, severity=low)
        suspicion = self._explained_below(suspicion)
        logged = self._logged(suspicion)
        if logged is not None:
            by_time = logged.reason == _SEGMENTS and "time" in logged.breach
            if logged.reason != _SEGMENTS or (by_time and suspicion.severity is Severity.NOTICE):
                return None  # DeleteRecords; or records with old timestamps in a young topic
            what = f"{suspicion.what} Broker {logged.broker} logged: {logged.reason} {logged.breach}".rstrip()
            return replace(suspicion, what=f"{what}.")
        if look.answered_ns - suspicion.at_ns < self.limit["logs_s"] * NS_PER_S:
            return replace(suspicion, again=True)
        return replace(suspicion, what=f"{suspicion.what} No broker logged a reason for that.")

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return forgotten(self, suspicion, view)

    def _explained_now(self, suspicion: Suspicion, look: PartitionLook, view: View) -> bool:
        """Whether settings explain the move that were not known at the first look: brokers apply them at once."""
        seen = {name: int(value) for name, value in suspicion.detail.items()}
        first = replace(
            look,
            offsets=replace(look.offsets, log_start=suspicion.end_offset or 0),
            young_from=seen[_YOUNG_FROM],
            young_ms=seen[_YOUNG_MS],
            size_bytes=seen[_SIZE],
        )
        return self._unexplained(first, seen[_FROM], view) is None

    def _unexplained(self, look: PartitionLook, first: int, view: View) -> tuple[int, str, Severity | None] | None:
        """(the first record that retention may not have deleted, why, a lower severity); None if it explains all."""
        retentions = self._retentions(look.topic, view)
        purged = look.topic.endswith("-repartition") and not view.covers("logs")
        if not retentions or purged:
            return None
        if not any(retention.by_time or retention.by_size for retention in retentions):
            return first, str(retentions[0]), None
        smallest = min((r.bytes for r in retentions if r.by_size), default=None)
        if smallest is not None and not self._too_small(look, smallest, view):
            return None
        small = "" if smallest is None else f"the log has less than retention.bytes={smallest}"
        shortest = min((r.ms for r in retentions if r.by_time), default=None)
        if shortest is None:
            return first, small, None
        young = self._too_young(look, shortest, view)
        if young is None:
            return None
        from_offset, why, severity = young
        return max(first, from_offset), f"{why}, {small}" if small else why, severity

    def _retentions(self, topic: str, view: View) -> list[Retention]:
        """The retention now, and those that held lately; empty if one is not known."""
        now = {key: setting_of(topic, key, view) for key in KEYS}
        found = [retention_from(*now.values())]
        for former in self._former:
            if former.until_ns < view.now_ns or former.topic not in (topic, ""):
                continue
            if former.topic == topic or view.own_setting(topic, former.key) is None:
                found.append(retention_from(*(now | {former.key: former.value}).values()))
        known = [retention for retention in found if retention is not None]
        return known if len(known) == len(found) else []

    def _remember(self, after: ConfigChange, before: ConfigChange | None, view: View) -> None:
        """Keeps what a setting was, for a while. The settings of a new topic replace none."""
        if before is None and after.from_snapshot:
            return
        until_ns = min(view.now_ns, after.time_ns) + int(self.limit["settings_s"] * NS_PER_S)
        if after.kind is ResourceKind.TOPIC and after.key in KEYS and has_partitions(after.name, view):
            was = setting_of("", after.key, view) if before is None else before.value
            self._former.append(_Former(after.name, after.key, was, until_ns))
        for key in KEYS:
            if after.kind is ResourceKind.BROKER and after.key in broker_keys(key):
                was = broker_default(after.key, key, view) if before is None else before.value
                self._former.append(_Former("", key, was, until_ns))

    def _too_small(self, look: PartitionLook, limit: int, view: View) -> bool:
        """Whether less is left than retention by size leaves."""
        if look.size_bytes == UNKNOWN or "compact" in (view.setting(look.topic, POLICY) or ""):
            return False  # compaction makes a log smaller, too
        if view.setting(look.topic, "remote.storage.enable") != "true":
            return look.size_bytes < limit
        tier = view.tier_bytes(look.topic_id, look.partition)
        return tier is not None and look.size_bytes + tier < limit

    def _too_young(self, look: PartitionLook, limit_ms: int, view: View) -> tuple[int, str, Severity | None] | None:
        """(the first record that is certainly younger than the limit, how that is known, a lower severity)."""
        of_limit = 0 <= look.young_ms <= limit_ms  # not of a longer retention, which held until just now
        if of_limit and 0 <= look.young_from < look.offsets.log_start:
            return (
                look.young_from,
                f"records from offset {look.young_from} on are younger than {lasting(limit_ms)}",
                None,
            )
        if look.young_from >= look.offsets.log_start:
            return None  # the deleted records had older timestamps, whatever the age of the topic
        created_ns = self._created_ns.get(look.topic_id)
        if created_ns is None or view.now_ns - created_ns >= limit_ms * NS_PER_MS:
            return None
        why = f"the topic is younger than retention.ms={limit_ms}"
        if view.setting(look.topic, "message.timestamp.type") == "LogAppendTime":
            return 0, why, None
        return 0, f"{why}, and only records with older timestamps may be deleted", Severity.NOTICE

    def _lines(self, suspicion: Suspicion) -> Iterator[LogStartReason]:
        """The lines about this partition, the last one first. Those of followers only say that they follow."""
        for line in reversed(self._reasons):
            if (line.topic, line.partition) == (suspicion.topic, suspicion.partition) and "leader" not in line.reason:
                yield line

    def _logged(self, suspicion: Suspicion) -> LogStartReason | None:
        """The line of the leader about this move."""
        return next((line for line in self._lines(suspicion) if line.log_start == suspicion.end_offset), None)

    def _explained_below(self, suspicion: Suspicion) -> Suspicion:
        """Without the records that a logged DeleteRecords explains, if the log start moved on from there."""
        first, end = suspicion.first_offset or 0, suspicion.end_offset or 0
        explained = max(
            (line.log_start for line in self._lines(suspicion) if line.reason != _SEGMENTS and line.log_start < end),
            default=first,
        )
        return replace(suspicion, first_offset=max(first, explained))
