"""Many files of a table become one: its rows are those of the files, and Spark can still skip what it does not need."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.evidence.columns import arrow_schema
from harness.verify.engine import joined
from harness.verify.engine.joined import join, worth_joining

SCHEMA = arrow_schema("failed_sends")


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows with a number of their own in each column of numbers."""
    of_type = {pa.int32(): list(range(first, first + count)), pa.int64(): list(range(first, first + count))}
    columns = [pa.array(of_type.get(field.type, [field.name] * count), field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def files_of(folder: Path, *, bundles: int, count: int) -> dict[int, list[Path]]:
    """Two files in each bundle, with `count` rows each."""
    files: dict[int, list[Path]] = {}
    for bundle in range(bundles):
        for name in ("a", "b"):
            path = folder / str(bundle) / f"{name}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(rows(count, 10 * bundle), path)
            files.setdefault(bundle, []).append(path)
    return files


def test_the_rows_of_all_files_are_there_with_their_bundle(tmp_path: Path) -> None:
    files = files_of(tmp_path, bundles=3, count=2)
    join(files, "failed_sends", "bundle", tmp_path / "joined.parquet")
    found = pq.read_table(tmp_path / "joined.parquet")
    assert found.column_names == ["bundle", *SCHEMA.names]
    assert sorted(found["bundle"].to_pylist()) == [0] * 4 + [1] * 4 + [2] * 4
    numbers = next(field.name for field in SCHEMA if field.type in (pa.int32(), pa.int64()))
    wanted = {(bundle, 10 * bundle + nth) for bundle in range(3) for nth in range(2)}
    assert set(zip(found["bundle"].to_pylist(), found[numbers].to_pylist(), strict=True)) == wanted


def test_files_without_an_optional_column_have_nulls_there(tmp_path: Path) -> None:
    ledger = arrow_schema("ledger")
    old = pa.Table.from_arrays(
        [pa.array([1 if field.type in (pa.int32(), pa.int64()) else "x"], field.type) for field in ledger],
        schema=ledger,
    ).drop_columns(["timestamp_ms"])
    for name in ("a", "b"):
        pq.write_table(old, tmp_path / f"{name}.parquet")
    join({0: [tmp_path / "a.parquet", tmp_path / "b.parquet"]}, "ledger", "bundle", tmp_path / "joined.parquet")
    found = pq.read_table(tmp_path / "joined.parquet")
    assert found["timestamp_ms"].to_pylist() == [None, None]
    assert found["offset"].to_pylist() == [1, 1]


def test_files_of_one_name_share_row_groups_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "_GROUP_ROWS", 3)
    join(files_of(tmp_path, bundles=3, count=2), "failed_sends", "bundle", tmp_path / "joined.parquet")
    footer = pq.read_metadata(tmp_path / "joined.parquet")
    assert [footer.row_group(nth).num_rows for nth in range(footer.num_row_groups)] == [4, 2, 4, 2]


def test_one_file_is_not_joined(tmp_path: Path) -> None:
    files = files_of(tmp_path, bundles=1, count=1)
    assert worth_joining(files)
    assert not worth_joining({0: files[0][:1]})


def test_large_files_are_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "JOINED_BYTES", 10)
    assert not worth_joining(files_of(tmp_path, bundles=1, count=1))
