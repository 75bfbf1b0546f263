"""A topic in the remote tier, its load, and steps that every test of a tier takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.kafka.storage.local_tier import TierObject, read_object
from harness.model.scenario.scenario import Producer, Topic
from suites.gate.playing import Play

_SMALL = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
FAR = Topic(name="far", partitions=1, config=_SMALL, assignment=((1, 2, 3),))
BULK = Producer(name="bulk", topics=("far",), value_bytes=4000, rate_per_s=1000)
TIERED = ("tiered", {"do": "wait_tiered"})
REPLAY = ("replay", {"do": "replay", "on": ["far/0"]})
# After it there are no acks in the last second.
IDLE = ("idle", {"do": "hold", "seconds": 1.5})


def acks(records: int) -> tuple[str, dict[str, Any]]:
    return f"acks_{records}", {"do": "wait_acks", "on": ["far/0"], "records": records}


def heal(fault: str) -> tuple[str, dict[str, Any]]:
    return f"heal_{fault}", {"do": "heal", "fault": fault}


def store(play: Play) -> Path:
    found = play.stage.cluster.tier_store
    assert found is not None
    return found


def end_of(logs: list[TierObject]) -> int:
    """The offset after the last record of these segments, which are complete and follow each other from offset 0."""
    at = 0
    for log in logs:
        content = read_object(log)
        assert content is not None
        assert (content.first_offset, content.faulty) == (at, "")
        at = (content.last_offset or 0) + 1
    return at
