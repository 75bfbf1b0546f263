"""The proof of a delay between brokers: a follower that gets the records of its leader that much later."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.network.slow import replicated_late
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import PartitionState
from harness.model.errors import HarnessTimeout
from harness.model.place import Place

LATENCY_S = 0.1
NEVER = float("inf")


class Logs:
    """Logs of followers that get what their leaders, at offset 10, have after so many seconds. Broker 1 leads."""

    def __init__(self, after_s: dict[tuple[Place, int], float]) -> None:
        self._after_s = after_s
        self._began = time.monotonic()
        self.led = {place: cast(PartitionState, SimpleNamespace(leader=1, replicas=(1, 2, 3))) for place, _ in after_s}

    def replica_offsets(self, _: list[str]) -> dict[tuple[str, int, int], tuple[int, int]]:
        past_s = time.monotonic() - self._began
        ends = {(*place, 1): 10 for place in self.led}
        ends |= {(*place, broker): 10 if past_s >= s else 5 for (place, broker), s in self._after_s.items()}
        return {key: (0, end) for key, end in ends.items()}


def proof(after_s: dict[tuple[Place, int], float], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Asks the probe once. A follower that never gets the records costs it a second."""
    logs = Logs(after_s)
    context: Any = SimpleNamespace(admin=logs)
    followers = sorted({broker for _, broker in after_s})
    monkeypatch.setattr("harness.faults.network.slow.ARRIVAL_S", 1.0)
    return replicated_late(cast(StepContext, context), followers, logs.led, LATENCY_S)()


def test_records_that_arrive_later_than_the_delay_prove_it(monkeypatch: pytest.MonkeyPatch) -> None:
    effect = proof({(("plain", 0), 2): 0.15}, monkeypatch)
    assert effect.held
    assert effect.seen["replicated_after_s"] >= 0.15


def test_records_that_arrive_at_once_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    effect = proof({(("plain", 0), 2): 0.0, (("plain", 1), 2): 0.0}, monkeypatch)
    assert not effect.held
    assert "within" in effect.because


def test_a_follower_that_gets_nothing_at_all_does_not_hold_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    effect = proof({(("plain", 0), 2): NEVER, (("plain", 0), 3): 0.15}, monkeypatch)
    assert (effect.held, effect.seen["broker"]) == (True, 3)
    assert time.monotonic() - began < 1.0


def test_a_follower_that_had_the_records_already_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proof({(("plain", 0), 2): 0.0, (("plain", 0), 3): 0.15}, monkeypatch).seen["broker"] == 3


def test_no_arrival_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessTimeout, match="a follower to reach the log end of its leader"):
        proof({(("plain", 0), 2): NEVER}, monkeypatch)
