"""Samples of replicas by hand: the table `positions` of one partition, row by row."""

from __future__ import annotations

from typing import Any

from suites.verify.history import MS, START_NS, Built, History, Row
from suites.verify.metadata import Metadata

S = 1000 * MS
LATENCY_NS = 2 * MS  # between question and answer


def sample(
    broker: int,
    at_s: float,
    end: int,
    *,
    mark: int | None = None,
    epoch: int = 0,
    start: int | None = 0,
    after_silence: bool = False,
) -> Row:
    """A broker reports the end of its log, and its high watermark, this long after the start of the run."""
    at_ns = START_NS + int(at_s * S)
    return {
        "broker": broker,
        "topic": "t",
        "topic_id": "T",
        "partition": 0,
        "asked_ns": at_ns - LATENCY_NS,
        "at_ns": at_ns,
        "after_silence": after_silence,
        "log_start": start,
        "high_watermark": end if mark is None else mark,
        "last_stable_offset": end if mark is None else mark,
        "leader_epoch": epoch,
        "log_end": end,
        "local_log_start": None,
        "highest_tiered": None,
    }


def sampled(*rows: Row, metadata: Metadata | None = None, **run: Any) -> Built:
    """A run of 200 s with these samples. Without faults until some are added."""
    built = History("AAAA").build()
    built.tables["positions"] = list(rows)
    built.metadata = (metadata or Metadata()).history()
    built.steps[0] |= {"name": "hold", "do": "hold", "is_fault": False, "facts": []}
    built.run |= {"timestamps": "send", "ended_ns": START_NS + 200 * S} | run
    return built


def with_fact(built: Built, kind: str, node: int, from_s: float, to_s: float, **more: Any) -> Built:
    """A fault of a node, healed at its end."""
    times = {"from_ns": START_NS + int(from_s * S), "to_ns": START_NS + int(to_s * S)}
    row = {"started_ns": times["from_ns"], "ended_ns": times["to_ns"], "healed_ns": times["to_ns"]}
    facts = [{"kind": kind, "nodes": [node], **times, **more}]
    built.steps.append(built.steps[0] | {"name": "fault", "is_fault": True, "facts": facts, **row})
    return built
