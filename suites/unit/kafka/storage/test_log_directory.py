"""Checkpoints, topic ids and segments as Kafka 4.3.1 writes them, and the errors for damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.storage import log_directory
from harness.kafka.storage.log_directory import (
    DamagedFile,
    cleaned_end,
    deleted_segments,
    leader_epochs,
    offset_checkpoint,
    partition_directories,
    segments,
    topic_id,
)


def test_only_replicas_are_found_in_a_log_directory(tmp_path: Path) -> None:
    names = [
        "orders-0",
        "orders-12",
        "my-orders-1",
        "__consumer_offsets-3",
        "__cluster_metadata-0",
        "orders-1.b14be1f1b2be4b0eab7e1bb4c1b7f3e1-delete",
        "orders-2.0c1c2d3e4f5061728394a5b6c7d8e9f0-future",
        "orders-3.0c1c2d3e4f5061728394a5b6c7d8e9f0-stray",
        "cleaner-offset-checkpoint",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "file-7").touch()
    found = [(r.topic, r.partition) for r in partition_directories([tmp_path, tmp_path / "gone"])]
    assert found == [
        ("__cluster_metadata", 0),
        ("__consumer_offsets", 3),
        ("my-orders", 1),
        ("orders", 0),
        ("orders", 12),
    ]
    assert [(r.topic, r.partition) for r in partition_directories([tmp_path], {"my-orders"})] == [("my-orders", 1)]


def test_segments_are_sorted_and_exclude_temporary_files(tmp_path: Path) -> None:
    for name in [
        "00000000000000001667.log",
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000100.log.deleted",
        "00000000000000000150.index.deleted",
        "00000000000000000200.log.cleaned",
        "00000000000000000300.log.swap",
        "leader-epoch-checkpoint",
    ]:
        (tmp_path / name).touch()
    assert [segment.base_offset for segment in segments(tmp_path)] == [0, 1667]
    assert deleted_segments(tmp_path) == {100}


def test_leader_epochs_are_read(tmp_path: Path) -> None:
    assert leader_epochs(tmp_path) == []
    checkpoint = tmp_path / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n3 1667\n")
    assert leader_epochs(tmp_path) == [(0, 0), (3, 1667)]


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 5\n", "0\n1\n0\n", "0\n1\nx y\n"])
def test_a_damaged_checkpoint_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    with pytest.raises(DamagedFile, match="leader-epoch-checkpoint"):
        leader_epochs(tmp_path)


def test_offset_checkpoints_are_read(tmp_path: Path) -> None:
    assert offset_checkpoint(tmp_path, log_directory.RECOVERY_POINTS) == {}
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 1667\nmy-orders 12 4\n")
    assert offset_checkpoint(tmp_path, log_directory.RECOVERY_POINTS) == {("orders", 0): 1667, ("my-orders", 12): 4}
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0\n")
    with pytest.raises(DamagedFile, match="log-start-offset-checkpoint"):
        offset_checkpoint(tmp_path, log_directory.LOG_STARTS)


def test_topic_ids_are_read(tmp_path: Path) -> None:
    assert topic_id(tmp_path) is None
    metadata = tmp_path / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: 1sMGKL_jQ6yPWNg4RFZdww")
    assert topic_id(tmp_path) == "1sMGKL_jQ6yPWNg4RFZdww"
    metadata.write_text("version: 0\n")
    with pytest.raises(DamagedFile, match="names no topic id"):
        topic_id(tmp_path)


@pytest.mark.parametrize(("text", "end"), [(None, 0), ("", 0), ("0\n1\nt 0 192\n", 192), ("0\n1\nt 1 192\n", 0)])
def test_a_cleaner_without_a_checkpoint_has_compacted_nothing(tmp_path: Path, text: str | None, end: int) -> None:
    if text is not None:
        (tmp_path / "cleaner-offset-checkpoint").write_text(text, encoding="utf-8")
    assert cleaned_end([tmp_path], ("t", 0)) == end


def test_a_damaged_checkpoint_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 192\n", encoding="utf-8")
    with pytest.raises(DamagedFile, match="has 1 entries, but its count is 2"):
        cleaned_end([tmp_path], ("t", 0))
