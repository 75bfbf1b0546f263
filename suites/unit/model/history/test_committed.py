"""Which records of several logs are committed."""

from __future__ import annotations

from harness.model.history.committed import Division, divide
from harness.model.history.log import LogBatch
from suites.unit.model.history.logs import batch, batches, node, noop, snapshot

VOTERS = (1, 2, 3)
BASE = batches(*[noop()] * 5)


def tail(epoch: int, count: int = 2, first: int = 5) -> tuple[LogBatch, ...]:
    return batches(*[noop()] * count, first=first, epoch=epoch)


def offsets(kept: tuple[LogBatch, ...]) -> list[int]:
    return [each.base_offset for each in kept]


def written(division: Division) -> dict[int, list[int]]:
    return {number: offsets(kept) for number, kept in division.uncommitted.items()}


def test_equal_logs_are_committed() -> None:
    division = divide([node(1, BASE), node(2, BASE), node(3, BASE)], VOTERS)
    assert (division.end, offsets(division.batches), written(division)) == (5, [0, 1, 2, 3, 4], {})


def test_the_tail_of_one_voter_is_written_and_not_committed() -> None:
    division = divide([node(1, BASE + tail(1)), node(2, BASE), node(3, BASE)], VOTERS)
    assert (division.end, written(division)) == (5, {1: [5, 6]})


def test_the_tail_of_two_voters_is_committed() -> None:
    division = divide([node(1, BASE + tail(1)), node(2, BASE + tail(1)), node(3, BASE)], VOTERS)
    assert (division.end, written(division)) == (7, {})


def test_the_tail_of_a_deposed_leader_is_not_committed_where_others_went_on() -> None:
    later = BASE + tail(2, 3)
    division = divide([node(1, BASE + tail(1, 4)), node(2, later), node(3, later)], VOTERS)
    assert (division.end, written(division)) == (8, {1: [5, 6, 7, 8]})
    assert [each.epoch for each in division.batches] == [1] * 5 + [2] * 3


def test_brokers_are_no_majority() -> None:
    brokers = [node(number, BASE + tail(1)) for number in (101, 102, 103)]
    division = divide([node(1, BASE + tail(1)), node(2, BASE), node(3, BASE), *brokers], VOTERS)
    assert division.end == 5
    assert written(division) == {number: [5, 6] for number in (1, 101, 102, 103)}


def test_a_later_epoch_may_overwrite_what_a_majority_has_of_an_earlier_one() -> None:
    """Figure 8 of the Raft paper: voter 3 can still win an election, and it lacks the records."""
    division = divide([node(1, BASE + tail(2)), node(2, BASE + tail(2)), node(3, BASE + tail(3, 1))], VOTERS)
    assert division.end == 5
    assert written(division) == {1: [5, 6], 2: [5, 6], 3: [5]}


def test_a_later_epoch_behind_the_records_of_a_majority_overwrites_nothing() -> None:
    both = BASE + tail(2)
    division = divide([node(1, both), node(2, both), node(3, both + tail(3, 1, first=7))], VOTERS)
    assert (division.end, written(division)) == (7, {3: [7]})


def test_a_missing_voter_has_nothing() -> None:
    division = divide([node(1, BASE + tail(1)), node(2, BASE)], VOTERS)
    assert division.end == 5
    assert divide([node(1, BASE)], VOTERS).end == 0


def test_a_high_watermark_commits_what_only_one_voter_has_kept() -> None:
    logs = [node(1, BASE + tail(1)), node(2, BASE), node(3)]
    assert divide(logs, VOTERS, 6).end == 6
    assert written(divide(logs, VOTERS, 6)) == {1: [6]}
    assert divide(logs, VOTERS, 2).end == 5


def test_below_the_high_watermark_the_log_of_a_broker_serves() -> None:
    division = divide([node(1, BASE), node(2, BASE), node(3, BASE), node(101, BASE + tail(1))], VOTERS, 7)
    assert (division.end, offsets(division.batches)) == (7, [0, 1, 2, 3, 4, 5, 6])


def test_a_high_watermark_that_no_log_reaches_commits_nothing_more() -> None:
    assert divide([node(1, BASE), node(2, BASE), node(3, BASE)], VOTERS, 9).end == 5


def test_records_in_a_snapshot_are_committed() -> None:
    division = divide([node(1, BASE, snapshot(4)), node(2), node(3)], VOTERS)
    assert (division.end, written(division)) == (4, {1: [4]})


def test_a_damaged_snapshot_commits_nothing() -> None:
    assert divide([node(1, BASE, snapshot(4, problem="torn")), node(2), node(3)], VOTERS).end == 0


def test_a_voter_that_has_only_a_snapshot_counts_for_the_records_in_it() -> None:
    wiped = node(2, tail(1), snapshot(5))
    division = divide([node(1, BASE + tail(1)), wiped, node(3, BASE)], VOTERS)
    assert (division.end, offsets(division.batches)) == (7, [0, 1, 2, 3, 4, 5, 6])


def test_nodes_that_differ_in_a_committed_record_are_a_conflict() -> None:
    other = (*BASE[:2], batch(2, 1, noop(), digest=7), *BASE[3:])
    (conflict,) = divide([node(1, BASE), node(2, BASE), node(3, other)], VOTERS).conflicts
    assert (conflict.offset, conflict.epoch, conflict.nodes) == (2, 1, (1, 3))


def test_a_tail_that_differs_is_no_conflict() -> None:
    assert divide([node(1, BASE + tail(1)), node(2, BASE + tail(2)), node(3, BASE)], VOTERS).conflicts == ()
