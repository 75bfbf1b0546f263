"""A tier with the faulty storage on real brokers: what its faults do, that they heal, and when they have no effect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.kafka.storage.local_tier import LOG, objects_of, read_object
from harness.model.scenario.scenario import ClusterShape
from suites.gate.playing import Play
from suites.gate.tier.far_topic import BULK, FAR, REPLAY, TIERED, acks, heal, store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="local", tier_faults=True)
TOPICS, PRODUCERS = (FAR,), (BULK,)
HALF = {"do": "tier_errors", "ops": ["copy"], "share": 0.5, "half": True}
UNASKED = "no broker has asked the remote tier for such an operation since then"


@contextmanager
def replayed(play: Play) -> Iterator[list[str | None]]:
    """Reads the oldest record all the time; the errors of the answers, None for records."""
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
    logs = [read_object(one) for one in objects_of(store(play), ["far"]) if one.kind == LOG]
    return [content.faulty for content in logs if content is not None and content.faulty]


def test_half_copies_are_repeated(play: Play) -> None:
    half, *_ = play(("half", HALF), acks(2000), heal("half"), TIERED)
    assert half["effect"]["seen"]["deeds"]["copy stopped half way"] >= 1
    assert half["effect"]["seen"]["brokers"] == [play.stage.partition(("far", 0)).leader]


def test_a_half_copy_that_reports_success_stays(play: Play) -> None:
    play(TIERED)
    before = len(broken_logs(play))
    play(("lies", {**HALF, "share": 1.0, "kept": True}), acks(2000), heal("lies"), TIERED)
    assert len(broken_logs(play)) > before


def test_a_slow_copy_is_late_and_complete(play: Play) -> None:
    slow, *_ = play(("slow", {"do": "tier_slow", "ops": ["copy"], "delay_ms": 300}), acks(1000), heal("slow"), TIERED)
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
def test_a_reader_of_the_tier_gets_errors_until_healing(play: Play, step: dict[str, Any]) -> None:
    play(acks(1000), TIERED)
    with replayed(play) as reported:
        fault, *_ = play(("fault", step), heal("fault"))
        assert fault["effect"]["held"]
        errors = set(reported) - {None}
        assert bool(errors) is (step["do"] != "tier_slow"), errors
    served = play.stage.admin.fetch("far", 0, 0, 1 << 20)
    assert served is not None
    assert (served.error, bool(served.records)) == (None, True)


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_leader_dies_while_a_copy_is_held(play: Play, at: str) -> None:
    led = play.stage.partition(("far", 0)).leader
    hold, kill, *_ = play(
        ("held", {"do": "tier_hold", "at": at, "of": "far/0"}),
        ("kill", {"do": "kill", "node": "same(held)"}),
        ("moved", {"do": "wait_leader_changed", "on": ["far/0"], "since": "kill"}),
        heal("held"),
        acks(1000),
        heal("kill"),
        ("healthy", {"do": "wait_healthy"}),
        TIERED,
    )
    assert hold["effect"]["seen"] == {"deeds": {f"copy held {at}": 1}, "brokers": [led]}
    assert kill["resolved"]["nodes"] == [led]


def test_a_consumer_that_has_fallen_behind_is_served_from_the_tier(play: Play) -> None:
    _, _, replay, *_ = play(acks(1000), TIERED, REPLAY, acks(2000), heal("replay"))
    assert replay["effect"]["seen"]["far/0"] > 0
    assert replay["resolved"]["below"]["far/0"] > 0


def test_a_consumer_gets_no_tiered_record_while_the_tier_fails(play: Play) -> None:
    fails = ("fails", {"do": "tier_errors", "ops": ["fetch"]})
    said = play.doubt(acks(1000), TIERED, fails, REPLAY, heal("replay"), heal("fails"))
    assert "no tiered record of far/0 was read" in said


FULL = {"do": "tier_full", "spare_kb": 600}


def test_segments_that_do_not_fit_are_copied_when_there_is_space(play: Play) -> None:
    play(acks(1000), TIERED)
    full, *_ = play(("full", FULL), acks(2000), heal("full"), acks(1000), TIERED)
    assert full["effect"]["seen"]["deeds"]["copy stopped where the tier was full"] >= 1
    assert full["effect"]["seen"]["brokers"] == [play.stage.partition(("far", 0)).leader]


def test_a_tier_with_enough_space_is_never_full(play: Play) -> None:
    roomy = {**FULL, "spare_kb": 10_000_000}
    assert UNASKED in play.doubt(acks(1000), ("full", roomy), acks(2000), heal("full"))


def test_failing_copies_without_load_have_no_effect(play: Play) -> None:
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    assert UNASKED in play.doubt(TIERED, ("half", HALF), heal("half"))


def test_failing_deletions_without_retention_have_no_effect(play: Play) -> None:
    """A topic without a retention limit never deletes a segment."""
    assert UNASKED in play.doubt(
        ("held", {"do": "tier_hold", "op": "delete", "at": "before", "of": "far/0"}), heal("held")
    )


def test_late_segments_without_a_reader_have_no_effect(play: Play) -> None:
    assert UNASKED in play.doubt(TIERED, ("late", {"do": "tier_late", "late_s": 600}), heal("late"))
