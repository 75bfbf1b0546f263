"""Counters for steps, the rate of a producer, and calls that may hang."""

from __future__ import annotations

import threading
import time

import pytest

from harness.workload.meters import BUCKET_NS, Meters
from harness.workload.pacing import Pace
from harness.workload.timed_calls import CallHung, TimedCalls

SECOND = 10 * BUCKET_NS
PLACE = ("t", 0)


def acked(meters: Meters, count: int, at_ns: int, highest: int = -1) -> None:
    meters.acked(PLACE, [at_ns] * count, 100 * count, highest, at_ns)


def test_acks_of_all_partitions_are_counted() -> None:
    meters = Meters()
    acked(meters, 3, at_ns=1 * SECOND)
    meters.acked(("t", 1), [SECOND] * 5, 500, -1, SECOND)
    assert meters.total_acked() == 8


def test_acks_are_counted_by_the_time_of_their_send() -> None:
    meters = Meters()
    meters.acked(PLACE, [SECOND, SECOND + 1, 2 * SECOND + 1], 300, 2, at_ns=3 * SECOND)
    meters.acked(PLACE, [2 * SECOND + BUCKET_NS], 100, 3, at_ns=3 * SECOND)
    assert meters.answered_since(PLACE, SECOND) == 4
    assert meters.answered_since(PLACE, SECOND + 1) == 2
    assert meters.answered_since(PLACE, 2 * SECOND + 1) == 1, "a bucket that began before does not count"
    assert meters.answered_since(PLACE, 3 * SECOND) == 0
    assert meters.answered_since(("t", 1), 0) == 0


def test_an_ack_without_an_offset_keeps_the_highest_offset() -> None:
    meters = Meters()
    acked(meters, 1, at_ns=SECOND, highest=41)
    acked(meters, 1, at_ns=SECOND, highest=-1)
    assert meters.highest_acked() == {PLACE: 41}
    assert meters.last_ack_ns(PLACE) == SECOND
    assert meters.last_ack_ns(("t", 1)) == 0


def test_retries_of_several_clients_are_added_and_never_decrease() -> None:
    meters = Meters()
    for client, total in (("a", 3), ("b", 2), ("a", 1)):
        meters.retried(client, total)
    assert meters.retries() == 5


def test_without_a_rate_everything_is_due() -> None:
    pace = Pace(None)
    pace.spent(10_000)
    assert pace.due(500) == 500


def test_a_pause_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pace = Pace(1000, burst_s=0.25)
    clock[0] += 0.1
    assert pace.due(10_000) == pytest.approx(100, abs=1)
    pace.spent(100)
    clock[0] += 60
    assert pace.due(10_000) == 250


def test_a_timed_call_returns_or_raises() -> None:
    timed = TimedCalls("test")
    assert timed.call(lambda: 42, deadline_s=5) == 42
    with pytest.raises(ZeroDivisionError):
        timed.call(lambda: 1 // 0, deadline_s=5)
    timed.close()


def test_a_call_that_hangs_raises_after_its_deadline() -> None:
    release = threading.Event()
    timed = TimedCalls("test")
    with pytest.raises(CallHung, match=r"0\.05 s"):
        timed.call(release.wait, deadline_s=0.05)
    release.set()
    timed.close()
