"""Brokers that had ended and that no controller fenced; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.documents.steps import Step
from harness.model.facts import Fact, FactKind, Stop
from harness.model.finding import Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, ControllerChange
from harness.verify.checks.taken_for_alive import taken_for_alive
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import CONTROLLER, Metadata
from suites.verify.samples import sampled

S = 10**9


def at(seconds: float) -> int:
    return START_NS + int(seconds * S)


def step(kind: FactKind, nodes: tuple[int, ...] | None, from_s: float, to_s: float | None = None, **more: Any) -> Step:
    to_ns = None if to_s is None else at(to_s)
    fact = Fact(kind=kind, nodes=nodes, from_ns=at(from_s), to_ns=to_ns, **more)
    times: dict[str, Any] = {"started_ns": at(from_s), "ended_ns": to_ns, "healed_ns": to_ns}
    return Step(name="s", do="s", is_fault=True, facts=(fact,), events=(), effect=None, **times)


def killed(broker: int = 2, second: float = 10) -> Step:
    return step(FactKind.STOPPED, (broker,), second, second, how=Stop.KILLED)


def case(metadata: Metadata, *steps: Step, until: float = 60) -> Case:
    """The last change of the metadata log is of that second."""
    metadata.in_sync(at(until), 1, 3)
    return replace(case_of_history(sampled()), history=metadata.history(), steps=steps)


def fenced(second: float, broker: int = 2) -> Metadata:
    metadata = Metadata()
    last = next(row for row in metadata.rows if isinstance(row, BrokerChange) and row.broker == broker)
    place: dict[str, Any] = {"time_ns": at(second), "offset": len(metadata.rows)}
    metadata.rows.append(replace(last, event=BrokerEvent.FENCED, fenced=True, **place))
    return metadata


def elected(second: float) -> Metadata:
    metadata = Metadata()
    first = next(row for row in metadata.rows if isinstance(row, ControllerChange))
    metadata.rows.append(replace(first, time_ns=at(second), offset=len(metadata.rows)))
    return metadata


def test_a_dead_broker_that_is_never_fenced_is_a_finding() -> None:
    (found,) = taken_for_alive(case(Metadata(), killed()))
    assert (found.kind, found.reader, found.condemns) == (Kind.UNAVAILABLE, "broker-2", True)
    assert found.detail == (
        "broker 2 had ended, and for 50 s an active controller did not fence it, with broker.session.timeout.ms=9000"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        case(fenced(41), killed()),
        case(Metadata().registered(2, at(45)), killed()),
        case(elected(25), killed()),
        case(Metadata(), killed(), step(FactKind.LINKS_CUT, (1,), 15, 20)),
        case(Metadata(), killed(), step(FactKind.LINKS_CUT, (CONTROLLER,), 2, 9)),
    ],
)
def test_so_is_each_that_is_fenced_too_late(wrong: Case) -> None:
    assert [found.kind for found in taken_for_alive(wrong)] == [Kind.UNAVAILABLE]


@pytest.mark.parametrize(
    "legal",
    [
        case(fenced(38), killed()),
        case(fenced(5), killed()),
        case(Metadata().registered(2, at(20)), killed()),
        case(elected(40), killed()),
        case(Metadata(), killed(), until=38),
        case(Metadata(), killed(), step(FactKind.LINKS_CUT, (CONTROLLER,), 15, 20)),
        case(Metadata(), killed(), step(FactKind.FROZEN, None, 15, 20)),
        case(Metadata(), killed(), step(FactKind.CLOCK_CHANGED, (1,), 15, 20)),
        replace(case(Metadata(), killed()), history=None),
    ],
)
def test_no_other_one_is(legal: Case) -> None:
    assert list(taken_for_alive(legal)) == []
