"""Repeated breaks: they are counted, they end with the fault, and an earlier end is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.faults.steps.repeat import TIMES_MIN, Repeat
from harness.faults.steps.step import EffectProof
from harness.model.errors import HarnessFailure
from harness.model.waiting import wait_for


def test_each_break_is_healed_before_the_next() -> None:
    events: list[str] = []

    @contextmanager
    def doing() -> Iterator[None]:
        events.append("on")
        yield
        events.append("off")

    repeat = Repeat(doing, "it was done")
    probe = repeat.proof(lambda: EffectProof(True, "it had an effect", {"by": 1}), "done")
    assert not probe().held
    with repeat.running():
        wait_for(lambda: repeat.times, until=lambda times: times >= TIMES_MIN, deadline_s=10, what="the second time")
    effect = probe()
    assert effect.held
    assert effect.because == f"it had an effect; it was done {repeat.times} times"
    assert effect.seen == {"by": 1, "done": repeat.times}
    assert events == ["on", "off"] * repeat.times


def test_an_early_end_is_reported_with_its_reason() -> None:
    tries = iter(range(TIMES_MIN))

    @contextmanager
    def doing() -> Iterator[None]:
        if next(tries, None) is None:
            raise HarnessFailure("it broke down")
        yield

    repeat = Repeat(doing, "it was done")
    with (
        pytest.raises(HarnessFailure, match=rf"it was done {TIMES_MIN} times and then stopped: it broke down"),
        repeat.running(),
    ):
        wait_for(lambda: repeat.failed, until=bool, deadline_s=10, what="the end")
