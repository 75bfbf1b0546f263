"""The sequences and acknowledgements of the probe, in a file, so that a restart forgets nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = "probe.sqlite"
_BLOCK: Final = 100  # sequence numbers that are reserved at once, before any of them is sent
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS streams (partition INTEGER PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS acked (partition INTEGER NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, PRIMARY KEY (partition, position)) WITHOUT ROWID;
"""


class Acked(NamedTuple):
    """An acknowledged record: its offset, and its number in the stream of its partition."""

    offset: int
    seq: int


class ProbeLedger:
    """Used by one thread. Rows are kept with `save`."""

    def __init__(self, folder: Path) -> None:
        self._sql = sqlite3.connect(folder / FILE)
        self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.execute("PRAGMA synchronous=NORMAL")
        self._sql.executescript(_SCHEMA)
        self._next: dict[int, int] = {}
        self._reserved: dict[int, int] = {}

    def fact(self, name: str) -> str | None:
        row = self._sql.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def begin(self, **facts: str) -> None:
        """Forgets everything, and keeps these facts: another topic begins."""
        with self._sql:
            for table in ("facts", "streams", "acked"):
                self._sql.execute(f"DELETE FROM {table}")
            self._sql.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        self._next.clear()
        self._reserved.clear()

    def next_seq(self, partition: int) -> int:
        """A number that was never used. A crash leaves out the rest of its block, and uses none twice."""
        if partition not in self._next:
            row = self._sql.execute("SELECT reserved FROM streams WHERE partition = ?", (partition,)).fetchone()
            self._next[partition] = self._reserved[partition] = int(row[0]) if row is not None else 0
        seq = self._next[partition]
        if seq >= self._reserved[partition]:
            self._reserved[partition] = seq + _BLOCK
            with self._sql:
                self._sql.execute("INSERT OR REPLACE INTO streams VALUES (?, ?)", (partition, seq + _BLOCK))
        self._next[partition] = seq + 1
        return seq

    def add(self, partition: int, offset: int, seq: int, at_ms: int) -> None:
        self._sql.execute("INSERT OR REPLACE INTO acked VALUES (?, ?, ?, ?)", (partition, offset, seq, at_ms))

    def move(self, partition: int, offset: int, to: int) -> None:
        """The record is at another offset than its acknowledgement said."""
        self._sql.execute(
            "UPDATE OR REPLACE acked SET position = ? WHERE partition = ? AND position = ?", (to, partition, offset)
        )

    def expected(self, partition: int, first: int, end: int) -> Sequence[Acked]:
        """The acknowledged records from `first` to before `end`."""
        rows = self._sql.execute(
            "SELECT position, seq FROM acked WHERE partition = ? AND position >= ? AND position < ? ORDER BY position",
            (partition, first, end),
        )
        return [Acked(*row) for row in rows]

    def span(self, partition: int) -> tuple[int, int] | None:
        """The lowest and the highest offset that is expected; None without any."""
        low, high = self._sql.execute(
            "SELECT min(position), max(position) FROM acked WHERE partition = ?", (partition,)
        ).fetchone()
        return None if low is None else (int(low), int(high))

    def forget(self, before_ms: int) -> None:
        """Expects records no more that were acknowledged before this time: retention may delete them."""
        self._sql.execute("DELETE FROM acked WHERE at_ms < ?", (before_ms,))

    def save(self) -> None:
        self._sql.commit()

    def close(self) -> None:
        self._sql.commit()
        self._sql.close()
