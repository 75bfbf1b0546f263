"""The durability database: one SQLite file with the state of every partition, open alarms, and times without a watch.

States and the place in the metadata log are written in one transaction. So after a crash the auditor continues behind
the last record whose effect is in the file, and sees each later record again. A new alarm is written at once; the same
suspicion joins it then.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from harness.audit.store.partitions import PackedPartitions, Shape
from harness.model.errors import BadInput

FILE: Final = "audit.sqlite"
FORMAT: Final = 1
_CACHE_KIB: Final = 512  # rows are in memory already, so pages need not be
_EPOCH: Final = struct.Struct("<iq")  # leader epoch, its first offset
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE topics (number INTEGER PRIMARY KEY, topic_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE shapes (number INTEGER PRIMARY KEY, shape TEXT NOT NULL);
CREATE TABLE partitions (topic INTEGER NOT NULL, partition INTEGER NOT NULL, row BLOB NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE epochs (topic INTEGER NOT NULL, partition INTEGER NOT NULL, chain BLOB NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE entities (kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, name)) WITHOUT ROWID;
CREATE TABLE alarms (id INTEGER PRIMARY KEY, incident TEXT NOT NULL, opened_ns INTEGER NOT NULL, ended_ns INTEGER,
    alarm TEXT NOT NULL);
CREATE INDEX open_alarms ON alarms (incident) WHERE ended_ns IS NULL;
CREATE TABLE unwatched (from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, why TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the auditor is in the metadata log. `watched_ns` is the wall-clock time until which it has seen all."""

    next_offset: int = 0
    epoch: int = -1  # of the record before it
    watched_ns: int = 0


@dataclass(frozen=True, slots=True)
class Unwatched:
    """A time that the auditor did not watch, by the wall clock, and why."""

    from_ns: int
    to_ns: int
    why: str


