"""Objects of the remote tier, written by hand from real batches: the facts in their names, and damage to them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.kafka.storage.local_tier import ROOT, Content, TierObject, objects_of, read_object
from suites.unit.kafka.storage.test_record_batch import batch_bytes

TOPIC_ID = "_ouao9-lQhOtlgHL0yXxYQ"
SEGMENT = "c-qjF30LSKuY7PV8JO6e4w"
FIRST, SECOND, THIRD = batch_bytes(40, [b"a"] * 3), batch_bytes(43, [b"b" * 500] * 2), batch_bytes(45, [b"c"])


def put(
    store: Path, content: bytes, *, topic: str = "a-b-1", partition: int = 7, kind: str = "log", base: int = 40
) -> Path:
    folder = store / ROOT / f"{topic}-{partition}-{TOPIC_ID}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}-{SEGMENT}.{kind}"
    path.write_bytes(content)
    return path


def log(store: Path, content: bytes) -> Content:
    put(store, content)
    (only,) = objects_of(store, ["a-b-1"])
    read = read_object(only)
    assert read is not None
    return read


def test_the_path_of_an_object_names_its_partition_segment_and_kind(tmp_path: Path) -> None:
    path = put(tmp_path, b"", kind="leader_epoch_checkpoint")
    put(tmp_path, b"", topic="other")
    (path.parent / "no object").write_bytes(b"")
    (tmp_path / ROOT / "no partition").mkdir()
    found = objects_of(tmp_path, ["a-b-1"])
    assert found == [TierObject(path, "a-b-1", TOPIC_ID, 7, SEGMENT, 40, "leader_epoch_checkpoint")]


def test_an_intact_log_is_read_to_its_end(tmp_path: Path) -> None:
    content = log(tmp_path, FIRST + SECOND + THIRD)
    assert (content.records, content.first_offset, content.last_offset, content.faulty) == (6, 40, 45, "")
    assert content.sha256 == hashlib.sha256(FIRST + SECOND + THIRD).hexdigest()
    assert content.size_bytes == len(FIRST + SECOND + THIRD)


def test_a_flipped_byte_is_reported_with_the_position_of_its_batch(tmp_path: Path) -> None:
    damaged = bytearray(FIRST + SECOND + THIRD)
    damaged[len(FIRST) + 200] ^= 1
    content = log(tmp_path, bytes(damaged))
    assert content.faulty == f"byte {len(FIRST)}: the checksum is wrong"
    assert (content.records, content.last_offset) == (6, 45)


def test_a_truncated_batch_is_reported(tmp_path: Path) -> None:
    content = log(tmp_path, (FIRST + SECOND)[:-7])
    assert content.faulty == f"{len(SECOND) - 7} bytes after the last batch: " + (
        f"a batch of {len(SECOND)} bytes, of which {len(SECOND) - 7} are there"
    )
    assert (content.records, content.last_offset) == (3, 42)


def test_truncation_at_the_end_of_a_batch_shows_only_in_the_last_offset(tmp_path: Path) -> None:
    content = log(tmp_path, FIRST + SECOND)
    assert (content.faulty, content.last_offset) == ("", 44)


def test_a_missing_batch_leaves_a_gap(tmp_path: Path) -> None:
    assert log(tmp_path, FIRST + THIRD).faulty == f"byte {len(FIRST)}: offset 45 after 42"
    assert log(tmp_path, SECOND + THIRD).faulty == "byte 0: the first offset is 43, not 40"


def test_an_empty_log_has_no_offsets(tmp_path: Path) -> None:
    content = log(tmp_path, b"")
    assert (content.records, content.first_offset, content.last_offset, content.size_bytes) == (0, None, None, 0)
    assert log(tmp_path, bytes(100)).faulty == "100 bytes after the last batch: zeros"


def test_an_object_that_is_no_log_has_only_a_size_and_a_digest(tmp_path: Path) -> None:
    put(tmp_path, b"anything", kind="index")
    (only,) = objects_of(tmp_path, ["a-b-1"])
    assert read_object(only) == Content(8, hashlib.sha256(b"anything").hexdigest())


def test_an_object_that_is_deleted_before_it_is_read_is_absent(tmp_path: Path) -> None:
    path = put(tmp_path, FIRST)
    (only,) = objects_of(tmp_path, ["a-b-1"])
    path.unlink()
    assert read_object(only) is None
    assert objects_of(tmp_path / "gone", ["a-b-1"]) == []
    (tmp_path / "file").write_bytes(b"in place of the folder")
    assert objects_of(tmp_path / "file", ["a-b-1"]) == []
