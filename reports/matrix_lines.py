"""The matrix of contracts in a terminal: broken promises first, then costs, then each event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.evidence.matrix import PlayedMatrix
from reports.grouping import Group, Row, shown
from reports.matrix import instead
from reports.terminal import Line

_STYLES: Final = {
    "odd": "bold white on red",
    "lost": "red",
    "away": "blue",
    "twice": "yellow",
    "kept": "green",
    "off": "dim",
}


def matrix_lines(matrix: PlayedMatrix) -> Iterator[Line]:
    """Yields lines with their styles."""
    reported = shown(matrix)
    yield from ((f"{head} `{command}`", "bold") for head, command in reported.heads)
    yield f"{reported.summary}.", "bold red" if reported.odd else ""
    if reported.odd:
        yield from (("", ""), ("NOT AS PROMISED", _STYLES["odd"]))
        for group, row in reported.odd:
            yield f"  when {group.happens}", ""
            yield _row(row), _STYLES["odd"]
    yield from (("", ""), ("Costs of settings, and better settings", "bold"))
    for words, costs in reported.costs:
        yield f"  {words}:", "bold"
        for cost in costs:
            yield f"    {cost.row.seen}: {', '.join(cost.own)}; when {cost.group.happens}", _STYLES[cost.row.look]
            yield f"      instead: {instead(cost)}", "dim"
    for group in reported.groups:
        yield from _section(group)


def _section(group: Group) -> Iterator[Line]:
    yield from (("", ""), (f"When {group.happens}", "bold"))
    if group.common:
        yield f"  settings of all: {', '.join(group.common)}", "dim"
    for row in group.rows:
        yield _row(row), _STYLES[row.look]


def _row(row: Row) -> str:
    settings = ", ".join(row.own) or "no other settings"
    if row.look == "odd":
        came = f"{row.seen} ({row.verdict}; promised: {row.promised})"
        return f"  NOT AS PROMISED: {row.cell.configuration}: {came}"
    if row.look == "off":
        return f"  {settings}: not played (promised: {row.promised})"
    return f"  {settings}: {row.seen}"
