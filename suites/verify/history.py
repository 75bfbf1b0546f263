"""Tiny histories in a short notation, legal by construction until a test changes them.

One text for each partition, one letter for each record:

    A  acked                      a  acked, without an offset
    U  unknown, and written       u  unknown, and not written
    R  refused
    (AA) committed transaction    [AA] aborted
    {AA} unknown and committed    <AA> unknown and aborted
    |  a new leader               .  a second passes
    /  a new segment

The n-th transaction of every partition is the same one. Three brokers with the same log leave the evidence: drains,
every replica, a live reader of each isolation, a group that commits, snapshots, batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.model.history.history import History as ClusterHistory
from harness.model.schemas import TABLES

START_NS = 1_800_000_000 * 10**9
MS = 10**6
BROKERS = (1, 2, 3)
RC, RU = "read_committed", "read_uncommitted"
ENDS = {")": "committed", "]": "aborted", "}": "unknown", ">": "unknown"}
VISIBLE = {")": True, "]": False, "}": True, ">": False}
PARTNER = dict(zip("([{<", ")]}>", strict=True))

Row = dict[str, Any]


@dataclass
class Entry:
    """One offset of the log. stream -1: the marker of a transaction; -2: nothing, on no disk either."""

    stream: int
    seq: int
    at_ns: int
    txn: int | None = None
    visible: bool = True
    producer_id: int = 7
    producer_epoch: int = 0


@dataclass
class Built:
    """Tables and documents of one history, which tests may change."""

    name: str
    tables: dict[str, list[Row]]
    run: Row
    cluster: Row
    reads: list[Row]
    steps: list[Row]
    scenario: Row
    complete: bool = True
    metadata: ClusterHistory | None = None  # history.json; see suites.verify.metadata
    manifest: Row = field(default_factory=lambda: {"sealed_by": "harness", "seed": 1, "release": None})

    def rows(self, table: str, **wanted: Any) -> list[Row]:
        """Rows that match; changing them changes the table."""
        return [row for row in self.tables[table] if all(row[k] == v for k, v in wanted.items())]

    def drop(self, table: str, **wanted: Any) -> Built:
        """Removes rows; at least one must match."""
        gone = self.rows(table, **wanted)
        assert gone, f"nothing in {table} is {wanted}"
        self.tables[table] = [row for row in self.tables[table] if row not in gone]
        return self

    def change(self, table: str, to: Row, **wanted: Any) -> Built:
        """Changes rows in place; at least one must match."""
        rows = self.rows(table, **wanted)
        assert rows, f"nothing in {table} is {wanted}"
        for row in rows:
            row.update(to)
        return self

    def copy(self, table: str, to: Row, **wanted: Any) -> Built:
        """Adds changed copies of rows."""
        rows = self.rows(table, **wanted)
        assert rows, f"nothing in {table} is {wanted}"
        self.tables[table] += [row | to for row in rows]
        return self

    @property
    def drained(self) -> Row:
        """The last snapshot."""
        last: Row = self.cluster["snapshots"][-1]
        return last

    def event(self, kind: str, **more: Any) -> Built:
        """Adds an event to the one step."""
        self.steps[0]["events"].append({"kind": kind, "topic": "t", "partition": 0, "at_ns": START_NS, **more})
        return self


class History:
    """A log for each partition, written letter by letter; `build` makes the evidence that correct brokers and
    readers leave."""

    def __init__(
        self, *partitions: str, name: str = "", acks: str = "all", idempotent: bool = True, sequences: bool = False
    ) -> None:
        """sequences: batches have sequence numbers. Most histories have records that no leader would take with them."""
        self.name = name or " / ".join(partitions)
        self.acks = acks
        self.idempotent = idempotent
        self.sequences = sequences
        self.logs: list[list[Entry]] = []
        self.ledger: list[Row] = []
        self.transactions: dict[int, Row] = {}
        self.lineage: list[list[list[int]]] = []
        self.starts: list[int] = [0] * len(partitions)
        self.segments: list[list[int]] = [[0] for _ in partitions]
        self.sent: dict[int, int] = {}
        self.now_ns = START_NS
        for partition, text in enumerate(partitions):
            self._grow(partition, text)

    def _grow(self, partition: int, text: str) -> None:
        log: list[Entry] = []
        self.logs.append(log)
        self.lineage.append([[0, 0]])
        stream, nth, closing = partition + 1, 0, ""
        for letter in text.replace(" ", ""):
            self.now_ns += MS
            if letter in PARTNER:
                nth, closing = nth + 1, PARTNER[letter]
                row = self.transactions.setdefault(nth, {"called_ns": self.now_ns, "outcome": ENDS[closing]})
                row["outcome"] = ENDS[closing]
            elif letter in ENDS:
                log.append(Entry(-1, -1, self.now_ns, nth))
                self.transactions[nth]["ended_ns"] = self.now_ns
                closing = ""
            elif letter == "|":
                self.lineage[partition].append([self.lineage[partition][-1][0] + 1, len(log)])
            elif letter == "/":
                self.segments[partition].append(len(log))
            elif letter == ".":
                self.now_ns += 1000 * MS
            else:
                self._send(partition, stream, letter, nth if closing else None, VISIBLE.get(closing, True))

    def _send(self, partition: int, stream: int, letter: str, txn: int | None, visible: bool) -> None:
        log, seq = self.logs[partition], self.sent.get(stream, 0)
        self.sent[stream] = seq + 1
        outcome = {"A": "acked", "a": "acked", "U": "unknown", "u": "unknown", "R": "refused"}[letter]
        self.ledger.append(
            self._place(partition)
            | {
                "stream": stream,
                "seq": seq,
                "key_hash": None,
                "txn_id": txn,
                "outcome": outcome,
                "offset": len(log) if letter == "A" else None,
                "called_ns": self.now_ns,
                "returned_ns": self.now_ns + MS // 2,
                "error": None,
            }
        )
        if letter in "AaU":
            log.append(Entry(stream, seq, self.now_ns, txn, visible))

    @staticmethod
    def _place(partition: int) -> Row:
        return {"topic": "t", "topic_id": "T", "partition": partition}

    # --- the evidence of correct brokers and readers ---

    def build(self, edit: Callable[[History], None] | None = None) -> Built:
        """The evidence. `edit` may change the log first, so that every reader reports the change."""
        if edit is not None:
            edit(self)
        tables: dict[str, list[Row]] = {table: [] for table in TABLES}
        tables["ledger"] = self.ledger
        tables["reservations"] = list(self._reservations())
        tables["transactions"] = [
            {"txn_id": n, "producer": "p", "ended_ns": self.now_ns, **row} for n, row in self.transactions.items()
        ]
        tables["observations"] = list(self._observations())
        tables["offset_commits"] = list(self._commits())
        tables["batches"] = list(self._batches())
        return Built(
            name=self.name,
            tables=tables,
            run=self._run(),
            cluster=self._cluster(),
            reads=list(self._reads()),
            steps=[self._step()],
            scenario={"name": self.name, "readers": [{"name": "grouped", "group": "g"}]},
        )

    def _reservations(self) -> Iterator[Row]:
        for partition in range(len(self.logs)):
            yield self._place(partition) | {
                "stream": partition + 1,
                "producer": "p",
                "first_seq": 0,
                "end_seq": max(self.sent.get(partition + 1, 0), 1) + 5,
                "acks": self.acks,
                "idempotent": self.idempotent,
                "transactional": bool(self.transactions),
                "client": "librdkafka",
                "reserved_ns": START_NS,
            }

    def _observations(self) -> Iterator[Row]:
        for partition in range(len(self.logs)):
            for reader, kind, isolation, replica in READERS:
                for offset, entry in enumerate(self.logs[partition]):
                    start = 0 if kind == "live" else self.starts[partition]
                    hidden = isolation == RC and not entry.visible
                    if entry.stream < 0 or hidden or offset < start:
                        continue
                    yield self._place(partition) | {
                        "reader": reader,
                        "kind": kind,
                        "isolation": isolation,
                        "replica": replica,
                        "session": 0,
                        "poll": 1,
                        "offset": offset,
                        "stream": entry.stream,
                        "seq": entry.seq,
                        "intact": True,
                        "timestamp_ms": entry.at_ns // MS,
                        "txn_id": None,
                        "leader_epoch": self._epoch_at(partition, offset),
                    }

    def _commits(self) -> Iterator[Row]:
        for partition, log in enumerate(self.logs):
            for nth, offset in enumerate((len(log) // 2, len(log))):
                called_ns = self.now_ns + (nth + 1) * MS
                yield self._place(partition) | {
                    "group": "g",
                    "offset": offset,
                    "outcome": "acked",
                    "txn_id": None,
                    "called_ns": called_ns,
                    "returned_ns": called_ns + MS // 2,
                }

    def _batches(self) -> Iterator[Row]:
        for partition, log in enumerate(self.logs):
            for offset, entry in enumerate(log):
                there = offset >= self.starts[partition] and entry.stream != -2
                for broker in BROKERS if there else ():
                    yield self._place(partition) | {
                        "broker": broker,
                        "segment": max(base for base in self.segments[partition] if base <= offset),
                        "base_offset": offset,
                        "last_offset": offset,
                        "count": 1,
                        "leader_epoch": self._epoch_at(partition, offset),
                        "producer_id": entry.producer_id if self.idempotent else -1,
                        "producer_epoch": entry.producer_epoch if self.idempotent else -1,
                        "base_sequence": entry.seq if self.sequences else -1,
                        "transactional": entry.txn is not None,
                        "control": "commit" if entry.stream == -1 else None,
                        "codec": "none",
                        "timestamp_type": "create",
                        "max_timestamp_ms": entry.at_ns // MS,
                        "size_bytes": 100,
                        "crc_ok": True,
                        "digest": entry.stream * 1000 + entry.seq,
                    }

    def _epoch_at(self, partition: int, offset: int) -> int:
        """The leader epoch of an offset, as the lineage has it."""
        return max(epoch for epoch, start in self.lineage[partition] if start <= offset)

    def _reads(self) -> Iterator[Row]:
        for partition, log in enumerate(self.logs):
            for reader, kind, isolation, replica in READERS:
                if kind != "live":
                    yield self._place(partition) | {
                        "reader": reader,
                        "kind": kind,
                        "isolation": isolation,
                        "replica": replica,
                        "start": self.starts[partition],
                        "target": len(log),
                        "position": len(log),
                        "reached": True,
                        "stuck_reason": None,
                        "served_by": [replica],
                        "sentinel_offset": None,
                    }

    def _cluster(self) -> Row:
        epochs = [
            {"broker": broker, "topic": "t", "partition": p, "epochs": lineage}
            for broker in BROKERS
            for p, lineage in enumerate(self.lineage)
        ]
        return {"snapshots": [self._snapshot("start"), self._snapshot("drained")], "lineages": epochs}

    def _snapshot(self, phase: str) -> Row:
        first = phase == "start"
        at_ns = START_NS if first else self.now_ns + 100 * MS
        places = range(len(self.logs))
        groups = [] if first else [self._group_row(p, at_ns) for p in places]
        return {
            "phase": phase,
            "at_ns": at_ns,
            "brokers_up": list(BROKERS),
            "partitions": [self._partition(p, 0 if first else len(self.logs[p]), first) for p in places],
            "groups": groups,
            "topic_configs": {"t": {}},
            "broker_configs": {},
        }

    def _group_row(self, partition: int, at_ns: int) -> Row:
        where = {"group": "g", "topic": "t", "partition": partition}
        return where | {"offset": len(self.logs[partition]), "at_ns": at_ns}

    def _partition(self, partition: int, end: int, first: bool) -> Row:
        start = 0 if first else self.starts[partition]
        return self._place(partition) | {
            "leader": 1,
            "leader_epoch": self.lineage[partition][-1][0],
            "isr": list(BROKERS),
            "replicas": list(BROKERS),
            "elr": [],
            "logs": [{"broker": b, "log_start": start, "log_end": end} for b in BROKERS],
            "high_watermark": end,
            "last_stable_offset": end,
        }

    def _run(self) -> Row:
        settled = {"ok": True, "waited_s": 0.1, "last_seen": ""}
        topic = {
            "topic": "t",
            "replicas": 3,
            "min_insync_replicas": 2,
            "unclean_election": False,
            "retention_ms": 604_800_000,
            "retention_bytes": -1,
            "segment_bytes": 1 << 20,
            "compacted": False,
            "timestamp_type": "create",
            "delete_records": False,
        }
        producer = {"producer": "p", "acks": self.acks, "idempotent": self.idempotent, "transactional": False}
        return {
            "finished": True,
            "groups_resume": True,
            "negative_control": None,
            "contract": {"topics": {"t": topic}, "producers": {"p": producer}, "exact_losses": []},
            "started_ns": START_NS,
            "ended_ns": self.now_ns,
            "windows": {
                "before": [START_NS, self.now_ns + MS],
                "during": [],
                "after": [START_NS, self.now_ns + 10 * MS],
            },
            "floors": {"before": 0, "during": 0, "after": 0},
            "targets": [],
            "doubts": [],
            "notes": [],
            "capabilities": [],
            "recovered": settled,
            "transactions_settled": settled,
        }

    def _step(self) -> Row:
        return {
            "name": "kill",
            "do": "kill",
            "args": {},
            "resolved": {},
            "started_ns": START_NS,
            "ended_ns": self.now_ns,
            "healed_ns": self.now_ns,
            "is_fault": True,
            "effect": {"held": True, "because": "it did", "seen": {}},
            "events": [],
        }


READERS = (
    ("leader-committed", "drain", RC, 1),
    ("leader-uncommitted", "drain", RU, 1),
    *((f"replica-{b}-{i.removeprefix('read_')}", "replica", i, b) for b in (2, 3) for i in (RC, RU)),
    ("live", "live", RC, None),
    ("peek", "live", RU, None),
    ("grouped", "live", RC, None),
)
