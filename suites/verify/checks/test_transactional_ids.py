"""States of transactional ids beside what clients know; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from msgspec import structs

from harness.model.documents.cluster import ClusterReports
from harness.model.documents.coordinators import CoordinatorLook, CoordinatorState
from harness.model.documents.scenario import PlannedProcessing, PlannedProducer, PlannedShape, PlannedTransactions
from harness.model.documents.steps import Step
from harness.model.facts import Fact, FactKind
from harness.model.finding import Kind
from harness.verify.checks.transactional_ids import Clients, Ended, Written, wrong_ids
from harness.verify.engine.counts import Counts
from harness.verify.engine.known import Known
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.samples import sampled

S: Final = 10**9
VALUE: Final[dict[str, Any]] = {"state": "CompleteCommit", "producer_id": 7, "producer_epoch": 3, "timeout_ms": 60_000}


def state(**more: Any) -> CoordinatorState:
    value = VALUE | more
    return CoordinatorState(
        topic="__transaction_state",
        partition=3,
        kind="transaction",
        name="p",
        coordinator=2,
        leader_epoch=5,
        offset=40,
        written_epoch=4,
        logged=value,
        answered=value,
        steady=True,
    )


FORGOTTEN: Final = structs.replace(state(), logged=None, answered=None)


def ended(**more: Any) -> Ended:
    of: dict[str, Any] = {
        "wrote": 2,
        "first_ns": START_NS,
        "outcome": "committed",
        "acked": 4,
        "began_ns": START_NS + S,
    }
    return Ended(**of | {"earlier_ns": START_NS + S} | more)


def written(producer_id: int = 7, epoch: int = 3, offset: int = 5) -> Written:
    return Written(topic="t", partition=0, producer_id=producer_id, offset=offset, epoch=epoch)


def known(
    *states: CoordinatorState,
    of: Ended | None = None,
    batches: tuple[Written, ...] = (written(),),
    facts: tuple[FactKind, ...] = (),
    unknown: tuple[str, ...] = (),
    client: str = "librdkafka 2",
    others: tuple[PlannedProducer, ...] = (),
    **producer: Any,
) -> tuple[Known, Clients]:
    case = case_of_history(sampled())
    planned: dict[str, Any] = {
        "name": "p",
        "topics": ("t",),
        "client": "librdkafka",
        "transactions": PlannedTransactions(),
    }
    p = PlannedProducer(**planned | producer)
    look = CoordinatorLook(asked_ns=START_NS, at_ns=START_NS + 9 * S, states=states, unknown=unknown)
    steps = [
        Step(
            name="s",
            do="s",
            started_ns=START_NS,
            ended_ns=START_NS,
            healed_ns=None,
            is_fault=False,
            facts=(Fact(kind=kind, from_ns=START_NS, to_ns=START_NS, topic="t"),),
            events=(),
        )
        for kind in facts
    ]
    cluster: ClusterReports = structs.replace(case.cluster, coordinators=look)
    scenario = structs.replace(case.scenario, producers=(p, *others), shape=PlannedShape(brokers=3))
    counts = Counts(clients={"p": frozenset({client})}, disks=frozenset({1, 2, 3}))
    changed = replace(case, cluster=cluster, scenario=scenario, steps=steps)
    mine = Clients(ended={"p": of or ended()}, written=[*batches])
    return Known(case=changed, runs=(), counts=counts, failed={}, on_driver={}), mine


ANOTHER: Final = PlannedProducer(name="q", topics=("t",), transactions=PlannedTransactions())
WRONG: Final[dict[str, tuple[tuple[Known, Clients], str]]] = {
    "a forgotten id": (known(FORGOTTEN), "has no state at the end, and 2 commits of its producer with records were"),
    "an id without a row": (known(), "has no state at the end"),
    "the other end of a commit": (
        known(state(state="CompleteAbort")),
        "is in state CompleteAbort at the end, and its producer's last transaction was committed",
    ),
    "the other end of an abort": (known(state(), of=ended(outcome="aborted")), "is in state CompleteCommit at the end"),
    "an older epoch": (
        known(state(producer_epoch=2)),
        "has producer epoch 2 of producer id 7 at the end, and batches on disks have 3",
    ),
    "another producer id": (
        known(state(producer_id=8)),
        "has producer id 8 at the end, and the last batches on disks have [7]",
    ),
    "an older producer id": (
        known(state(), batches=(written(), written(9, 0, 8))),
        "has producer id 7 at the end, and the last batches on disks have [9]",
    ),
}
LEGAL: Final[dict[str, tuple[Known, Clients]]] = {
    "the same": known(state()),
    "a later epoch": known(state(producer_epoch=9)),
    "a client that was initialised since": known(state(state="Empty", producer_epoch=4)),
    "no commit with records": known(of=ended(wrote=0)),
    "coordinators that did not answer": known(unknown=("no answer",)),
    "a state that may change": known(structs.replace(FORGOTTEN, steady=False)),
    "a last transaction without an answer": known(state(state="CompleteAbort"), of=ended(outcome="unknown")),
    "records after the last transaction": known(state(state="CompleteAbort"), of=ended(outcome=None)),
    "a last transaction without records": known(state(state="CompleteAbort"), of=ended(acked=0)),
    "two transactions at once": known(state(state="CompleteAbort"), of=ended(earlier_ns=START_NS + 2 * S)),
    "a client that may record less": known(state(state="CompleteAbort"), client="kafka-clients 4.3"),
    "a processor": known(state(state="CompleteAbort"), processes=PlannedProcessing(group="g")),
    "an id in the settings": known(config={"transactional.id": "other"}),
    "an operator aborted": known(FORGOTTEN, facts=(FactKind.TRANSACTION_ABORTED,)),
    "another clock": known(FORGOTTEN, facts=(FactKind.CLOCK_CHANGED,)),
    "a failed disk": known(FORGOTTEN, facts=(FactKind.DISK_FAILED,)),
    "a deleted topic": known(state(producer_id=8), facts=(FactKind.TOPIC_DELETED,)),
    "epochs that are used up": known(state(producer_id=8), batches=(written(epoch=32_766),)),
    "no batches": known(state(producer_id=8), batches=()),
    "another producer wrote last": known(state(), batches=(written(), written(9, 0, 8)), others=(ANOTHER,)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_client_knows_better_is_a_finding(name: str) -> None:
    given, text = WRONG[name]
    (found,) = wrong_ids(*given)
    assert (found.kind, found.condemns) == (Kind.WRONG_COORDINATOR_STATE, True)
    assert found.detail.startswith(f"the transactional id p {text}")


@pytest.mark.parametrize("name", LEGAL)
def test_nothing_else_is_a_finding(name: str) -> None:
    assert list(wrong_ids(*LEGAL[name])) == []


def test_ids_of_kafka_streams_are_not_judged() -> None:
    given, mine = known()
    producers = [structs.replace(p, client="streams") for p in given.case.scenario.producers or ()]
    case = replace(given.case, scenario=structs.replace(given.case.scenario, producers=tuple(producers)))
    assert list(wrong_ids(replace(given, case=case), mine)) == []
