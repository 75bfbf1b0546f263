"""A broker dies while its cleaner compacts a log, and the state of an idle producer expires, on a real cluster."""

from __future__ import annotations

import pytest

from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play

pytestmark = pytest.mark.kafka

COMPACT = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
SHAPE = ClusterShape(config={"log.cleaner.io.max.bytes.per.second": "2000000", "producer.id.expiration.ms": "3000"})
TOPICS = (
    Topic(name="keyed", partitions=1, assignment=((1, 2, 3),), config=COMPACT),
    Topic(name="quiet", partitions=1, assignment=((2, 3, 1),), config=COMPACT),
)
PRODUCERS = (
    Producer(name="steady", topics=("keyed",), keyed=True, value_bytes=1000, rate_per_s=1500),
    Producer(name="bursts", topics=("quiet",), keyed=True, when="steps"),
)
READERS = ()


def test_a_broker_dies_while_it_compacts(play: Play) -> None:
    rolled = ("rolled", {"do": "wait_rolled", "on": ["keyed/0"], "segments": 3})
    cleaning = ("cleaning", {"do": "kill_cleaning", "node": "leader(keyed/0)", "of": "keyed/0"})
    compacted = ("compacted", {"do": "wait_compacted", "on": ["keyed/0"], "further": True})
    heal, whole = ("healed", {"do": "heal", "fault": "cleaning"}), ("whole", {"do": "wait_healthy"})
    _, killed, *_ = play(rolled, cleaning, heal, whole, compacted)
    assert killed["resolved"]["left"]
    assert killed["effect"]["seen"]["left"] == killed["resolved"]["left"]


def test_the_state_of_an_idle_producer_expires(play: Play) -> None:
    burst = ("burst", {"do": "produce", "producer": "bursts", "to": "quiet/0", "records": 100})
    _, expired, *_ = play(
        burst, ("gone", {"do": "wait_producer_expired", "on": ["quiet/0"]}), (burst[0] + "_on", burst[1])
    )
    assert expired["resolved"]["waited_s"] > 1
