"""A bundle with tables of a few rows, for tests of the review page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from harness.evidence.columns import arrow_schema
from harness.evidence.documents import write_json
from harness.evidence.history import write_history
from harness.evidence.parts import write_parquet
from harness.model.history.changes import AnyChange, PartitionChange, TopicChange, TopicEvent
from harness.model.history.history import History
from harness.model.schemas import TABLES

START_NS = 1_795_265_533_000_000_000
TOPIC_ID = "idOfPlain"
Row = Mapping[str, object]


def at(seconds: float) -> int:
    """Epoch nanoseconds, so many seconds after the start of the run."""
    return START_NS + round(seconds * 1e9)


def send(called_s: float, took_s: float, outcome: str = "acked", topic: str = "plain") -> Row:
    called = at(called_s)
    own = {"topic": topic, "topic_id": TOPIC_ID, "outcome": outcome, "called_ns": called}
    return {**own, "returned_ns": called + round(took_s * 1e9)}


def read(given_s: float | None) -> Row:
    given = None if given_s is None else at(given_s)
    return {"kind": "live", "topic": "plain", "topic_id": TOPIC_ID, "given_ns": given}


def position(at_s: float, broker: int, log_end: int, **own: object) -> Row:
    place = {"broker": broker, "topic": "plain", "topic_id": TOPIC_ID, "asked_ns": at(at_s), "at_ns": at(at_s)}
    return {**place, "log_end": log_end, "log_start": 0, "high_watermark": log_end, "leader_epoch": 0, **own}


def write_table(bundle: Path, table: str, rows: Sequence[Row], part: str = "one-0") -> None:
    """Writes a part; columns that a row does not name are null, 0, false or empty."""
    empty: dict[str, object] = {"string": "", "bool": False, "int32": 0, "int64": 0}
    filled = [{name: row.get(name, empty.get(kind)) for name, kind in TABLES[table].items()} for row in rows]
    (bundle / table).mkdir(parents=True, exist_ok=True)
    write_parquet(pa.Table.from_pylist(filled, schema=arrow_schema(table)), bundle / table / f"{part}.parquet")


def step(name: str, do: str, started_s: float, healed_s: float | None = None, **own: object) -> Row:
    healed = None if healed_s is None else at(healed_s)
    times = {"started_ns": at(started_s), "ended_ns": at(started_s + 0.1), "healed_ns": healed}
    return {"name": name, "do": do, **times, "is_fault": healed is not None, "facts": [], "events": [], **own}


def write_steps(bundle: Path, *steps: Row) -> None:
    bundle.mkdir(parents=True, exist_ok=True)
    write_json(bundle / "steps.json", [*steps])
    (bundle / "scenario.json").write_text(json.dumps({"name": bundle.name, "title": "A title"}), encoding="utf-8")


def led(at_s: float, leader: int, epoch: int, isr: tuple[int, ...]) -> PartitionChange:
    return PartitionChange(
        time_ns=at(at_s),
        offset=round(at_s * 10),
        controller_epoch=1,
        topic="plain",
        topic_id=TOPIC_ID,
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
        isr=isr,
        elr=(),
        last_known_elr=(),
        recovering=False,
        replicas=(1, 2, 3),
        adding=(),
        removing=(),
        directories=(),
    )


def history(*changes: AnyChange) -> History:
    made = TopicChange(
        time_ns=at(-1), offset=0, controller_epoch=1, event=TopicEvent.CREATED, topic="plain", topic_id=TOPIC_ID
    )
    return History(nodes=(1, 2, 3), voters=(101,), start=0, end=1000, changes=(made, *changes))


def write_run(bundle: Path) -> Path:
    """A run of 4 s: 30 acks of 10 ms, one refusal, one unknown outcome, a fault, two leaders, two replicas."""
    acks = [send(i / 10, 0.01) for i in range(30)]
    write_table(bundle, "ledger", [*acks, send(1.0, 0.5, "refused"), send(2.0, 2.0, "unknown")])
    write_table(bundle, "observations", [read(0.5), read(0.5), read(1.5), read(None)])
    own = position(2, 1, 12)  # it was deposed, and does not know it
    write_table(
        bundle,
        "positions",
        [own, position(0.5, 1, 10), position(0.5, 2, 8, high_watermark=7), position(3, 2, 30, leader_epoch=1)],
    )
    write_history(bundle, history(led(-1, 1, 0, (1, 2)), led(1.5, 2, 1, (2,))))
    effect = {"held": True, "because": "its leader epoch rose"}
    write_steps(bundle, step("kill_leader", "kill", 1.2, 2.5, effect=effect), step("wait", "wait_acks", 1.3))
    return bundle
