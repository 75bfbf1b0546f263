"""Following the metadata log on disk: every batch once, in whatever pieces it is read, and each byte once."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.kafka.storage.log_piece import OtherLog, read_piece
from harness.kafka.storage.log_tail import LogGap, LogTail, position_before
from harness.kafka.storage.message_reader import BROKEN, FileReader, MessageReader
from suites.unit.kafka.storage.metadata_bytes import data_batch, log_folder, record_value

NOOP = record_value("NoOpRecord")


def batches(sizes: list[int]) -> list[tuple[int, bytes]]:
    """Batches of so many records each, with their base offsets."""
    made, offset = [], 0
    for size in sizes:
        made.append((offset, data_batch(offset, *[NOOP] * size)))
        offset += size
    return made


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(61, 400),
    st.lists(st.integers(0, 120), max_size=6),
)
def test_every_batch_comes_once_and_none_beyond_the_end(
    segments: list[list[int]], limit_bytes: int, ends: list[int]
) -> None:
    with TemporaryDirectory() as directory:
        every = batches([size for segment in segments for size in segment])
        files, left = {}, list(every)
        for segment in segments:
            part, left = left[: len(segment)], left[len(segment) :]
            files[part[0][0]] = b"".join(data for _, data in part)
        tail = LogTail(log_folder(Path(directory), files), 0, 0)
        found: list[int] = []
        for end in (*sorted(ends), 1 << 30):
            while read := tail.read(end, limit_bytes):
                assert read[-1].last_offset < end
                found += [batch.base_offset for batch in read]
        tail.close()
        assert found == [offset for offset, _ in every]
        assert tail.problem is None


def test_it_begins_in_the_middle_and_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = batches([1] * 100)
    data = b"".join(batch for _, batch in every)
    folder = log_folder(tmp_path, {0: data})
    write_index(folder, [(49, 49 * len(every[0][1]))], entries=1000)
    read_bytes: list[int] = []
    pread = os.pread

    def counted(file: int, size: int, position: int) -> bytes:
        found = pread(file, size, position)
        read_bytes.append(len(found))
        return found

    tail = LogTail(folder, 60, 1)
    assert tail.has_more()  # opens it
    monkeypatch.setattr(os, "pread", counted)
    assert [batch.base_offset for batch in tail.read(1 << 30, 1 << 20)] == list(range(60, 100))
    assert sum(read_bytes) == 51 * len(every[0][1])
    read_bytes.clear()
    assert not tail.has_more()
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(data_batch(100, NOOP))
    assert tail.has_more()
    assert [batch.base_offset for batch in tail.read(1 << 30, 1 << 20)] == [100]
    assert sum(read_bytes) == len(data_batch(100, NOOP))
    tail.close()


def write_index(folder: Path, entries_in_it: list[tuple[int, int]], entries: int) -> Path:
    """An offset index with its full size, as the newest segment has it."""
    path = folder / f"{0:020}.index"
    data = b"".join(struct.pack(">ii", offset, position) for offset, position in entries_in_it)
    path.write_bytes(data.ljust(8 * entries, b"\0"))
    return path


def test_an_index_finds_the_batch_before_an_offset(tmp_path: Path) -> None:
    every = batches([2] * 50)
    size = len(every[0][1])
    folder = log_folder(tmp_path, {0: b"".join(data for _, data in every)})
    segment = folder / f"{0:020}.log"
    assert position_before(segment, 0, 60) == 0  # without an index
    write_index(folder, [(19, 9 * size), (41, 20 * size), (79, 39 * size)], entries=3)
    assert [position_before(segment, 0, at) // size for at in (1, 19, 20, 41, 42, 79, 80, 99)] == [
        *(0, 0, 9, 9, 20, 20, 39, 39)
    ]


@pytest.mark.parametrize("entry", [(19, 7), (19, 1 << 30), (19, 45 * 76)])
def test_an_index_that_does_not_fit_is_not_used(tmp_path: Path, entry: tuple[int, int]) -> None:
    """It points into a batch, behind the file, or behind the offset."""
    every = batches([1] * 50)
    folder = log_folder(tmp_path, {0: b"".join(data for _, data in every)})
    write_index(folder, [entry], entries=10)
    assert position_before(folder / f"{0:020}.log", 0, 30) == 0


def test_a_gap_names_the_offset_that_was_wanted(tmp_path: Path) -> None:
    tail = LogTail(log_folder(tmp_path, {7: data_batch(7, NOOP)}), 5, 1)
    with pytest.raises(LogGap) as gap:
        tail.read(9, 100)
    assert gap.value.wanted == 5


def test_pieces_of_another_log_are_noticed() -> None:
    data = data_batch(0, NOOP, NOOP, epoch=2)
    with pytest.raises(OtherLog, match="a batch has the offsets 0 to 1, and 1 comes next"):
        read_piece(data, 1, 2, 9)
    assert read_piece(data, 0, 3, 9).problem == "leader epoch 2 follows 3"
    assert read_piece(data_batch(4, NOOP), 2, 1, 9).problem == "offset 4 follows 1"
    assert read_piece(data, 2, 2, 9).used_bytes == len(data)


@given(st.binary(max_size=300_000), st.lists(st.integers(0, 100_000), max_size=10))
@settings(deadline=None, max_examples=50)
def test_a_file_is_read_in_pieces_as_bytes_are(data: bytes, sizes: list[int]) -> None:
    whole, pieces = MessageReader(data), FileReader(io.BytesIO(b"x" + data + b"y"), 1, len(data))
    for size in sizes:
        results: list[tuple[object, ...]] = []
        for reader in (whole, pieces):
            try:
                results.append((reader.take(size), reader.number("h"), reader.uvarint(), reader.left))
            except BROKEN as broken:
                results.append((type(broken),))
        assert results[0] == results[1]


def test_a_file_that_became_shorter_is_damage() -> None:
    reader = FileReader(io.BytesIO(b"abc"), 0, 10)
    with pytest.raises(ValueError, match="8 bytes are expected, and the file has 3"):
        reader.take(8)
