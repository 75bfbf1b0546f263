"""Partitions that two members of a group had at once, by what their clients told them."""

from __future__ import annotations

from harness.workload.consumers.ownership import Ownership

P, Q = ("t", 0), ("t", 1)


def test_a_partition_that_its_former_member_had_not_given_up_was_owned_twice() -> None:
    seen = Ownership()
    seen.got("g", "one", [P, Q])
    seen.got("g", "two", [Q])
    seen.gave_up("g", "one", [P, Q])
    (row,) = seen.twice()
    assert (row.group, row.topic, row.partition, row.member, row.next_member) == ("g", "t", 1, "one", "two")
    assert row.from_ns <= row.until_ns
    assert row.held_ns is None


def test_since_when_the_former_member_had_read_it_is_told() -> None:
    seen = Ownership()
    seen.got("g", "one", [P])
    seen.holds("g", "one", [P])
    seen.got("g", "two", [P])
    seen.gave_up("g", "one", [P])
    (row,) = seen.twice()
    assert row.held_ns is not None
    assert row.held_ns <= row.from_ns


def test_a_partition_that_was_given_up_before_was_not() -> None:
    seen = Ownership()
    seen.got("g", "one", [P])
    seen.gave_up("g", "one", [P])
    seen.got("g", "two", [P])
    seen.got("h", "one", [P])  # another group
    seen.gave_up("g", "two", [P])
    assert seen.twice() == ()


def test_a_member_that_lost_a_partition_did_not_have_it() -> None:
    """Its session had ended, so the coordinator gave the partition to another one."""
    seen = Ownership()
    seen.got("g", "one", [P, Q])
    seen.got("g", "two", [P, Q])
    seen.lost("g", "one", [P])
    seen.lost("g", "one", [Q])  # its client is closed
    seen.gave_up("g", "one", [P, Q])
    assert seen.twice() == ()