class Database:
    """The file. One process at a time writes it; others may read it meanwhile."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Opens it, or makes it if it is not there. BadInput for a file of another format or one that is damaged."""
        self.path: Final = folder / FILE
        if read_only and not self.path.is_file():
            raise BadInput(f"{folder} has no {FILE}: name the folder that `durability audit --db` writes")
        try:
            if not read_only:
                folder.mkdir(parents=True, exist_ok=True)
            mode = self._reading_mode() if read_only else ""
            self._sql = sqlite3.connect(f"{self.path.resolve().as_uri()}{mode}", uri=True, check_same_thread=False)
            if not read_only:
                self._sql.execute("PRAGMA journal_mode=WAL")
                self._sql.execute("PRAGMA synchronous=NORMAL")
                self._sql.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            self._open(read_only)
        except OSError as refused:
            raise BadInput(f"--db {folder}: {refused.strerror}") from refused
        except sqlite3.Error as broken:
            raise BadInput(
                f"{self.path} cannot be opened ({broken}): move it away, and the auditor starts with a new one"
            ) from broken

    def _reading_mode(self) -> str:
        """SQLite makes two files beside one in this mode. Without the right to do so, it can read a file at rest."""
        at_rest = not self.path.with_name(f"{FILE}-wal").exists()
        return "?mode=ro&immutable=1" if at_rest and not os.access(self.path.parent, os.W_OK) else "?mode=ro"

    def _open(self, read_only: bool) -> None:
        version = self._sql.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not read_only:
            # In one transaction: a file without all of its tables could not be used.
            self._sql.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
        elif version != FORMAT:
            raise BadInput(f"{self.path} has format {version}, and this auditor reads {FORMAT}: move it away")

    def close(self) -> None:
        self._sql.close()

    # Reading

    def fact(self, name: str) -> str | None:
        row = self._sql.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def progress(self) -> Progress:
        known = self.fact("progress")
        return Progress() if known is None else Progress(*json.loads(known))

    def load(self, into: PackedPartitions) -> None:
        """Puts every partition into memory."""
        shapes = self._sql.execute("SELECT shape FROM shapes ORDER BY number")
        into.load_shapes([_shape(text) for (text,) in shapes])
        for number, topic_id, name in self._sql.execute("SELECT number, topic_id, name FROM topics").fetchall():
            with closing(self._sql.execute("SELECT partition, row FROM partitions WHERE topic = ?", (number,))) as rows:
                into.load(topic_id, name, iter(rows))

    def entities(self, kind: str) -> dict[str, str]:
        """Everything of one kind by its name, such as each setting."""
        return dict(self._sql.execute("SELECT name, value FROM entities WHERE kind = ?", (kind,)))

    def open_alarms(self) -> Iterator[tuple[int, str]]:
        """(id, alarm as JSON) of the alarms that have not ended."""
        yield from self._sql.execute("SELECT id, alarm FROM alarms WHERE ended_ns IS NULL ORDER BY id")

    def alarms(self, last: int = 1000) -> list[tuple[int, int | None, str]]:
        """(opened_ns, ended_ns, alarm as JSON) of the newest alarms, the newest first."""
        rows = self._sql.execute("SELECT opened_ns, ended_ns, alarm FROM alarms ORDER BY id DESC LIMIT ?", (last,))
        return [(int(opened), ended, str(alarm)) for opened, ended, alarm in rows]

    def alarm(self, number: int) -> str | None:
        """An alarm as JSON by its id, whether it has ended or not."""
        row = self._sql.execute("SELECT alarm FROM alarms WHERE id = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def has_topic(self, name: str) -> bool:
        """Whether a topic exists with partitions that were saved."""
        return self._sql.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone() is not None

    def ended_alarms(self) -> int:
        """The number of alarms that have ended."""
        return int(self._sql.execute("SELECT count(*) FROM alarms WHERE ended_ns IS NOT NULL").fetchone()[0])

    def unwatched(self) -> list[Unwatched]:
        return [Unwatched(*row) for row in self._sql.execute("SELECT * FROM unwatched ORDER BY from_ns")]

    def chain(self, topic_id: str, partition: int) -> tuple[tuple[int, int], ...]:
        """(leader epoch, its first offset) of the epochs of a partition, as far as they are known."""
        row = self._sql.execute(
            "SELECT chain FROM epochs JOIN topics ON topic = number WHERE topic_id = ? AND partition = ?",
            (topic_id, partition),
        ).fetchone()
        return () if row is None else tuple(_EPOCH.iter_unpack(row[0]))

    # Writing

    def save(
        self,
        partitions: PackedPartitions,
        progress: Progress,
        *,
        offsets_too: bool = True,
        entities: Iterable[tuple[str, str, str | None]] = (),
        chains: Mapping[tuple[str, int], Iterable[tuple[int, int]]] | None = None,
    ) -> None:
        """Writes what has changed, in one transaction with the alarms that were written since the last call.

        offsets_too: also offsets of looks, which only get older if they are left out. entities: (kind, name, value);
        None removes one. chains: epochs by partition, see `chain`.
        """
        with self._sql:
            known = self._sql.execute("SELECT count(*) FROM shapes").fetchone()[0]
            new = ((known + at, json.dumps(asdict(shape))) for at, shape in enumerate(partitions.shapes(known)))
            self._sql.executemany("INSERT INTO shapes VALUES (?, ?)", new)
            for topic_id in partitions.take_removed():
                self._remove(topic_id)
            numbers: dict[str, int] = {}
            self._sql.executemany(
                "INSERT OR REPLACE INTO partitions VALUES (?, ?, ?)",
                (
                    (self._number(numbers, partitions, topic_id), partition, partitions.packed(topic_id, partition))
                    for topic_id, partition in partitions.take_changed(moved_too=offsets_too)
                ),
            )
            for kind, name, value in entities:
                if value is None:
                    self._sql.execute("DELETE FROM entities WHERE kind = ? AND name = ?", (kind, name))
                else:
                    self._sql.execute("INSERT OR REPLACE INTO entities VALUES (?, ?, ?)", (kind, name, value))
            for place, chain in (chains or {}).items():
                self._put_chain(*place, chain)
            self._put_fact("progress", json.dumps([progress.next_offset, progress.epoch, progress.watched_ns]))

    def put_fact(self, name: str, value: str) -> None:
        """Writes a fact at once, with the alarms that wait for the next `save`."""
        with self._sql:
            self._put_fact(name, value)

    def keep_fact(self, name: str, value: str) -> None:
        """Replaces a fact; it is kept with the next `save`."""
        self._put_fact(name, value)

    def put_alarm(self, incident: str, opened_ns: int, alarm: str) -> int:
        """Adds an alarm; it is kept with the next `save`. Returns its id."""
        row = self._sql.execute(
            "INSERT INTO alarms (incident, opened_ns, alarm) VALUES (?, ?, ?)", (incident, opened_ns, alarm)
        )
        return int(row.lastrowid or 0)

    def change_alarm(self, number: int, alarm: str, ended_ns: int | None = None) -> None:
        """Replaces an alarm; it is kept with the next `save`."""
        self._sql.execute("UPDATE alarms SET alarm = ?, ended_ns = ? WHERE id = ?", (alarm, ended_ns, number))

    def put_unwatched(self, time: Unwatched) -> None:
        """Adds a time. It replaces one with the same beginning: an auditor that ended while it started saw nothing."""
        with self._sql:
            self._sql.execute("DELETE FROM unwatched WHERE from_ns = ? AND why = ?", (time.from_ns, time.why))
            self._sql.execute("INSERT INTO unwatched VALUES (?, ?, ?)", (time.from_ns, time.to_ns, time.why))

    def _put_chain(self, topic_id: str, partition: int, chain: Iterable[tuple[int, int]]) -> None:
        self._sql.execute(
            "INSERT OR REPLACE INTO epochs SELECT number, ?, ? FROM topics WHERE topic_id = ?",
            (partition, b"".join(_EPOCH.pack(*epoch) for epoch in chain), topic_id),
        )

    def _put_fact(self, name: str, value: str) -> None:
        self._sql.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _remove(self, topic_id: str) -> None:
        found = self._sql.execute("SELECT number FROM topics WHERE topic_id = ?", (topic_id,)).fetchone()
        if found is not None:
            for table in ("partitions", "epochs"):
                self._sql.execute(f"DELETE FROM {table} WHERE topic = ?", found)
            self._sql.execute("DELETE FROM topics WHERE number = ?", found)

    def _number(self, numbers: dict[str, int], partitions: PackedPartitions, topic_id: str) -> int:
        if topic_id not in numbers:
            self._sql.execute(
                "INSERT OR IGNORE INTO topics (topic_id, name) VALUES (?, ?)", (topic_id, partitions.topic(topic_id))
            )
            row = self._sql.execute("SELECT number FROM topics WHERE topic_id = ?", (topic_id,)).fetchone()
            numbers[topic_id] = int(row[0])
        return numbers[topic_id]


def _shape(text: str) -> Shape:
    plain = json.loads(text)
    replicas, adding, removing, others = (tuple(plain[key]) for key in ("replicas", "adding", "removing", "others"))
    return Shape(replicas, adding, removing, tuple(plain["directories"]), others)
