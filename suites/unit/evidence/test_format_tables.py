"""The generated tables of FORMAT.md. That they are current is a test of the command `docs`."""

from __future__ import annotations

from harness.evidence.format_tables import BLOCKS, markers, render
from harness.model.schemas import FINDINGS, TABLE_COLUMNS
from suites.unit.evidence_examples import FORMAT


def test_the_format_has_each_table_once() -> None:
    assert sorted(markers(FORMAT)) == sorted(BLOCKS)


def test_only_the_tables_are_written() -> None:
    stale = "before\n<!-- generated: doubts -->\n| old |\n<!-- end -->\nafter\n"
    written = render(stale)
    assert written.startswith("before\n<!-- generated: doubts -->\n| doubt | meaning |\n")
    assert written.endswith("|\n<!-- end -->\nafter\n")
    assert "| old |" not in written
    assert render(written) == written


def test_every_column_has_a_meaning() -> None:
    for table, columns in {**TABLE_COLUMNS, "findings.parquet": FINDINGS}.items():
        assert [name for name, column in columns.items() if not column.meaning or "|" in column.meaning] == [], table
