"""A sample: the offsets that one broker reported of one of its replicas at one moment of the run."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    """A row of the table `positions`, see FORMAT.md. Each value was true at some time from `asked_ns` to `at_ns`."""

    broker: int
    topic: str
    topic_id: str
    partition: int
    asked_ns: int
    at_ns: int
    after_silence: bool
    log_start: int | None
    high_watermark: int | None
    leader_epoch: int | None
    log_end: int
