"""How much of a topic may be deleted, and when: the contract's limits, and those that a step set during the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.contract import RETENTION_MS_DEFAULT
from harness.verify.case import Case
from harness.verify.clocks import ahead_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """bytes: what must be kept; None = no limit by size. young_ms: what is as young must be there; None = no limit."""

    bytes: int | None
    young_ms: int | None


def limits_of(case: Case, topic: str, at_ns: int) -> Limits:
    """The most permissive limits that were in force until then."""
    contract = case.contract.topics.get(topic)
    sizes = [contract.retention_bytes if contract else -1]
    times = [contract.retention_ms if contract else RETENTION_MS_DEFAULT]
    for config in _altered(case, topic, at_ns):
        sizes += [int(config["retention.bytes"])] if "retention.bytes" in config else []
        times += [int(config["retention.ms"])] if "retention.ms" in config else []
    size = min((s for s in sizes if s >= 0), default=None)
    age = min((t for t in times if t >= 0), default=None)
    # By the broker's clock, which a step may have set.
    return Limits(bytes=size, young_ms=None if age is None else at_ns // 10**6 + ahead_ms(case, at_ns) - age)


def may_delete(case: Case, topic: str) -> bool:
    """Whether retention may have moved the log's start between two looks at it."""
    contract = case.contract.topics.get(topic)
    if contract is None:
        return False
    ended_ns = case.run.get("ended_ns") or case.run.get("started_ns") or 0
    limits = limits_of(case, topic, ended_ns)
    started_ms = (case.run.get("started_ns") or 0) // 10**6
    return limits.bytes is not None or (limits.young_ms is not None and limits.young_ms >= started_ms)


def _altered(case: Case, topic: str, at_ns: int) -> Iterator[Mapping[str, Any]]:
    """What steps of the declared scenario set. In a weakened run a step may be the very thing that is not permitted."""
    for step in case.steps if not case.run.get("weakened") else ():
        alters = step["do"] == "alter_topic" and step["args"].get("topic") == topic
        if alters and step["started_ns"] is not None and step["started_ns"] <= at_ns:
            yield step["args"].get("config") or {}
