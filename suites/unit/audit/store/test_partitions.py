"""Packed states of partitions give back what was put, and the database gives back what was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audit.store.database import FILE, Database, Progress, Unwatched
from harness.audit.store.partitions import NEVER, Offsets, PackedPartitions
from harness.model.errors import BadInput
from harness.model.history.changes import PartitionChange

BROKERS = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=8).map(lambda ids: tuple(sorted(ids)))
EPOCH = st.integers(-1, 2**31 - 1)
OFFSET = st.integers(-1, 2**63 - 1)


@st.composite
def states(draw: st.DrawFn) -> PartitionChange:
    topic = draw(st.sampled_from(["orders", "payments"]))
    replicas = draw(BROKERS)
    return PartitionChange(
        topic=topic,
        topic_id=f"id of {topic}",
        partition=draw(st.integers(0, 50)),
        leader=draw(EPOCH),
        leader_epoch=draw(EPOCH),
        partition_epoch=draw(EPOCH),
        isr=draw(BROKERS),
        elr=draw(BROKERS),
        last_known_elr=draw(BROKERS),
        recovering=draw(st.booleans()),
        replicas=replicas,
        adding=draw(BROKERS),
        removing=draw(BROKERS),
        directories=tuple(f"directory {replica}" for replica in replicas),
        time_ns=draw(st.integers(0, 2**40)) * 1_000_000,
        offset=draw(OFFSET),
        controller_epoch=draw(EPOCH),
    )


def in_any_order(state: PartitionChange) -> PartitionChange:
    sets = {name: tuple(sorted(getattr(state, name))) for name in ("isr", "elr", "last_known_elr")}
    return replace(state, **sets)  # type: ignore[arg-type]


SEEN = st.builds(Offsets, EPOCH, OFFSET, OFFSET, OFFSET, OFFSET, OFFSET)


@given(st.lists(st.tuples(states(), st.none() | SEEN), max_size=30))
def test_what_was_put_comes_back(
    tmp_path_factory: pytest.TempPathFactory, given: list[tuple[PartitionChange, Offsets | None]]
) -> None:
    packed, expected, seen = PackedPartitions(), {}, {}
    for state, offsets in given:
        packed.put(state)
        place = state.topic_id, state.partition
        expected[place] = in_any_order(state)
        if offsets is not None:
            packed.put_offsets(*place, offsets)
            seen[place] = offsets
    assert {(s.topic_id, s.partition): in_any_order(s) for s in packed} == expected
    assert len(packed) == len(expected)
    database = Database(tmp_path_factory.mktemp("db"))
    database.save(packed, Progress(7, 3, 11))
    again = PackedPartitions()
    database.load(again)
    assert {(s.topic_id, s.partition): in_any_order(s) for s in again} == expected
    assert {place: again.offsets(*place) for place in expected} == {p: seen.get(p, NEVER) for p in expected}
    assert database.progress() == Progress(7, 3, 11)
    database.close()


def state(partition: int = 0, topic: str = "orders", **changed: object) -> PartitionChange:
    given = PartitionChange(
        topic=topic,
        topic_id=f"id of {topic}",
        partition=partition,
        leader=1,
        leader_epoch=4,
        partition_epoch=9,
        isr=(1, 2, 3),
        elr=(),
        last_known_elr=(),
        recovering=False,
        replicas=(1, 2, 3),
        adding=(),
        removing=(),
        directories=(),
        time_ns=5_000_000,
        offset=100,
        controller_epoch=2,
    )
    return replace(given, **changed)  # type: ignore[arg-type]


def test_a_snapshot_replaces_states_and_keeps_looks() -> None:
    packed = PackedPartitions()
    packed.put(state())
    packed.put(state(topic="gone"))
    packed.put_offsets("id of orders", 0, Offsets(4, 0, 10, 12))
    packed.clear()
    assert not len(packed)
    packed.put(state(leader=2, leader_epoch=5))
    packed.end_replacement()
    assert [s.topic for s in packed] == ["orders"]
    assert packed.offsets("id of orders", 0) == Offsets(4, 0, 10, 12)
    assert packed.take_removed() == {"id of gone"}


def test_only_what_changed_is_taken() -> None:
    packed = PackedPartitions()
    packed.put(state(0))
    packed.put(state(1))
    assert [*packed.take_changed(moved_too=False)] == [("id of orders", 0), ("id of orders", 1)]
    packed.put_offsets("id of orders", 1, Offsets(4, 0, 10, 12))
    assert [*packed.take_changed(moved_too=False)] == []
    assert [*packed.take_changed(moved_too=True)] == [("id of orders", 1)]
    assert [*packed.take_changed(moved_too=True)] == []


def test_more_replicas_than_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="orders/0 has 33 replicas"):
        PackedPartitions().put(state(replicas=tuple(range(33)), isr=(0,)))


def test_a_removed_topic_leaves_the_database(tmp_path: Path) -> None:
    packed, database = PackedPartitions(), Database(tmp_path)
    packed.put(state())
    database.save(packed, Progress(1, 1, 1), chains={("id of orders", 0): [(0, 0), (4, 2**40)]})
    assert database.chain("id of orders", 0) == ((0, 0), (4, 2**40))
    packed.remove_topic("id of orders")
    database.save(packed, Progress(2, 1, 2))
    again = PackedPartitions()
    database.load(again)
    assert len(again) == 0
    assert database.chain("id of orders", 0) == ()


def test_times_that_nobody_watched_are_kept(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.put_unwatched(Unwatched(5, 9, "records 3 to 8 were deleted before they were read"))
    database.close()
    assert Database(tmp_path, read_only=True).unwatched() == [
        Unwatched(5, 9, "records 3 to 8 were deleted before they were read")
    ]


def test_a_start_that_was_killed_is_no_second_time(tmp_path: Path) -> None:
    database = Database(tmp_path)
    for to_ns, why in ((9, "no auditor ran"), (12, "no auditor ran"), (12, "records were deleted")):
        database.put_unwatched(Unwatched(5, to_ns, why))
    database.close()
    expected = [Unwatched(5, 12, "no auditor ran"), Unwatched(5, 12, "records were deleted")]
    assert Database(tmp_path, read_only=True).unwatched() == expected


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(BadInput, match="cannot be opened"):
        Database(tmp_path)


def test_a_folder_without_a_database_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"has no {FILE}"):
        Database(tmp_path, read_only=True)
