"""The generated tables of FORMAT.md. That they are current is a test of the command `docs`."""

from __future__ import annotations

from harness.evidence.format_tables import BLOCKS, DECLARED, markers, render
from harness.model.schemas import FINDINGS, TABLE_COLUMNS
from suites.unit.evidence_examples import FORMAT


def test_the_format_has_each_table_once() -> None:
    assert sorted(markers(FORMAT)) == sorted([*BLOCKS, *DECLARED])


def test_only_the_tables_are_written() -> None:
    stale = "before\n<!-- generated: doubts -->\n| old |\n<!-- end -->\nafter\n"
    written = render(stale, {})
    assert written.startswith("before\n<!-- generated: doubts -->\n| doubt | origin | meaning |\n")
    assert written.endswith("|\n<!-- end -->\nafter\n")
    assert "| old |" not in written
    assert render(written, {}) == written


def test_a_table_that_another_room_declares_is_written_or_left() -> None:
    block = "<!-- generated: excuses -->\n{}\n<!-- end -->"
    assert render(block.format("| old |"), {"excuses": "| new |"}) == block.format("| new |")
    assert render(block.format("| old |"), {}) == block.format("| old |")


def test_every_column_has_a_meaning() -> None:
    for table, columns in {**TABLE_COLUMNS, "findings.parquet": FINDINGS}.items():
        assert [name for name, column in columns.items() if not column.meaning or "|" in column.meaning] == [], table
