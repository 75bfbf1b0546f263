"""How much of a topic retention may delete, and when: the contract's limits, and those that a step set during the
run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import APPEND_TIME
from harness.model.contract.kafka_defaults import RETENTION_MS_DEFAULT
from harness.verify.engine.case import Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.tables import frame
from harness.verify.excuses.clock_skew import ahead_ms
from harness.verify.excuses.config_history import compacted_until, config_history, deletes_until

RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"


@dataclass(frozen=True, slots=True)
class Size:
    """This many bytes must be kept of what was there until then; None = until now."""

    keep_bytes: int
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """sizes: any of them explains a deletion; empty = no limit by size. young_ms: records with this timestamp or a
    younger one must be there; None = no limit by time."""

    sizes: tuple[Size, ...]
    young_ms: int | None


def limits_of(case: Case, topic: str, at_ns: int) -> Limits:
    """Limits of the settings that were in force until then. A setting that has ended explains no deletion of younger
    records; while cleanup.policy is not "delete" nothing is deleted by size or age."""
    contract = case.contract.topics.get(topic)
    until_ns = deletes_until(case, topic)
    if until_ns is None:
        return Limits(sizes=(), young_ms=None)
    by_size = _in_force(case, topic, RETENTION_BYTES, contract.retention_bytes if contract else -1, at_ns)
    by_time = _in_force(case, topic, RETENTION_MS, contract.retention_ms if contract else RETENTION_MS_DEFAULT, at_ns)
    over_ns = [(value, min(ends_ns, until_ns)) for value, ends_ns in by_size]
    sizes = tuple(Size(value, None if end_ns >= at_ns else end_ns // 10**6) for value, end_ns in over_ns)
    # By the broker's clock, which a step may have changed.
    ends_ns = [(value, min(at_ns, until_ns, period_ns)) for value, period_ns in by_time]
    young = [end_ns // 10**6 + ahead_ms(case, end_ns) - value for value, end_ns in ends_ns]
    return Limits(sizes=sizes, young_ms=max(young, default=None))


def _in_force(case: Case, topic: str, key: str, declared: int, at_ns: int) -> Iterator[tuple[int, int]]:
    """Values that a setting had, each with its end."""
    for period in config_history(case, topic, key):
        value = declared if period.value is None else int(period.value)
        if value >= 0 and period.from_ns <= at_ns:
            yield value, period.until_ns


def may_delete(case: Case, topic: str) -> bool:
    """Whether retention may have moved the log start between two snapshots."""
    return bool(deleting_settings(case, topic))


def deleting_settings(case: Case, topic: str) -> tuple[str, ...]:
    """The settings of retention that may have deleted records of this run."""
    contract = case.contract.topics.get(topic)
    if contract is None:
        return ()
    ended_ns = case.run.ended_ns or case.run.started_ns or 0
    limits = limits_of(case, topic, ended_ns)
    started_ms = (case.run.started_ns or 0) // 10**6
    if contract.timestamp_type != APPEND_TIME:  # records may bear times before the run
        started_ms -= max((producer.backdated_ms for producer in case.contract.producers.values()), default=0)
    by_time = limits.young_ms is not None and limits.young_ms >= started_ms
    holding = {RETENTION_MS: by_time, RETENTION_BYTES: bool(limits.sizes)}
    return tuple(setting for setting, holds in holding.items() if holds)


def permitting(case: Case, topic: str) -> str:
    """The same with their values, and the policy of a compacted topic, which deletes the newest value of a key too; ""
    if no setting does."""
    contract = case.contract.topics.get(topic)
    if contract is None:
        return ""
    declared = {RETENTION_MS: contract.retention_ms, RETENTION_BYTES: contract.retention_bytes}
    named = [f"{key}={_over_time(case, topic, key, declared[key])}" for key in deleting_settings(case, topic)]
    policy = "compact,delete with " if contract.compacted and contract.deletes else ""
    return f"{policy}{' or '.join(named)}" if named else ""


def _over_time(case: Case, topic: str, key: str, declared: int) -> str:
    """The values that a setting had, without those that set no limit."""
    values = (declared if period.value is None else int(period.value) for period in config_history(case, topic, key))
    return ", then ".join(str(value) for value in values if value >= 0)


def topics_that_keep_all(given: Prepared) -> DataFrame:
    """Topics of finished runs that lose nothing: no retention, compaction, DeleteRecords or tier_off. `tiered`: most
    of their records are in the remote tier."""
    stays = [
        (n, name, topic.tiered)
        for n, case in enumerate(given.cases)
        for name, topic in case.contract.topics.items()
        if case.complete and not (topic.delete_records or topic.tier_off)
        if not may_delete(case, name) and compacted_until(case, name) is None
    ]
    return F.broadcast(frame(given.spark, {"topic": "string", "tiered": "bool"}, stays))
