"""Leader epochs of batches on disks that the controllers did not give, or had replaced; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.model.finding import Kind
from harness.verify.checks.wrong_epoch import wrong_epochs
from harness.verify.engine.case import Case
from harness.verify.engine.disk_epochs import DiskEpoch
from suites.verify.history import MS, START_NS
from suites.verify.judging import case_of_history
from suites.verify.metadata import CONTROLLER, Metadata
from suites.verify.samples import S, sampled, with_fact

PLACE = ("t", "T", 0)


def epoch(number: int, *, broker: int = 1, sent_s: float | None = 1, first: int = 0, last: int = 9) -> DiskEpoch:
    newest = (None, None) if sent_s is None else ((START_NS + int(sent_s * S)) // MS, last)
    return DiskEpoch(PLACE, broker, number, first, last, *newest)


def case(metadata: Metadata | None = None, **run: Any) -> Case:
    """Broker 2 leads from the fifth second on."""
    return case_of_history(sampled(metadata=metadata or Metadata().led(2, START_NS + 5 * S), **run))


def with_fault(kind: str, from_s: float, to_s: float, *, node: int = 1, **more: Any) -> Case:
    built = sampled(metadata=Metadata().led(2, START_NS + 5 * S))
    return case_of_history(with_fact(built, kind, node, from_s, to_s, **more))


def details(of: Case, *rows: DiskEpoch) -> list[str]:
    found = list(wrong_epochs(of, rows))
    assert all(one.kind is Kind.WRONG_EPOCH and one.condemns for one in found)
    return [one.detail for one in found]


def test_an_epoch_that_the_controllers_never_gave_is_a_finding() -> None:
    rows = [epoch(0), *(epoch(2, broker=broker, first=10, last=19) for broker in (1, 3)), epoch(4, first=20)]
    assert details(case(), *rows) == [
        "the batch at offset 10 has leader epoch 2 on the disk of brokers 1, 3: the controllers never gave leader "
        "epoch 2 to the partition; the last one was 1"
    ]


def test_a_batch_that_was_sent_long_after_the_next_epoch_had_begun_is_a_finding() -> None:
    rows = [epoch(0, sent_s=17, broker=broker) for broker in (1, 2)]
    assert details(case(), *rows) == [
        "the batch at offset 9 has leader epoch 0 on the disk of brokers 1, 2: the batch was sent 12 s after the "
        "controllers had given the partition the next leader epoch, and no fault was active since then"
    ]


def test_an_epoch_without_a_leader_ends_the_one_before_it() -> None:
    leaderless = Metadata().led(-1, START_NS + 5 * S).led(1, START_NS + 9 * S)
    assert len(details(case(leaderless), epoch(0, sent_s=17))) == 1


def test_the_time_counts_from_the_end_of_the_last_fault() -> None:
    frozen = with_fault("frozen", 2, 30)
    assert details(frozen, epoch(0, sent_s=25)) == []
    assert details(frozen, epoch(0, sent_s=39)) == []
    assert len(details(frozen, epoch(0, sent_s=42))) == 1
    assert len(details(with_fault("config_set", 2, 30, topic="t", config={}), epoch(0, sent_s=42))) == 1


def test_one_disk_of_several_does_not_show_that_a_leader_went_on() -> None:
    assert details(case(), epoch(0), epoch(0, broker=2), epoch(0, sent_s=90, broker=3)) == []
    assert len(details(case(), epoch(0), epoch(0, sent_s=80, broker=2), epoch(0, sent_s=90, broker=3))) == 1


@pytest.mark.parametrize(
    ("legal", "row"),
    [
        (case(), epoch(0)),
        (case(), epoch(1, sent_s=90)),
        (case(), epoch(0, sent_s=15)),  # the broker learned late
        (case(), epoch(0, sent_s=None)),  # markers of transactions only
        (case(timestamps=None), epoch(0, sent_s=90)),
        (case(), epoch(2)._replace(place=("t", "another", 0))),
        (case(Metadata().from_snapshot(START_NS)), epoch(2)),
        (case(Metadata().unknown()), epoch(2)),
        (replace(case(), history=None), epoch(2)),
        (with_fault("data_lost", 2, 3, what="a part"), epoch(2)),
        (with_fault("stopped", 2, 3, how="power"), epoch(2)),
        (with_fault("clock_changed", 2, 3, node=CONTROLLER), epoch(0, sent_s=90)),
    ],
)
def test_no_other_epoch_is_a_finding(legal: Case, row: DiskEpoch) -> None:
    assert details(legal, row) == []
