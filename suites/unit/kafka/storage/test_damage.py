"""Damage to a stopped broker's files, on segments of real batches. Without files there is nothing to damage."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from harness.kafka.storage import damage
from harness.kafka.storage.record_batch import Batch, Walk
from suites.unit.kafka.storage.test_record_batch import batch_bytes, marker

VALUE = b"v" * 200


def segment(replica: Path, base: int, offsets: range, *, indexes: bool = True) -> Path:
    """A segment with a batch of two records at every second offset."""
    replica.mkdir(exist_ok=True)
    log = replica / f"{base:020}.log"
    log.write_bytes(b"".join(batch_bytes(offset, [VALUE, VALUE]) for offset in offsets[::2]))
    if indexes:
        log.with_suffix(".index").write_bytes(b"\0\0\0\1\0\0\0\2" * 20)
        log.with_suffix(".timeindex").write_bytes(b"\0" * 24)
    return log


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    folder = tmp_path / "t-0"
    segment(folder, 0, range(10))
    segment(folder, 10, range(10, 20))
    segment(folder, 20, range(20, 26))
    return folder


def batches(log: Path) -> list[Batch]:
    with log.open("rb") as stream:
        return list(Walk(stream, log.stat().st_size))


def wrong(replica: Path) -> list[str]:
    """The base offsets of segments with a wrong checksum."""
    return [
        log.stem.lstrip("0") or "0" for log in sorted(replica.glob("*.log")) if not all(b.crc_ok for b in batches(log))
    ]


def test_a_log_ends_after_its_last_complete_batch(replica: Path, tmp_path: Path) -> None:
    assert damage.log_end(replica) == 26
    segment(replica, 26, range(0))  # rolled and still empty
    assert damage.log_end(replica) == 26
    segment(tmp_path / "e-0", 7, range(0))
    assert damage.log_end(tmp_path / "e-0") == 7
    assert damage.log_end(tmp_path / "absent") == 0


def test_a_log_is_sound_up_to_its_first_damaged_batch_or_gap(replica: Path, tmp_path: Path) -> None:
    assert damage.sound_end(replica) == 26
    segment(replica, 10, range(10, 14))  # ends before the next segment begins: the rest was lost with the power
    assert damage.sound_end(replica) == 14
    with (replica / f"{0:020}.log").open("r+b") as log:
        log.truncate(log.seek(0, 2) - 1)
        assert damage.sound_end(replica) == 8
        log.seek(-1, 2)
        log.write(b"\xff" * 2)
    assert damage.sound_end(replica) == 8
    segment(tmp_path / "e-0", 7, range(7, 9))
    assert damage.sound_end(tmp_path / "e-0") == 9
    assert damage.sound_end(tmp_path / "absent") == 0


@pytest.mark.parametrize(
    ("recovery_point", "oldest", "flipped"),
    [(0, False, "20"), (0, True, "0"), (14, True, "10"), (20, True, "20"), (26, True, "20")],
)
def test_a_flipped_bit_is_in_a_segment_that_recovery_reads(
    replica: Path, recovery_point: int, oldest: bool, flipped: str
) -> None:
    change = damage.flip(replica, Random(3), recovery_point=recovery_point, oldest=oldest)
    assert change is not None
    assert change.stands
    assert wrong(replica) == [flipped]
    assert damage.log_end(replica) == 26  # the header is unchanged


def test_a_bit_is_never_flipped_in_markers_or_empty_segments(tmp_path: Path) -> None:
    replica = tmp_path / "t-0"
    log = segment(replica, 0, range(4))
    segment(replica, 4, range(0))
    log.write_bytes(log.read_bytes() + marker(4, 1))
    for seed in range(10):
        assert damage.flip(replica, Random(seed), recovery_point=0, oldest=False) is not None
        assert batches(log)[-1].crc_ok


@pytest.mark.parametrize("tail_bytes", [1, 100, 1_000_000])
def test_a_torn_log_ends_inside_a_batch(replica: Path, tail_bytes: int) -> None:
    assert damage.tear(replica, tail_bytes, without_indexes=False) is not None
    assert damage.log_end(replica) < 26
    log = replica / f"{20:020}.log"
    with log.open("rb") as stream:
        walk = Walk(stream, log.stat().st_size)
        list(walk)
    assert walk.tail is not None
    assert log.with_suffix(".index").exists()


def test_a_log_is_never_cut_between_two_batches(replica: Path) -> None:
    log = replica / f"{20:020}.log"
    last = batches(log)[-1]
    assert damage.tear(replica, last.size_bytes, without_indexes=False) is not None
    assert log.stat().st_size == last.position + 1


def test_after_a_clean_stop_indexes_and_later_snapshots_are_deleted_with_the_tail(replica: Path) -> None:
    for offset in (20, 26):
        (replica / f"{offset:020}.snapshot").write_bytes(b"x" * 20)
    assert damage.tear(replica, 10, without_indexes=True) is not None
    assert {path.name for path in replica.glob("*.snapshot")} == {f"{20:020}.snapshot"}
    assert {path.stem.lstrip("0") or "0" for path in replica.glob("*index")} == {"0", "10"}


def test_damage_to_an_index_ends_when_it_is_rebuilt(replica: Path) -> None:
    change = damage.garble(replica, damage.INDEX, Random(1), recovery_point=12, oldest=True)
    assert change is not None
    assert change.path.name == f"{10:020}.index"
    assert change.path.stat().st_size == 160
    assert change.stands
    change.path.write_bytes(b"\0\0\0\1\0\0\0\2" * 20)
    assert not change.stands


def test_the_deletion_of_an_index_lasts_until_it_is_rebuilt(replica: Path) -> None:
    change = damage.remove_index(replica, oldest=False)
    assert change is not None
    assert change.path.name == f"{20:020}.index"
    assert change.stands
    change.path.touch()
    assert not change.stands


def test_checkpoints_are_emptied_and_never_garbled(replica: Path) -> None:
    epochs = replica / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n3 0\n")
    starts = replica.parent / "log-start-offset-checkpoint"
    starts.write_text("0\n1\nt 0 5\n")
    assert damage.empty_leader_epochs(replica) is not None
    assert damage.empty_log_starts(replica.parent, ("t", 0)) is not None
    assert epochs.read_bytes() == starts.read_bytes() == b""


def test_the_newest_snapshot_is_damaged(replica: Path) -> None:
    for offset in (20, 26):
        (replica / f"{offset:020}.snapshot").write_bytes(b"\0\1" + b"c" * 20)
    change = damage.spoil_snapshot(replica)
    assert change is not None
    assert change.path.name == f"{26:020}.snapshot"
    assert change.path.read_bytes() == b"\0\1cb" + b"c" * 18


@pytest.mark.parametrize(("recovery_point", "spoilt"), [(26, "20"), (19, "10"), (5, None)])
def test_recovery_reads_the_snapshot_at_the_base_of_its_first_segment(
    replica: Path, recovery_point: int, spoilt: str | None
) -> None:
    for offset in (10, 20, 26):
        (replica / f"{offset:020}.snapshot").write_bytes(b"\0\1" + b"c" * 20)
    change = damage.spoil_snapshot(replica, recovery_point=recovery_point, cut_off=True)
    assert (change and change.path.stem.lstrip("0")) == spoilt


def test_without_files_nothing_is_damaged(tmp_path: Path) -> None:
    replica = tmp_path / "t-0"
    segment(replica, 0, range(0), indexes=False)
    (replica / "leader-epoch-checkpoint").write_text("0\n0\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nother 0 5\n")
    assert damage.flip(replica, Random(1), recovery_point=0, oldest=True) is None
    assert damage.tear(replica, 10, without_indexes=True) is None
    assert damage.garble(replica, damage.TIME_INDEX, Random(1), recovery_point=0, oldest=True) is None
    assert damage.remove_index(replica, oldest=True) is None
    assert damage.empty_leader_epochs(replica) is None
    assert damage.empty_log_starts(tmp_path, ("t", 0)) is None
    assert damage.spoil_snapshot(replica) is None


def test_a_flipped_bit_and_a_cut_file_can_be_undone(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n1\n3 0\n")
    flipped = damage.flip_first(path)
    assert path.read_text() == "1\n1\n3 0\n"
    flipped.undo()
    halved = damage.cut(path)
    assert halved.stands
    assert path.read_text() == "0\n1\n3"
    halved.undo()
    assert path.read_text() == "0\n1\n3 0\n"


def test_an_index_is_never_cut_between_two_entries(replica: Path) -> None:
    for suffix, entry_bytes in ((damage.INDEX, 8), (damage.TIME_INDEX, 12)):
        path = damage.beside(replica, suffix, recovery_point=0, oldest=False)
        assert path is not None
        damage.cut(path)
        assert path.stat().st_size % entry_bytes


def test_the_node_id_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("directory.id=node.id=7\nnode.id=12\nversion=1\n")
    damage.foreign_node(path)
    assert path.read_text() == "directory.id=node.id=7\nnode.id=13\nversion=1\n"
