"""A load that gets no first acknowledgement ends the run, and the run asks before whether the cluster recovers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.documents.run import Recovered
from harness.model.errors import HarnessTimeout
from harness.model.pending import Pending
from harness.run import recovery, scenario_run
from harness.run.scenario_run import _Record, _wait_flowing

NEVER_FULL = Recovered(ok=False, waited_s=90.0, last_seen="t-0 leader 1 isr [1]", pending=Pending.ISR_NOT_FULL)


def flowing(monkeypatch: pytest.MonkeyPatch, load: Any) -> _Record:
    """The record of a run after its wait for the first acknowledgements, in a cluster whose ISRs never fill."""
    monkeypatch.setattr(recovery, "recovered", lambda *_: NEVER_FULL)
    monkeypatch.setattr(scenario_run, "targets_of", lambda _: [])
    task: Any = SimpleNamespace(scenario=SimpleNamespace(topics=()), prefix=None)
    cluster: Any = SimpleNamespace(client_settings=dict)
    admin: Any = None
    bundle: Any = None
    record = _Record(task, cluster, bundle)
    try:
        _wait_flowing(record, admin, load, lambda _: None)
    except HarnessTimeout as late:
        record.notes.append(str(late))
    return record


def late(deadline_s: float) -> None:
    raise HarnessTimeout(f"waited {deadline_s:g} s for a first ack on every partition")


def test_without_a_first_ack_the_recovery_of_the_cluster_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    record = flowing(monkeypatch, SimpleNamespace(wait_flowing=late))
    assert record.recovered == NEVER_FULL
    assert record.notes == ["waited 45 s for a first ack on every partition"]


def test_with_first_acks_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    record = flowing(monkeypatch, SimpleNamespace(wait_flowing=lambda _: None))
    assert (record.recovered.ok, record.notes) == (None, [])
