"""Partitions that controllers left without a leader; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.documents.steps import Step
from harness.model.facts import Fact, FactKind
from harness.model.finding import Kind
from harness.model.history.changes import BrokerChange, BrokerEvent, PartitionChange
from harness.verify.checks.leaderless import leaderless
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import sampled

NS = 10**9
HOME = ("a", "b", "c")  # the directories of the replicas


def case(metadata: Metadata, *steps: Step, directories: tuple[str, ...] = HOME) -> Case:
    """Broker n has the n-th directory."""
    for nth, row in enumerate(metadata.rows):
        if isinstance(row, PartitionChange):
            metadata.rows[nth] = replace(row, directories=directories)
        elif isinstance(row, BrokerChange) and not row.directories:
            metadata.rows[nth] = replace(row, directories=(HOME[row.broker - 1],))
    return replace(case_of_history(sampled()), history=metadata.history(), steps=steps)


def at(seconds: float) -> int:
    return START_NS + int(seconds * NS)


def without_leader(*isr: int, elr: tuple[int, ...] = (), until: float = 9.0, **broker: Any) -> Metadata:
    """From second 1 on the partition has no leader. broker: changes of broker 1 at second 1, until second 8.5."""
    metadata = Metadata()
    first = next(row for row in metadata.rows if isinstance(row, BrokerChange))
    if broker:
        metadata.rows.append(replace(first, time_ns=at(1), offset=len(metadata.rows), **broker))
    metadata.led(-1, at(1), isr=isr, elr=elr)
    if broker:
        back: dict[str, Any] = {"time_ns": at(8.5), "offset": len(metadata.rows), "event": BrokerEvent.UNFENCED}
        metadata.rows.append(replace(first, **back))
    return metadata.led(1, at(until), isr=(1,))


def test_a_partition_without_a_leader_is_a_finding() -> None:
    (found,) = leaderless(case(without_leader(1)))
    assert (found.kind, found.topic, found.partition, found.condemns) == (Kind.UNAVAILABLE, "t", 0, True)
    assert found.detail == (
        "the controllers left the partition without a leader for 8.0 s, from offset 6 of the metadata log on, while "
        "broker 1 was unfenced, and eligible by ISR [1] and ELR []"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        case(without_leader(elr=(1,))),
        case(without_leader(1, 2, event=BrokerEvent.FENCED, fenced=True)),  # broker 2 could lead
        case(without_leader(1, until=6.0)),
    ],
)
def test_so_is_each_with_a_broker_that_could_lead(wrong: Case) -> None:
    assert [found.kind for found in leaderless(wrong)] == [Kind.UNAVAILABLE]


CLOCK = Fact(kind=FactKind.CLOCK_CHANGED, from_ns=START_NS, to_ns=START_NS)
CLOCK_STEP = Step(
    name="s", do="s", started_ns=1, ended_ns=1, healed_ns=1, is_fault=True, facts=(CLOCK,), events=(), effect=None
)


@pytest.mark.parametrize(
    "legal",
    [
        case(Metadata()),
        case(without_leader(1, until=5.9)),
        case(without_leader(1, event=BrokerEvent.FENCED, fenced=True)),
        case(without_leader(1, event=BrokerEvent.SHUTTING_DOWN, shutting_down=True)),
        case(without_leader(1, event=BrokerEvent.UNREGISTERED)),
        case(without_leader(1, event=BrokerEvent.DIRECTORIES, directories=("z",))),
        case(without_leader()),  # no replica is in sync or eligible
        case(without_leader(1), directories=()),
        case(without_leader(1), CLOCK_STEP),
        case(without_leader(1).unknown()),
        replace(case(without_leader(1)), history=None),
    ],
)
def test_no_other_partition_is_a_finding(legal: Case) -> None:
    assert list(leaderless(legal)) == []
