"""Replicas that a broker keeps after a reassignment took them away; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.facts import FactKind
from harness.model.finding import Kind
from harness.verify.checks.not_deleted.strays import strays
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import S, sampled, with_fact

END_S = 60
DELETED = FactKind.TOPIC_DELETED.value


def case(metadata: Metadata, *, replicas: tuple[int, ...] = (1, 2), broker: int = 3, fact: Any = None) -> Case:
    """At the end the partition has these replicas, and this broker has it on its disk."""
    built = sampled()
    built.drained["at_ns"] = START_NS + END_S * S
    for row in built.drained["partitions"]:
        row["replicas"] = [*replicas]
    lineage = {"topic": "t", "partition": 0, "broker": broker, "epochs": [[0, 0]], "error": None}
    built.cluster["lineages"] = [lineage]
    if fact is not None:
        with_fact(built, *fact[0], **fact[1])
    return replace(case_of_history(built), history=metadata.history())


def at(second: float) -> int:
    return START_NS + int(second * S)


def moved(second: float) -> Metadata:
    """Broker 3 loses the partition."""
    every = (1, 2, 3)
    return Metadata().moved(at(second - 1), every, every, removing=(3,)).moved(at(second), (1, 2), (1, 2))


def test_a_replica_that_a_reassignment_took_away_and_that_stays_is_a_finding() -> None:
    (found,) = strays(case(moved(10)))
    assert (found.kind, found.reader, found.condemns) == (Kind.NOT_DELETED, "broker 3", True)
    assert found.detail == (
        "broker 3 still has the partition on its disk, 50 s after a reassignment took it from there"
    )


LEGAL: dict[str, Case] = {
    "a replica": case(moved(10), broker=2),
    "just now": case(moved(END_S - 3)),
    "it is back": case(moved(10).moved(at(20), (1, 2, 3), (1, 2, 3)), replicas=(1, 2, 3)),
    "it never had it by the history": case(Metadata(), broker=3),
    "its broker was frozen until a moment ago": case(moved(10), fact=(("frozen", 3, 20, END_S - 3), {})),
    "its topic was deleted": case(moved(10), fact=((DELETED, 3, 20, 21), {"topic": "t"})),
    "no history": replace(case(moved(10)), history=None),
}


def test_a_fault_of_another_broker_excuses_nothing() -> None:
    assert len([*strays(case(moved(10), fact=(("frozen", 2, 20, END_S - 3), {})))]) == 1


@pytest.mark.parametrize("name", LEGAL)
def test_no_other_replica_is_a_finding(name: str) -> None:
    assert list(strays(LEGAL[name])) == []
