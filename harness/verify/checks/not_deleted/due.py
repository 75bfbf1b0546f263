"""What was due for deletion before the quiet time at the end of a run: by age, by size, and below a log start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.contract.contract import APPEND_TIME
from harness.model.documents.cluster import Snapshot
from harness.model.documents.contract import TopicContract
from harness.model.documents.steps import RecordsDeleted
from harness.model.facts import OBSERVED, FactKind
from harness.verify.engine.case import Case
from harness.verify.engine.tables import UNBOUNDED
from harness.verify.excuses.config_history import compacted_until, config_history
from harness.verify.excuses.retention import RETENTION_BYTES, RETENTION_MS

# Far longer than a broker on a busy machine needs for a look, which it takes every interval.
QUIET_NS: Final = 30 * 10**9
LOOKS: Final = 4
INTERVAL: Final = "log.retention.check.interval.ms"
# Of leaders for the remote tier, and of followers, which ask it how far it has copies.
TIER_INTERVAL: Final = "remote.log.manager.task.interval.ms"
# A broker looks for the first time so long after its start.
FIRST_LOOK: Final = "log.initial.task.delay.ms"
FIRST_LOOK_MS: Final = 30_000
_POLICY: Final = "cleanup.policy"
_NO_COPIES: Final = "remote.log.copy.disable"
LOCAL_MS: Final = "local.retention.ms"
LOCAL_BYTES: Final = "local.retention.bytes"
_AS_THE_TOPIC: Final = -2  # a limit on disks that is that of the whole topic
# After these a replica may legally have files that its broker does not manage, or another idea of the time.
_UNCLEAR: Final = frozenset(
    {
        FactKind.CLOCK_CHANGED,
        FactKind.DATA_LOST,
        FactKind.DISK_DAMAGED,
        FactKind.DISK_FAILED,
        FactKind.DISK_FILLED,
        FactKind.METADATA_DAMAGED,
        FactKind.TOPIC_DELETED,
    }
)
# After these, objects may be missing; a leader that cannot delete one of them does not go on to the next segment.
_UNCLEAR_IN_TIER: Final = _UNCLEAR | {FactKind.TIER_OBJECTS_CHANGED, FactKind.TIER_LEFT}
_STARTS: Final = (FactKind.STOPPED, FactKind.UPGRADED, FactKind.DOWNGRADE_TRIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits by age and by size that were in force at `by_ms`; None = no such limit.

    deleted: by partition, the offset below which DeleteRecords had deleted everything.
    """

    by_ms: int
    keep_ms: int | None
    keep_bytes: int | None
    deleted: Mapping[int, int]


_LimitsOf = Callable[[Case, str, TopicContract, Snapshot, int], Limits]


def due_on_disks(case: Case) -> dict[str, Limits]:
    """The limits of each topic on brokers, if no step disturbed its retention for long enough. In a topic with a tier
    they concern segments that were copied."""
    plain = _due(case, (INTERVAL,), _UNCLEAR, tiered=False, limits=_of_the_topic)
    return plain | _due(case, (INTERVAL, TIER_INTERVAL), _UNCLEAR_IN_TIER, tiered=True, limits=_of_disks)


def due_in_tier(case: Case) -> dict[str, Limits]:
    """The limits of each topic in the remote tier, which leaders look at in an interval of its own."""
    return _due(case, (TIER_INTERVAL,), _UNCLEAR_IN_TIER, tiered=True, limits=_of_the_topic)


def _due(
    case: Case, intervals: Sequence[str], unclear: frozenset[FactKind], *, tiered: bool, limits: _LimitsOf
) -> dict[str, Limits]:
    topics = {name: topic for name, topic in case.contract.topics.items() if topic.tiered == tiered}
    last = case.last_snapshot
    if not (topics and case.complete and case.nodes_were_up and last and case.run.recovered and case.run.recovered.ok):
        return {}
    facts = [fact for step in case.steps for fact in step.facts if fact.kind not in OBSERVED]
    if case.run.exits or any(fact.kind in unclear for fact in facts):
        return {}
    looks = [_of_brokers(last, interval) for interval in intervals]
    first_ms = _of_brokers(last, FIRST_LOOK) or FIRST_LOOK_MS
    if None in looks:
        return {}
    by_ns = last.at_ns - QUIET_NS - LOOKS * max(look or 0 for look in looks) * 10**6
    disturbed_ns = [(case.run.started_ns or UNBOUNDED) + first_ms * 10**6]
    for fact in facts:
        if fact.kind is not FactKind.CONFIG_SET:
            until_ns = UNBOUNDED if fact.to_ns is None else fact.to_ns
            disturbed_ns.append(until_ns + (first_ms * 10**6 if fact.kind in _STARTS else 0))
    if max(disturbed_ns) > by_ns:
        return {}
    judged = {name: topic for name, topic in topics.items() if _is_plain(case, name, topic)}
    found = {name: limits(case, name, topic, last, by_ns) for name, topic in judged.items()}
    return {name: one for name, one in found.items() if (one.keep_ms, one.keep_bytes) != (None, None) or one.deleted}


