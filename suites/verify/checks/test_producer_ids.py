"""Blocks of producer ids that controllers gave twice; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.finding import Kind
from harness.model.history.changes import ProducerIdBlock
from harness.model.history.history import History as ClusterHistory
from harness.verify.checks.producer_ids import reused_producer_ids
from harness.verify.engine.case import Case
from suites.verify.history import START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import Metadata
from suites.verify.samples import sampled


def block(next_id: int, offset: int = 0, **more: Any) -> ProducerIdBlock:
    given: dict[str, Any] = {"broker": 2, "time_ns": START_NS, "controller_epoch": 1}
    return ProducerIdBlock(next_id=next_id, offset=offset, **given | more)


def case(*blocks: ProducerIdBlock, metadata: Metadata | None = None) -> Case:
    of = (metadata or Metadata()).history()
    history = ClusterHistory(
        nodes=of.nodes, voters=of.voters, start=0, end=of.end, changes=of.changes, producer_ids=blocks
    )
    return replace(case_of_history(sampled()), history=history)


@pytest.mark.parametrize("next_id", [1000, 2000])
def test_a_block_that_was_given_before_is_a_finding(next_id: int) -> None:
    (found,) = reused_producer_ids(case(block(1000), block(2000), block(next_id), block(3000)))
    assert (found.kind, found.reader, found.condemns) == (Kind.PRODUCER_IDS_REUSED, "broker 2", True)
    assert found.detail == (
        f"broker 2 got a block of producer ids that ends before {next_id}, and ids up to 1999 had been given before"
    )


@pytest.mark.parametrize(
    "legal",
    [
        case(),
        case(block(1000), block(2000)),
        case(block(1000), block(9000)),  # ids between blocks may be lost
        case(block(5000, from_snapshot=True), block(6000)),
        case(block(5000), block(5000, from_snapshot=True), block(6000)),
        case(block(2000), block(1000), metadata=Metadata().unknown()),
        replace(case(block(2000), block(1000)), history=None),
    ],
)
def test_no_other_block_is_a_finding(legal: Case) -> None:
    assert list(reused_producer_ids(legal)) == []
