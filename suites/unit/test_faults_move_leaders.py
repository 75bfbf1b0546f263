"""Who shall lead next; the states are made by hand and claim nothing about Kafka."""

from __future__ import annotations

import pytest

from harness.faults.move_leaders import next_order
from harness.kafka.admin import PartitionState
from harness.model.errors import HarnessTimeout


def state(leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(
        topic="t", topic_id="i", partition=0, leader=leader, leader_epoch=3, isr=isr, replicas=(1, 2, 3)
    )


@pytest.mark.parametrize(
    ("leader", "without", "order"),
    [(1, (), [2, 1, 3]), (2, (), [1, 2, 3]), (1, (2,), [3, 1, 2]), (2, (1,), [3, 1, 2])],
)
def test_the_first_in_sync_that_neither_leads_nor_is_left_out(
    leader: int, without: tuple[int, ...], order: list[int]
) -> None:
    assert next_order(state(leader), without) == order


def test_who_is_out_of_sync_does_not_lead() -> None:
    assert next_order(state(1, isr=(1, 3)), ()) == [3, 1, 2]
    with pytest.raises(HarnessTimeout, match="nobody but the leader 1"):
        next_order(state(1, isr=(1, 3)), (3,))
