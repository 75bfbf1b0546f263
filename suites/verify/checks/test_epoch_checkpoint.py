"""Leader epoch checkpoints that do not fit the batches of their log; each with near misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.model.documents.cluster import Lineage
from harness.model.finding import Kind
from harness.verify.checks.epoch_checkpoint import wrong_checkpoints
from harness.verify.engine.case import Case
from harness.verify.engine.disk_epochs import DiskEpoch
from suites.verify.history import History
from suites.verify.judging import case_of_history
from suites.verify.samples import sampled, with_fact

PLACE = ("t", "T", 0)
RIGHT = ((0, 0), (2, 10))
LOG = (DiskEpoch(PLACE, 3, 0, 0, 9), DiskEpoch(PLACE, 3, 2, 10, 19))
SHORTENED: dict[str, Any] = {"retention_bytes": 1000}


def case(*epochs: tuple[int, int], error: str | None = None, times: int = 1, **contract: Any) -> Case:
    """Broker 3 has this checkpoint. contract: settings of the topic."""
    built = History("AAAA").build()
    built.run["contract"]["topics"]["t"] |= contract
    of = case_of_history(built)
    lineage = Lineage(broker=3, topic="t", partition=0, epochs=epochs, error=error)
    return replace(of, cluster=msgspec.structs.replace(of.cluster, lineages=(lineage,) * times))


@pytest.mark.parametrize(
    ("epochs", "contract", "how", "offset"),
    [
        (((0, 0),), {}, "does not have leader epoch 2", 10),
        ((), {}, "does not have leader epoch 0", 0),
        (((0, 0), (2, 11)), {}, "begins leader epoch 2 at offset 11, after its first batch", 10),
        (((0, 1), (2, 10)), {}, "begins leader epoch 0 at offset 1, after its first batch", 0),
        (((0, 0), (2, 9)), {}, "begins leader epoch 2 at offset 9, and epoch 0 goes on to 9", 0),
        (((0, 5),), SHORTENED, "does not have leader epoch 2", 10),
        (((0, 5), (2, 11)), SHORTENED, "begins leader epoch 2 at offset 11, after its first batch", 10),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_a_finding(
    epochs: Sequence[tuple[int, int]], contract: dict[str, Any], how: str, offset: int
) -> None:
    (found,) = wrong_checkpoints(case(*epochs, **contract), LOG)
    assert (found.kind, found.reader, found.offset_first) == (Kind.EPOCH_LOOKUP, "broker 3", offset)
    assert found.detail.startswith(f"the leader epoch checkpoint of broker 3 {how}; its batches of epoch ")


def crashed() -> Case:
    of = case_of_history(with_fact(sampled(), "stopped", 3, 2, 3, how="power"))
    return replace(of, cluster=case((0, 0)).cluster)


@pytest.mark.parametrize(
    "legal",
    [
        case(*RIGHT),
        case((0, 0), (1, 10), (2, 10), (5, 20)),  # leaders that wrote nothing
        case((0, 5), (2, 10), **SHORTENED),  # from the log start on
        case((2, 15), **SHORTENED),
        case(**SHORTENED),
        case((0, 5), (2, 10), tiered=True),
        case((0, 5), (2, 10), delete_records=True),
        case((0, 0), error="it is damaged"),
        case((0, 0), times=2),
        replace(case((0, 5), (2, 10)), complete=False),
        crashed(),
    ],
)
def test_no_other_checkpoint_is_a_finding(legal: Case) -> None:
    assert list(wrong_checkpoints(legal, LOG)) == []


def test_batches_that_compaction_left_fit_the_entries_of_all() -> None:
    kept = (DiskEpoch(PLACE, 3, 0, 4, 4), DiskEpoch(PLACE, 3, 2, 15, 19))
    assert list(wrong_checkpoints(case(*RIGHT), kept)) == []


def test_two_topics_of_one_name_are_not_told_apart() -> None:
    again = DiskEpoch(("t", "U", 0), 3, 4, 0, 9)
    assert list(wrong_checkpoints(case(*RIGHT), (*LOG, again))) == []