def _of_brokers(snapshot: Snapshot, key: str) -> int | None:
    """The largest value of a setting of the brokers; None if one does not report it."""
    values = [settings.get(key) for settings in (snapshot.broker_configs or {}).values()]
    known = [int(value) for value in values if value is not None and value.isdecimal()]
    return max(known) if known and len(known) == len(values) else None


def _is_plain(case: Case, name: str, topic: TopicContract) -> bool:
    """Whether retention decides when a segment goes at the latest, and timestamps say how old records are."""
    # Else a record may have an old timestamp, and have been appended just now.
    backdated = not case.of_harness or any(producer.backdated_ms for producer in case.contract.producers.values())
    if topic.tier_off or not topic.deletes or len(config_history(case, name, _POLICY)) > 1:
        return False
    # A cleaner that compacts a log deletes its old segments, too (cleanup.policy=compact,delete).
    steady = topic.compacted or compacted_until(case, name) is None
    return steady and (not backdated or topic.timestamp_type == APPEND_TIME)


def _of_the_topic(case: Case, name: str, topic: TopicContract, last: Snapshot, by_ns: int) -> Limits:
    keep_ms = _kept(case, name, RETENTION_MS, topic.retention_ms, last, by_ns)
    keep_bytes = _kept(case, name, RETENTION_BYTES, topic.retention_bytes, last, by_ns)
    return _limits(case, name, by_ns, keep_ms, keep_bytes)


def _of_disks(case: Case, name: str, topic: TopicContract, last: Snapshot, by_ns: int) -> Limits:
    """Those of `local.retention.*`. While a topic is not copied, those of the whole topic are in force."""
    whole = _of_the_topic(case, name, topic, last, by_ns)
    settings = (last.topic_configs or {}).get(name) or {}
    changed = any(len(config_history(case, name, key)) > 1 for key in (LOCAL_MS, LOCAL_BYTES, _NO_COPIES))
    if changed or settings.get(_NO_COPIES) == "true":
        return whole
    keep_ms = _local(settings.get(LOCAL_MS), whole.keep_ms)
    return _limits(case, name, by_ns, keep_ms, _local(settings.get(LOCAL_BYTES), whole.keep_bytes))


def _local(reported: str | None, of_topic: int | None) -> int | None:
    value = _AS_THE_TOPIC if reported is None else int(reported)
    if value == _AS_THE_TOPIC:
        return of_topic
    return None if value < 0 else value


def _limits(case: Case, name: str, by_ns: int, keep_ms: int | None, keep_bytes: int | None) -> Limits:
    by_ms = by_ns // 10**6
    nothing_so_old = keep_ms is not None and by_ms - keep_ms < (case.run.started_ns or 0) // 10**6
    deleted: dict[int, int] = {}
    for event, _ in case.events(RecordsDeleted):
        if event.topic == name and event.at_ns <= by_ns:
            deleted[event.partition] = max(event.before_offset, deleted.get(event.partition, 0))
    return Limits(by_ms=by_ms, keep_ms=None if nothing_so_old else keep_ms, keep_bytes=keep_bytes, deleted=deleted)


def _kept(case: Case, topic: str, key: str, declared: int, last: Snapshot, by_ns: int) -> int | None:
    """The largest value that a setting had from then on; None = no limit, or unknown."""
    reported = ((last.topic_configs or {}).get(topic) or {}).get(key)
    periods = [period for period in config_history(case, topic, key) if period.until_ns >= by_ns]
    values = [declared if period.value is None else int(period.value) for period in periods]
    if reported is None or min([*values, int(reported)]) < 0:
        return None
    return max([*values, int(reported)])
