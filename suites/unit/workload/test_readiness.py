"""Figures that follow from the settings of clients."""

from __future__ import annotations

import pytest

from harness.model.scenario.scenario import Producer, Reader
from harness.workload.readiness import bootstrap_of


@pytest.mark.parametrize(("bootstrap", "known"), [(0, "a:1,b:2,c:3"), (1, "a:1"), (3, "c:3")])
def test_a_client_may_know_one_broker_only(bootstrap: int, known: str) -> None:
    for client in (
        Producer(name="p", topics=("t",), bootstrap=bootstrap),
        Reader(name="r", topics=("t",), bootstrap=bootstrap),
    ):
        assert bootstrap_of(client, "a:1,b:2,c:3") == known
