"""The requests that a scenario may hold, and when held frames have an effect."""

from __future__ import annotations

from typing import Any

import pytest

from harness import scenarios
from harness.clusters.network.frame_proxy import HeldFrame
from harness.faults.network.hold_frames import HoldFrames, effect_of
from harness.faults.steps.registry import check_steps
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml import patched

HOLD = {"do": "hold_frames", "node": "broker(1)"}


def held(**times: Any) -> HeldFrame:
    whole: dict[str, Any] = {"left_ns": 2, "again_ns": 3, "released_ns": 4, "answered_ns": 5, "errors": ()}
    return HeldFrame(link="client > b1", api="EndTxn", version=1, client="held-1", held_ns=1, **(whole | times))


def asked(**how: Any) -> HoldFrames:
    return HoldFrames(node="broker(1)", apis=("EndTxn",), **how)


def test_a_frame_that_arrives_after_its_client_continued_proves_the_effect() -> None:
    effect = effect_of([held(errors=("INVALID_TXN_STATE",)), held(again_ns=None)], "EndTxn", asked())
    assert effect.held
    assert "1 of them had been retried" in effect.because
    assert "INVALID_TXN_STATE, no error" in effect.because


@pytest.mark.parametrize(
    ("frames", "because"),
    [
        ([], "no such frame arrived: EndTxn"),
        ([held(left_ns=None, again_ns=None)], "still waited for them"),
        ([held(), held(left_ns=6)], "still waited for them"),
        ([held(), held(answered_ns=None, errors=None, cut_off=True)], "1 of 2 held frames (EndTxn) were never"),
    ],
)
def test_near_misses_prove_nothing(frames: list[HeldFrame], because: str) -> None:
    effect = effect_of(frames, "EndTxn", asked())
    assert not effect.held
    assert because in effect.because


def test_a_client_that_still_waits_counts_when_the_frame_need_not_be_late() -> None:
    assert effect_of([held(left_ns=None, again_ns=None)], "EndTxn", asked(late=False)).held


def with_step(name: str, **step: Any) -> Scenario:
    return patched(scenarios.load(name), {"steps.+": [{**HOLD, **step}]}, check_steps)


@pytest.mark.parametrize(
    ("name", "step", "words"),
    [
        ("late_end_txn", {"apis": []}, "names no request"),
        ("late_end_txn", {"apis": ["EndTx"]}, "did you mean"),
        ("late_end_txn", {"apis": ["Fetch"]}, "is no request that can be held"),
        ("late_end_txn", {"apis": ["OffsetCommit"], "producer": "held"}, "leave out producer"),
        ("late_end_txn", {"apis": ["OffsetCommit"]}, "give a reader a group"),
        ("late_end_txn", {"apis": ["EndTxn"], "producer": "beside"}, "only with transactions"),
        ("late_end_txn", {"apis": ["EndTxn"], "producer": "hold"}, "no producer"),
        ("unclean_by_setting", {"apis": ["AddPartitionsToTxn"]}, "only with transactions"),
        ("late_end_txn", {"apis": ["EndTxn"], "node": "controller"}, "this step takes brokers"),
    ],
)
def test_requests_that_no_client_would_send_are_refused(name: str, step: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        with_step(name, **step)


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (
            {"steps.-heal_2": True, "steps.+before.fourth_too": [{"do": "heal", "fault": "late_abort"}]},
            "while a transaction of held is open",
        ),
        ({"steps.-heal_2": True, "steps.late_abort.for_s": 1.0}, "between two transactions"),
        ({"producers.beside.transactions": {}, "steps.late_abort.producer": ""}, "between two transactions"),
    ],
)
def test_an_end_that_brokers_could_take_for_another_transaction_s_is_refused(patch: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        patched(scenarios.load("late_end_txn"), patch, check_steps)


AMID = {"apis": ["EndTxn"], "amid": True, "producer": "held", "name": "amid"}


def test_an_end_may_arrive_amid_a_transaction_only_while_one_is_open() -> None:
    more: list[dict[str, Any]] = [{**HOLD, **AMID}, {"do": "end_transaction", "producer": "held", "name": "end"}]
    heal = {"do": "heal", "fault": "amid"}
    filled = {"do": "produce", "producer": "held", "to": "held/0", "records": 1, "name": "filled"}

    def play(*steps: dict[str, Any]) -> Scenario:
        return patched(scenarios.load("late_end_txn"), {"steps.+": list(steps)}, check_steps)

    play(filled, *more, {**filled, "name": "filled_next"}, heal)
    with pytest.raises(BadInput, match="EndTxn would arrive while no transaction of held is open"):
        play(filled, *more, heal)
    for other in ({"producer": ""}, {"producer": "beside"}, {"apis": ["AddPartitionsToTxn"]}, {"answers": True}):
        with pytest.raises(BadInput, match=r"amid: set apis = |only with transactions"):
            play({**more[0], **other})


def test_steps_that_can_hold_such_frames_are_accepted() -> None:
    with_step("late_end_txn", apis=["AddPartitionsToTxn", "TxnOffsetCommit"])
    with_step("late_produce", apis=["OffsetCommit", "Heartbeat"])
    with_step("late_produce", apis=["Produce"], answers=True, late=False)
