"""Epochs that controllers gave twice, or that went back; each with near misses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.finding import Kind
from harness.model.history.changes import AnyChange, BrokerChange, ControllerChange, PartitionChange
from harness.verify.checks.epoch_regressed import regressed_epochs
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import sampled


def case(metadata: Metadata) -> Case:
    return replace(case_of_history(sampled()), history=metadata.history())


def with_row(row: AnyChange, metadata: Metadata | None = None) -> Case:
    """A history that ends with this row."""
    metadata = metadata or Metadata()
    metadata.rows.append(replace(row, offset=len(metadata.rows)))
    return case(metadata)


def last(kind: type[AnyChange], metadata: Metadata) -> AnyChange:
    return [row for row in metadata.rows if isinstance(row, kind)][-1]


def state(**changed: object) -> PartitionChange:
    """The state after an election of broker 2, but for these fields."""
    row = last(PartitionChange, Metadata().led(2, START_NS))
    assert isinstance(row, PartitionChange)
    return replace(row, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "how"),
    [
        (state(leader_epoch=0, partition_epoch=2), "its leader epoch went back from 1 to 0"),
        (state(leader=3, partition_epoch=2), "leader epoch 1 has the leaders 2 and 3"),
        (state(leader=-1, partition_epoch=2), "leader epoch 1 has the leaders 2 and -1"),
        (state(isr=(2, 3)), "partition epoch 1 followed 1"),
    ],
)
def test_an_epoch_of_a_partition_that_is_not_a_new_one(row: PartitionChange, how: str) -> None:
    (found,) = regressed_epochs(with_row(row, Metadata().led(2, START_NS)))
    assert (found.kind, found.topic, found.partition, found.condemns) == (Kind.EPOCH_REGRESSED, "t", 0, True)
    assert found.detail.startswith(f"t/0: {how} at offset")


@pytest.mark.parametrize(
    "row",
    [
        state(isr=(2, 3), partition_epoch=2),
        state(leader=2, leader_epoch=2, partition_epoch=2),
        state(leader=3, from_snapshot=True),
        state(leader=1, leader_epoch=0, partition_epoch=0, topic_id="another"),
    ],
)
def test_a_new_epoch_of_a_partition_is_none(row: PartitionChange) -> None:
    assert list(regressed_epochs(with_row(row, Metadata().led(2, START_NS)))) == []


def test_a_broker_of_another_process_gets_a_higher_epoch() -> None:
    before = last(BrokerChange, Metadata())
    assert isinstance(before, BrokerChange)
    (found,) = regressed_epochs(with_row(replace(before, incarnation="another")))
    assert found.reader == f"broker {before.broker}"
    assert list(regressed_epochs(with_row(before))) == []  # the same process registers again


def test_an_epoch_of_the_quorum_has_one_leader() -> None:
    before = last(ControllerChange, Metadata())
    assert isinstance(before, ControllerChange)
    (found,) = regressed_epochs(with_row(replace(before, controller=102)))
    assert "has the leaders 101 and 102" in (found.detail or "")
    assert list(regressed_epochs(with_row(replace(before, controller=102, controller_epoch=9)))) == []


def test_a_history_with_gaps_shows_nothing() -> None:
    wrong = with_row(state(leader=3), Metadata().led(2, START_NS).unknown())
    assert list(regressed_epochs(wrong)) == []
