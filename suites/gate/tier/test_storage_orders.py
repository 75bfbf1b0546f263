"""A tier that does as it is told, on real brokers: what its faults do, that they heal, and when nobody notices."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.clusters import Cluster
from harness.kafka.settings.tier_settings import ORDERS
from harness.kafka.storage.local_tier import LOG, objects_of, read_object
from harness.model.scenario.scenario import ClusterShape, Producer, Topic
from suites.gate.playing import Play, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="local", tier_faults=True)
SMALL = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
TOPICS = (Topic(name="far", partitions=1, config=SMALL, assignment=((1, 2, 3),)),)
PRODUCERS = (Producer(name="bulk", topics=("far",), value_bytes=4000, rate_per_s=1000),)
WHOLE = ("tiered", {"do": "wait_tiered"})
HALF = {"do": "tier_errors", "ops": ["copy"], "share": 0.5, "half": True}
UNASKED = "no broker has asked that of the remote tier since"


@pytest.fixture(scope="module")
def cluster(backend: str) -> Iterator[Cluster]:
    with running(backend, SHAPE) as started:
        yield started
    assert not started.directory.exists()


@pytest.fixture
def play(cluster: Cluster, play: Play) -> Iterator[Play]:
    yield play
    assert cluster.unexpected_exits() == []
    assert cluster.tier_store is not None
    assert list((cluster.tier_store / ORDERS).iterdir()) == []


def heal(fault: str) -> tuple[str, dict[str, Any]]:
    return f"heal_{fault}", {"do": "heal", "fault": fault}


def some(records: int = 1000) -> tuple[str, dict[str, Any]]:
    return f"some_{records}", {"do": "wait_acks", "on": ["far/0"], "records": records}


@contextmanager
def replayed(play: Play) -> Iterator[list[str | None]]:
    """Somebody reads the oldest record there is all the time; what was answered, None for records."""
    reported: list[str | None] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.1):
            served = play.stage.admin.fetch("far", 0, 0, 1 << 20)
            reported.append(served.error if served else "no answer")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield reported
    finally:
        over.set()
        reader.join()


def broken_logs(play: Play) -> list[str]:
    store = play.stage.cluster.tier_store
    assert store is not None
    logs = [read_object(one) for one in objects_of(store, ["far"]) if one.kind == LOG]
    return [content.faulty for content in logs if content is not None and content.faulty]


def test_every_other_copy_stops_half_way_and_is_made_again(play: Play) -> None:
    half, *_ = play(("half", HALF), some(2000), heal("half"), WHOLE)
    assert half["effect"]["seen"]["deeds"]["copy stopped half way"] >= 1
    assert half["effect"]["seen"]["brokers"] == [play.stage.partition(("far", 0)).leader]


def test_a_storage_that_lies_keeps_half(play: Play) -> None:
    play(WHOLE)
    before = len(broken_logs(play))
    play(("lies", {**HALF, "share": 1.0, "kept": True}), some(2000), heal("lies"), WHOLE)
    assert len(broken_logs(play)) > before


def test_a_copy_that_is_slow_is_late_and_whole(play: Play) -> None:
    slow, *_ = play(("slow", {"do": "tier_slow", "ops": ["copy"], "delay_ms": 300}), some(), heal("slow"), WHOLE)
    assert slow["effect"]["seen"]["deeds"] == {"copy slowed": slow["effect"]["seen"]["deeds"]["copy slowed"]}


@pytest.mark.parametrize(
    "step",
    [
        {"do": "tier_errors", "ops": ["fetch"]},
        {"do": "tier_late", "late_s": 600, "of": "far/0"},
        {"do": "tier_slow", "ops": ["fetch"], "delay_ms": 50, "rate_kb_s": 2000},
    ],
    ids=["errors", "late", "slow"],
)
def test_who_reads_from_the_tier_notices_until_it_is_healed(play: Play, step: dict[str, Any]) -> None:
    play(some(), WHOLE)
    with replayed(play) as reported:
        fault, *_ = play(("fault", step), heal("fault"))
        assert fault["effect"]["held"]
        errors = set(reported) - {None}
        assert bool(errors) is (step["do"] != "tier_slow"), errors
    served = play.stage.admin.fetch("far", 0, 0, 1 << 20)
    assert served is not None
    assert (served.error, bool(served.records)) == (None, True)


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_leader_dies_while_a_copy_stands_still(play: Play, at: str) -> None:
    led = play.stage.partition(("far", 0)).leader
    hold, kill, *_ = play(
        ("held", {"do": "tier_hold", "at": at, "of": "far/0"}),
        ("kill", {"do": "kill", "node": "same(held)"}),
        ("moved", {"do": "wait_leader_changed", "on": ["far/0"], "since": "kill"}),
        heal("held"),
        some(),
        heal("kill"),
        ("healthy", {"do": "wait_healthy"}),
        WHOLE,
    )
    assert hold["effect"]["seen"] == {"deeds": {f"copy held {at}": 1}, "brokers": [led]}
    assert kill["resolved"]["nodes"] == [led]


def test_a_consumer_that_has_fallen_behind_is_served_from_the_tier(play: Play) -> None:
    _, _, replay, *_ = play(some(), WHOLE, ("replay", {"do": "replay", "on": ["far/0"]}), some(2000), heal("replay"))
    assert replay["effect"]["seen"]["far/0"] > 0
    assert replay["resolved"]["below"]["far/0"] > 0


def test_while_the_tier_does_not_answer_it_is_served_nothing(play: Play) -> None:
    fails = ("fails", {"do": "tier_errors", "ops": ["fetch"]})
    said = play.doubt(
        some(), WHOLE, fails, ("replay", {"do": "replay", "on": ["far/0"]}), heal("replay"), heal("fails")
    )
    assert "nothing of the remote tier was read of far/0" in said


FULL = {"do": "tier_full", "spare_kb": 600}


def test_what_finds_no_room_is_copied_when_there_is_some(play: Play) -> None:
    play(some(), WHOLE)
    full, *_ = play(("full", FULL), some(2000), heal("full"), some(), WHOLE)
    assert full["effect"]["seen"]["deeds"]["copy stopped where the tier was full"] >= 1
    assert full["effect"]["seen"]["brokers"] == [play.stage.partition(("far", 0)).leader]


def test_a_tier_with_room_enough_is_never_full(play: Play) -> None:
    roomy = {**FULL, "spare_kb": 10_000_000}
    assert UNASKED in play.doubt(some(), ("full", roomy), some(2000), heal("full"))


def test_without_load_nothing_is_copied(play: Play) -> None:
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    assert UNASKED in play.doubt(WHOLE, ("half", HALF), heal("half"))


def test_and_nothing_is_deleted_that_may_stay(play: Play) -> None:
    """What a topic keeps for good is never deleted, however long it is waited for."""
    assert UNASKED in play.doubt(
        ("held", {"do": "tier_hold", "op": "delete", "at": "before", "of": "far/0"}), heal("held")
    )


def test_and_nobody_reads_what_nobody_asks_for(play: Play) -> None:
    assert UNASKED in play.doubt(WHOLE, ("late", {"do": "tier_late", "late_s": 600}), heal("late"))
