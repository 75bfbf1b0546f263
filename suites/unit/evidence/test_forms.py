"""Words, numbers and keys that the judge could misread are refused when a bundle is sealed and when it is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.commands.cli import invoke
from harness.evidence import Bundle
from harness.evidence.manifest import write_manifest
from harness.evidence.seal import seal_directory
from harness.model.documents.manifest import Origin
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION
from suites.unit.evidence_examples import write_example

Change = Callable[[Any], object]

EVENT = {"kind": "delete_records", "topic": "orders", "partition": 0, "at_ns": 5, "before_offset": 1}
FACT = {"kind": "records_deleted", "from_ns": 4, "to_ns": 6}
STEP = {
    "name": "s",
    "do": "delete_records",
    "args": {},
    "resolved": {},
    "started_ns": 4,
    "ended_ns": 6,
    "healed_ns": None,
    "is_fault": False,
    "effect": None,
    "facts": [FACT],
}
TXN = {"txn_id": 1, "producer": "app", "outcome": "committed", "called_ns": 1, "ended_ns": 2}
COMMIT = {
    "group": "g",
    "topic": "orders",
    "topic_id": "A",
    "partition": 0,
    "offset": 0,
    "outcome": "acked",
    "called_ns": 1,
    "returned_ns": 2,
}
OPERATION = {
    "op": 0,
    "writer": "ops",
    "kind": "create_topic",
    "entity": "topic a",
    "value": "1",
    "outcome": "acked",
    "called_ns": 1,
    "returned_ns": 2,
}
VIEW = {"phase": "drained", "node": 1, "entity": "topic a", "value": "1", "asked_ns": 3, "at_ns": 4}
LINEAGE = {"broker": 1, "topic": "orders", "partition": 0}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example of FORMAT.md, with a row in each table that it leaves out, and with a step."""
    folder = write_example(tmp_path / "by_hand")
    for table, row in (
        ("transactions", TXN),
        ("offset_commits", COMMIT),
        ("admin_ops", OPERATION),
        ("admin_views", VIEW),
    ):
        (folder / table).mkdir()
        (folder / table / "app.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "steps.json").write_text(json.dumps([{**STEP, "events": [EVENT]}]))
    return folder


def _document(name: str, change: Change) -> Callable[[Path], object]:
    def harm(bundle: Path) -> None:
        content = json.loads((bundle / name).read_text())
        change(content)
        (bundle / name).write_text(json.dumps(content))

    return harm


def _row(table: str, line: int, **columns: object) -> Callable[[Path], object]:
    """Changes columns of a row, or removes those that are `...`."""

    def harm(bundle: Path) -> None:
        (file,) = (bundle / table).glob("*.jsonl")
        lines = file.read_text().splitlines()
        row = json.loads(lines[line - 1]) | columns
        lines[line - 1] = json.dumps({name: value for name, value in row.items() if value is not ...})
        file.write_text("\n".join(lines) + "\n")

    return harm


def _run(**keys: object) -> Callable[[Path], object]:
    return _document("run.json", lambda run: run.update(keys))


def _producer(**keys: object) -> Callable[[Path], object]:
    return _document("run.json", lambda run: run["contract"]["producers"]["app"].update(keys))


def _fact(**keys: Any) -> Change:
    return _document("steps.json", lambda steps: steps[0]["facts"][0].update(keys))


def _event(**keys: object) -> Callable[[Path], object]:
    return _document("steps.json", lambda steps: steps[0]["events"][0].update(keys))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "outcome": (_row("ledger", 2, outcome="ok"), 'ledger/app.jsonl line 2: outcome is "ok" and must be "acked", '),
    "kind": (_row("observations", 1, kind="final"), 'drain.jsonl line 1: kind is "final" and must be "live", '),
    "isolation": (_row("observations", 2, isolation="committed"), 'line 2: isolation is "committed"'),
    "end of a transaction": (_row("transactions", 1, outcome="COMMITTED"), 'outcome is "COMMITTED"'),
    "kind of an operation": (_row("admin_ops", 1, kind="make_topic"), 'kind is "make_topic"'),
    "outcome of an operation": (_row("admin_ops", 1, outcome="done"), 'outcome is "done"'),
    "number of an operation": (_row("admin_ops", 1, op=-1), "op is -1 and cannot be below 0"),
    "phase of a view": (_row("admin_views", 1, phase="end"), 'phase is "end"'),
    "outcome of a commit": (_row("offset_commits", 1, outcome="ok"), 'outcome is "ok"'),
    "acks of a reservation": (_row("reservations", 1, acks="-1"), 'line 1: acks is "-1" and must be "all", "1" or "0"'),
    "flag as text": (_row("reservations", 1, idempotent="true"), 'idempotent is "true" and must be true or false'),
    "number as text": (_row("ledger", 3, offset="2"), 'line 3: offset is "2" and must be a whole number'),
    "column left out": (_row("ledger", 3, called_ns=...), "line 3 has no 'called_ns'"),
    "column misspelt": (_row("ledger", 2, ofset=1), "line 2 has an unknown column 'ofset'"),
    "negative offset acked": (_row("ledger", 1, offset=-1), "line 1: offset is -1 and cannot be below 0"),
    "negative offset read": (_row("observations", 1, offset=-5), "offset is -5 and cannot be below 0"),
    "negative partition": (_row("observations", 1, partition=-1), "partition is -1 and cannot be below 0"),
    "number too large": (_row("ledger", 1, stream=1 << 31), "stream is 2147483648 and must be an int32"),
    "finished as text": (_run(finished="false"), 'run.json: finished is "false" and must be true or false'),
    "finished as number": (_run(finished=1), "run.json: finished is 1 and must be true or false"),
    "contract flag as text": (_producer(idempotent="true"), 'contract.producers.app.idempotent is "true"'),
    "contract acks as number": (_producer(acks=1), 'contract.producers.app.acks is 1 and must be "0", "1" or "all"'),
    "topic without contract": (
        _document("run.json", lambda run: run["contract"]["topics"].clear()),
        "has the topic 'orders', for which run.json has no contract",
    ),
    "producer without contract": (
        _document("run.json", lambda run: run["contract"]["producers"].clear()),
        "app.jsonl has the producer 'app', for which run.json has no contract",
    ),
    "transaction of a stranger": (_row("transactions", 1, producer="b"), "has the producer 'b', for which"),
    "acks of a scenario": (
        _document("scenario.json", lambda s: s.update(producers=[{"name": "app", "topics": ["orders"], "acks": 1}])),
        "scenario.json: producers[0].acks is 1",
    ),
    "event of another kind": (_event(kind="records_deleted"), 'steps.json: [0].events[0].kind is "records_deleted"'),
    "fact of another kind": (_fact(kind="meteorite"), 'steps.json: [0].facts[0].kind is "meteorite"'),
    "stop that does not say how": (_fact(kind="stopped"), "steps.json: [0].facts[0] has no 'how'"),
    "stop by another way": (
        _fact(kind="stopped", how="gently"),
        'facts[0].how is "gently" and must be "killed", "cleanly"',
    ),
    "fact without a beginning": (
        _document("steps.json", lambda steps: steps[0]["facts"][0].pop("from_ns")),
        "steps.json: [0].facts[0] has no 'from_ns'",
    ),
    "nodes of a fact as text": (_fact(kind="frozen", nodes="1"), 'facts[0].nodes is "1" and must be a list'),
    "setting of a fact as a number": (
        _fact(kind="config_set", topic="t", config={"retention.ms": 1}),
        "facts[0].config.retention.ms is 1 and must be text",
    ),
    "step without facts": (
        _document("steps.json", lambda steps: steps[0].pop("facts")),
        "steps.json: [0] has no 'facts'",
    ),
    "event without topic": (
        _document("steps.json", lambda steps: steps[0]["events"][0].pop("topic")),
        "steps.json: [0].events[0] has no 'topic'",
    ),
    "event without offset": (
        _document("steps.json", lambda steps: steps[0]["events"][0].pop("before_offset")),
        "steps.json: [0].events[0] has no 'before_offset'",
    ),
    "read of another kind": (
        _document("reads.json", lambda reads: reads[0].update(kind="final")),
        'reads.json: [0].kind is "final"',
    ),
    "read without position": (
        _document("reads.json", lambda reads: reads[0].pop("position")),
        "reads.json: [0] has no 'position'",
    ),
    "phase of a snapshot": (
        _document("cluster.json", lambda c: c["snapshots"][0].update(phase="final")),
        'cluster.json: snapshots[0].phase is "final"',
    ),
    "targets as a number": (_run(targets=1), "run.json: targets is 1 and must be a list"),
    "target without partition": (_run(targets=[["orders"]]), 'targets[0] is ["orders"] and must be a list of 2'),
    "target the wrong way": (_run(targets=[[0, "orders"]]), "targets[0][0] is 0 and must be text"),
    "window without an end": (_run(windows={"before": [1]}), "windows.before is [1] and must be a list of 2"),
    "window of a fault": (_run(windows={"during": [[1]]}), "windows.during[0] is [1] and must be a list of 2"),
    "steps of the scenario": (
        _document("scenario.json", lambda s: s.update(steps=5)),
        "scenario.json: steps is 5 and must be a list",
    ),
    "transactions of the scenario": (
        _document("scenario.json", lambda s: s.update(producers=[{"name": "a", "topics": [], "transactions": 1}])),
        "scenario.json: producers[0].transactions is 1 and must be an object",
    ),
    "wait as text": (_run(recovered={"ok": True, "waited_s": "1"}), 'recovered.waited_s is "1" and must be a number'),
    "epoch without a start": (
        _document("cluster.json", lambda c: c["lineages"].append({**LINEAGE, "epochs": [[4]]})),
        "cluster.json: lineages[0].epochs[0] is [4] and must be a list of 2",
    ),
    "steps as an object": (lambda b: (b / "steps.json").write_text("{}"), "steps.json is {} and must be a list"),
    "run as a list": (lambda b: (b / "run.json").write_text("[]"), "run.json is [] and must be an object"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_sealing_refuses_in_one_sentence(example: Path, wrong: str) -> None:
    harm, said = REFUSED[wrong]
    harm(example)
    with pytest.raises(BadEvidence) as refusal:
        seal_directory(example)
    assert said in str(refusal.value)
    assert str(example) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "Error" not in str(refusal.value)


ACCEPTED: dict[str, Callable[[Path], object]] = {
    "as it is": lambda _: None,
    "every outcome": _row("ledger", 2, outcome="unknown", offset=...),
    "null where null may be": _row("ledger", 1, offset=None, error=None),
    "a payload that cannot be decoded": _row("observations", 1, stream=-1, seq=-1, intact=False),
    "acks of one": _producer(acks="1", idempotent=False),
    "null for a key of the contract that may be left out": _producer(retries=None, backdated_ms=None),
    "a key that the format does not know": _producer(note="mine"),
    "finished is false": _run(finished=False),
    "the last record before the drain": _row("reservations", 1, producer="sentinel"),
    "deletion of a topic": _event(kind="topic_deleted", topic_id="A", partition=-1),
    "an election without a log end": _event(kind="unclean_election", leader_epoch=3, log_end=None),
    "no fact": _document("steps.json", lambda steps: steps[0].update(facts=[])),
    "stop of unknown nodes": _fact(kind="stopped", how="crashed", nodes=None, to_ns=None),
    "no step": lambda b: (b / "steps.json").write_text("[]"),
    "a torn last reservation": lambda b: (b / "reservations/more.jsonl").write_text('{"stream": 2, "prod'),
    "an empty line": lambda b: (b / "ledger/app.jsonl").write_text((b / "ledger/app.jsonl").read_text() + "\n"),
}


@pytest.mark.parametrize("legal", ACCEPTED)
def test_a_near_miss_is_sealed(example: Path, legal: str) -> None:
    ACCEPTED[legal](example)
    seal_directory(example)
    assert Bundle.open(example).sealed


def _sealed_anyway(bundle: Path, part: str, column: str, *values: object, statistics: bool = True) -> None:
    """Changes a Parquet part and seals it without checks, as another program may do."""
    seal_directory(bundle)
    rows = pq.read_table(bundle / part)
    at, field = rows.schema.get_field_index(column), rows.schema.field(column)
    rows = rows.set_column(at, field, pa.array(values, type=field.type))
    pq.write_table(rows, bundle / part, write_statistics=statistics)
    write_manifest(bundle, Origin())


def test_parquet_parts_may_have_the_same_words_only(example: Path) -> None:
    _sealed_anyway(example, "observations/drain.parquet", "kind", "drain", "final")
    expected = r'drain\.parquet: kind is "final" and must be "live", "drain", "replica" or "probe"'
    with pytest.raises(BadEvidence, match=expected):
        Bundle.open(example)


@pytest.mark.parametrize("statistics", [True, False])
def test_parquet_parts_count_from_0(example: Path, statistics: bool) -> None:
    _sealed_anyway(example, "ledger/app.parquet", "offset", 0, None, -1, statistics=statistics)
    with pytest.raises(BadEvidence, match=r"app\.parquet: offset is -1 and cannot be below 0"):
        Bundle.open(example)


@pytest.mark.parametrize("statistics", [True, False])
def test_parquet_parts_may_have_no_offset_at_all(example: Path, statistics: bool) -> None:
    _sealed_anyway(example, "ledger/app.parquet", "offset", None, None, None, statistics=statistics)
    assert Bundle.open(example).complete


def test_a_run_that_finished_has_to_be_sealed(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadEvidence, match="was never sealed"):
        Bundle.open(example, allow_unfinished=True)
    assert invoke(["verify", str(example)]) == 2
    assert "durability seal" in capsys.readouterr().err


def test_json_lines_are_never_ignored(example: Path) -> None:
    """A run that died half way is judged without a seal, but only if all its parts are those that the harness
    writes.
    """
    _run(finished=False)(example)
    with pytest.raises(BadEvidence, match="was never sealed"):
        Bundle.open(example, allow_unfinished=True)
    for lines in [*example.glob("ledger/*"), *example.glob("[ao]*/*"), *example.glob("transactions/*")]:
        lines.unlink()
    _run(format_version=FORMAT_VERSION)(example)
    assert not Bundle.open(example, allow_unfinished=True).complete
