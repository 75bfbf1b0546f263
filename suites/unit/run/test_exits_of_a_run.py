"""Ends of processes are in the evidence of the run in which they were found, and in no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.documents.process_exit import ProcessExit
from harness.model.doubt_names import DoubtName, DoubtOrigin
from harness.model.errors import MachineFailure
from harness.run.scenario_run import _Record


def ended(**more: Any) -> ProcessExit:
    given: dict[str, Any] = {"name": "b2", "node": 2, "at_ns": 5, "code": 1, "signal": None} | more
    return ProcessExit(**given)


class Cluster:
    def __init__(self, *exits: ProcessExit, let: bool = False) -> None:
        self._exits = list(exits)
        self._let = let

    def client_settings(self) -> dict[str, str]:
        return {}

    def exits(self) -> list[ProcessExit]:
        return self._exits.copy()

    def unexpected_exits(self) -> list[ProcessExit]:
        return [] if self._let else self._exits.copy()

    def forget_exits(self) -> None:
        self._exits.clear()


def record_on(cluster: Any) -> _Record:
    task: Any = SimpleNamespace(scenario=SimpleNamespace(), prefix=None)
    return _Record(task, cluster, SimpleNamespace())  # type: ignore[arg-type]


def test_a_crash_is_evidence_and_no_doubt_and_another_run_does_not_have_it() -> None:
    cluster = Cluster(ended())
    record = record_on(cluster)
    record.note_exits()
    assert (record.exits, record.doubts, record.died) == ((ended(),), [], True)
    later = record_on(cluster)
    later.note_exits()
    assert (later.exits, later.died) == ((), False)


def test_an_end_by_the_machine_is_a_doubt_that_lets_the_scenario_be_tried_again() -> None:
    record = record_on(Cluster(ended(code=None, signal=9)))
    record.note_exits()
    (doubt,) = record.doubts
    assert (doubt.name, doubt.origin) == (DoubtName.NODE_KILLED, DoubtOrigin.MACHINE)


@pytest.mark.parametrize("signal", [None, 9])
def test_an_end_that_a_fault_may_cause_is_for_the_judge(signal: int | None) -> None:
    record = record_on(Cluster(ended(signal=signal), let=True))
    record.note_exits()
    assert (len(record.exits or ()), record.doubts, record.died) == (1, [], False)


def test_a_cluster_that_does_not_answer_any_more_does_not_cost_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Cluster) -> list[ProcessExit]:
        raise MachineFailure("the supervisor of the cluster has ended")

    monkeypatch.setattr(Cluster, "exits", silent)
    record = record_on(Cluster())
    record.note_exits()
    (doubt,) = record.doubts
    assert (doubt.name, doubt.origin) == (DoubtName.HARNESS_FAILED, DoubtOrigin.MACHINE)
