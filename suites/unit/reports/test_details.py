"""Tests of the files beside the page: each operation is in one of them as the tables have it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from reports.review import details, levels
from reports.review.details import Details
from reports.review.timeline import Timeline, timeline_of
from suites.unit.reports.timeline_examples import (
    START_NS,
    TOPIC_ID,
    Row,
    at,
    position,
    read,
    send,
    write_run,
    write_table,
)

_SCRIPT = re.compile(r'charts\.arrived\("(\w+)", "([\w-]+)", "([\w+/=]+)"\);\n')


def shown(bundle: Path, folder: Path) -> tuple[Timeline, Details]:
    """The timeline, and its files in a folder."""
    timeline = timeline_of(bundle, details=folder)
    assert timeline is not None
    assert timeline.details is not None
    return timeline, timeline.details


def content(file: Path, of: Details) -> Any:
    """The document of a file, as the page unpacks it."""
    found = _SCRIPT.fullmatch(file.read_text(encoding="ascii"))
    assert found is not None
    assert (found[1], found[2]) == (of.stamp, file.stem)
    return json.loads(gzip.decompress(base64.b64decode(found[3])))


def operations(folder: Path, of: Details) -> tuple[list[Row], list[Row]]:
    """The sends and the live reads of all files, each with its names and its times since the epoch."""
    sends: list[Row] = []
    reads: list[Row] = []
    for number in range(len(of.rows)):
        document = content(folder / f"operations-{number}.js", of)
        named = {"place": "places", "reader": "readers", "error": "errors", "outcome": "outcomes"}
        for kind, found in (("sends", sends), ("reads", reads)):
            columns = {name: [*accumulate(column)] for name, column in document[kind].items()}
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            for row in rows:
                own = {
                    name: None if row[name] < 0 else document[plural][row[name]]
                    for name, plural in named.items()
                    if name in row
                }
                times = {name: START_NS + row[name] for name in row if name.endswith("_ns")}
                found.append({**row, **own, **times})
    return sends, reads


def noisy(bundle: Path, count: int) -> Path:
    """A run of sends that overlap in two streams, with reads."""
    took = np.random.default_rng(7).random(count) / 3
    rows = []
    for i in range(count):
        late = i % 97 == 0
        own = {"stream": i % 2, "seq": i // 2, "partition": i % 3, "offset": None if late else i}
        sent = send(i / 1000, float(took[i]), "refused" if late else "acked")
        rows.append({**sent, **own, "error": "_TIMED_OUT" if late else None})
    write_table(bundle, "ledger", rows[: count // 2], part="two-0")
    write_table(bundle, "ledger", rows[count // 2 :], part="one-0")
    reads = [{**read(i / 900 + 0.1), "reader": f"r{i % 2}", "offset": i} for i in range(count)]
    write_table(bundle, "observations", reads)
    return bundle


def rows_of(bundle: Path, table: str, at_column: str) -> list[Row]:
    found: list[Row] = []
    for part in (bundle / table).glob("*.parquet"):
        found += [row for row in pq.read_table(part).to_pylist() if row[at_column] is not None]
    return found


def test_each_operation_is_there_as_the_tables_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "FILE_ROWS", 100)
    bundle = noisy(tmp_path / "run", 1000)
    _, found = shown(bundle, tmp_path / "beside")
    sends, reads = operations(tmp_path / "beside", found)
    assert len(found.rows) == 20
    assert sum(found.rows) == len(sends) + len(reads) == 2000

    def sent(row: Row) -> tuple[object, ...]:
        offset = None if row["offset"] == -1 else row["offset"]
        columns = ("stream", "seq", "outcome", "error", "called_ns", "returned_ns")
        return (offset, *(row[name] for name in columns))

    ledger = rows_of(bundle, "ledger", "returned_ns")
    assert sorted(map(sent, sends), key=str) == sorted(map(sent, ledger), key=str)
    places = {(row["stream"], row["seq"]): f"plain-{row['partition']}" for row in ledger}
    assert {(row["stream"], row["seq"]): row["place"] for row in sends} == places
    given = rows_of(bundle, "observations", "given_ns")
    assert sorted((row["given_ns"], row["reader"], row["offset"]) for row in reads) == sorted(
        (row["given_ns"], row["reader"], row["offset"]) for row in given
    )


def test_each_file_has_the_operations_from_its_begin_to_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "FILE_ROWS", 64)
    _, found = shown(noisy(tmp_path / "run", 500), tmp_path / "beside")
    ends = [*found.starts_ns[1:], 10**12]
    for number, (begin, end, rows) in enumerate(zip(found.starts_ns, ends, found.rows, strict=True)):
        document = content(tmp_path / "beside" / f"operations-{number}.js", found)
        times = [
            time
            for kind, name in (("sends", "returned_ns"), ("reads", "given_ns"))
            for time in accumulate(document[kind].get(name, []))
        ]
        assert len(times) == rows
        assert begin == min(times)
        assert max(times) < end


def test_operations_of_one_time_are_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "FILE_ROWS", 10)
    write_table(tmp_path / "run", "ledger", [send(0, 1) for _ in range(35)] + [send(0, 2) for _ in range(6)])
    _, found = shown(tmp_path / "run", tmp_path / "beside")
    assert found.rows == [35, 6]


@pytest.mark.parametrize(("at_once_max", "part_rows"), [(150, 50), (700, 100), (700, 10**6), (10**6, 300)])
def test_a_run_that_is_read_in_parts_gets_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once_max: int, part_rows: int
) -> None:
    bundle = noisy(tmp_path / "run", 1000)
    monkeypatch.setattr(levels, "ROWS_OF_PAGE", 200)
    _, found = shown(bundle, tmp_path / "whole")
    monkeypatch.setattr(details, "AT_ONCE_MAX", at_once_max)
    monkeypatch.setattr(details, "PART_ROWS", part_rows)
    _, parted = shown(bundle, tmp_path / "parted")

    def order(rows: Sequence[Row]) -> list[Row]:
        return sorted(rows, key=str)

    for one, other in zip(operations(tmp_path / "whole", found), operations(tmp_path / "parted", parted), strict=True):
        assert order(one) == order(other)
    for level in found.levels:
        names = [f"{level.name}-{part}.js" for part in range(-(-level.buckets // found.level_buckets))]
        for name in names:
            assert content(tmp_path / "whole" / name, found) == content(tmp_path / "parted" / name, parted)


def test_levels_count_what_the_page_counts_in_shorter_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "ROWS_OF_PAGE", 200)
    bundle = noisy(tmp_path / "run", 1000)
    timeline, found = shown(bundle, tmp_path / "beside")
    assert timeline.rates is not None
    assert [level.width_s for level in found.levels] == [0.025, 0.003125]
    for level in found.levels:
        (counts,) = [content(tmp_path / "beside" / f"{level.name}-0.js", found)]
        assert len(counts["acked"]) == level.buckets
        factor = round(timeline.width_s / level.width_s)
        for name in ("acked", "refused", "unknown", "reads"):
            sums = [sum(counts[name][i * factor : (i + 1) * factor]) for i in range(timeline.buckets)]
            assert sums == getattr(timeline.rates, name), name
    took = [row for row in rows_of(bundle, "ledger", "returned_ns") if row["outcome"] == "acked"]
    counts = content(tmp_path / "beside" / "level-1-0.js", found)
    for bucket in (3, 17, 30):
        inside = sorted(
            int(str(row["returned_ns"])) - int(str(row["called_ns"]))
            for row in took
            if (int(str(row["returned_ns"])) - START_NS) // 25_000_000 == bucket
        )
        assert counts["p50_ms"][bucket] == inside[-(-len(inside) // 2) - 1] / 1e6
        assert counts["p99_ms"][bucket] == inside[-1] / 1e6
    assert counts["p50_ms"][-1] is None or counts["acked"][-1]


def test_a_short_run_needs_no_levels(tmp_path: Path) -> None:
    _, found = shown(write_run(tmp_path / "run"), tmp_path / "beside")
    assert (found.levels, found.rows, found.positions) == ([], [35], False)
    assert found.folder == "beside"
    assert sorted(file.name for file in (tmp_path / "beside").iterdir()) == ["operations-0.js"]


@pytest.mark.parametrize("limit", ["OPERATIONS_MAX", "AT_ONCE_MAX"])
def test_too_many_operations_are_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    bundle = noisy(tmp_path / "run", 500)
    shown(bundle, tmp_path / "beside")
    monkeypatch.setattr(levels, "ROWS_OF_PAGE", 200)
    monkeypatch.setattr(details, "PART_ROWS", 200)
    monkeypatch.setattr(details, limit, 5)
    timeline = timeline_of(bundle, details=tmp_path / "beside")
    assert timeline is not None
    assert timeline.details is None
    (said,) = [text for text in timeline.missing if "single operations" in text]
    assert said.endswith("and this run has 1,000.")
    assert [*(tmp_path / "beside").iterdir()] == []  # those of the earlier page were removed


def test_files_of_an_earlier_page_are_removed_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, beside = noisy(tmp_path / "run", 500), tmp_path / "beside"
    monkeypatch.setattr(details, "FILE_ROWS", 100)
    shown(bundle, beside)
    (beside / "mine.js").write_text("charts = 1", encoding="utf-8")
    assert len([*beside.glob("operations-*.js")]) == 10
    monkeypatch.undo()
    shown(bundle, beside)
    assert sorted(file.name for file in beside.iterdir()) == ["mine.js", "operations-0.js"]


def test_all_samples_of_offsets_are_there_where_the_page_leaves_some_out(tmp_path: Path) -> None:
    bundle = write_run(tmp_path / "run")
    dense = [position(i / 50, 1, i) for i in range(150)]
    write_table(bundle, "positions", dense, part="dense-0")
    timeline, found = shown(bundle, tmp_path / "beside")
    assert found.positions
    (of,) = content(tmp_path / "beside" / "positions.js", found)
    assert [[i / 50, i] for i in range(150) if i / 50 not in (0.5, 2.0)] == [
        point for point in of["ends"]["1"] if point[0] not in (0.5, 2.0)
    ]
    assert len(timeline.positions[0].ends[1]) < len(of["ends"]["1"])


def test_damage_is_said_and_older_tables_have_no_reads(tmp_path: Path) -> None:
    bundle = write_run(tmp_path / "run")
    part = bundle / "observations" / "one-0.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["given_ns"]), part)
    _, found = shown(bundle, tmp_path / "beside")
    assert found.rows == [32]
    part.write_bytes(b"PAR1")
    timeline = timeline_of(bundle, details=tmp_path / "beside")
    assert timeline is not None
    assert timeline.details is None
    assert any("one-0.parquet is not a whole Parquet file" in text for text in timeline.missing)


def test_places_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A topic that was deleted and created again has two ids."""
    other = {**send(0.5, 0.1), "topic_id": "otherId"}
    write_table(tmp_path / "run", "ledger", [send(0, 0.1), other])
    _, found = shown(tmp_path / "run", tmp_path / "beside")
    sends, _ = operations(tmp_path / "beside", found)
    assert [row["place"] for row in sends] == [f"plain-0 ({TOPIC_ID[:6]})", "plain-0 (otherI)"]
    assert [row["returned_ns"] for row in sends] == [at(0.1), at(0.6)]
