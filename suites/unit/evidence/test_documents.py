"""Documents are written as the reader of the evidence expects them, and read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from harness.evidence import Bundle, judged_documents
from harness.evidence.documents import plain, read_json, write_json
from harness.evidence.parsing import parse
from harness.evidence.record_tables import RECORDS
from harness.evidence.seal import seal_directory
from harness.model.documents.cluster import GroupOffset, Lineage
from harness.model.documents.manifest import Origin
from harness.model.documents.record import Record
from harness.model.documents.steps import GroupAway, Step
from harness.model.facts import Fact, FactKind, Stop
from suites.unit.evidence_examples import write_example

OFFSET = GroupOffset(group="g", topic="t", partition=0, offset=4, at_ns=7)


@pytest.mark.parametrize(
    ("record", "written"),
    [
        (OFFSET, {"group": "g", "topic": "t", "partition": 0, "offset": 4, "at_ns": 7}),
        # A reader must see that the offset may be older than the committed one.
        (
            GroupOffset(group="g", topic="t", partition=0, offset=None, at_ns=7, stable=False),
            {"group": "g", "topic": "t", "partition": 0, "offset": None, "at_ns": 7, "stable": False},
        ),
        (
            Lineage(broker=1, topic="t", partition=0, epochs=((0, 0), (2, 9))),
            {"broker": 1, "topic": "t", "partition": 0, "epochs": [[0, 0], [2, 9]]},
        ),
        (
            GroupAway(group="g", from_ns=1, left_ns=2, to_ns=3),
            {"kind": "group_away", "group": "g", "from_ns": 1, "left_ns": 2, "to_ns": 3, "at_ns": None},
        ),
        # The nodes are unknown, so any of them may have ended.
        (
            Fact(kind=FactKind.STOPPED, from_ns=1, how=Stop.KILLED, what="", topic=""),
            {"kind": "stopped", "from_ns": 1, "to_ns": None, "nodes": None, "how": "killed"},
        ),
        (
            Fact(kind=FactKind.CONFIG_SET, from_ns=1, to_ns=2, topic="t", config={"a": "1"}),
            {"kind": "config_set", "from_ns": 1, "to_ns": 2, "topic": "t", "config": {"a": "1"}},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Record) else "",
)
def test_a_record_is_written_with_the_keys_that_say_something(record: Record, written: dict[str, object]) -> None:
    assert plain(record) == written


def test_a_step_has_an_error_only_if_it_failed() -> None:
    step = Step(
        name="s", do="kill", started_ns=1, ended_ns=2, healed_ns=None, is_fault=True, facts=(), events=(), resolved={}
    )
    assert plain(step) == {
        "name": "s",
        "do": "kill",
        "started_ns": 1,
        "ended_ns": 2,
        "healed_ns": None,
        "is_fault": True,
        "facts": [],
        "events": [],
        "effect": None,
        "args": None,
        "resolved": {},
    }
    assert plain(parse(Path("steps.json"), {**plain(step), "error": "late"}, Step))["error"] == "late"


def test_an_origin_has_no_empty_plugins() -> None:
    assert {"release", "seed"} <= plain(Origin(seed=7)).keys()
    assert plain(Origin(seed=7)).keys() & {"plugins", "starts_on", "tier_storage", "clock"} == set()


@pytest.mark.parametrize("name", ["scenario.json", "run.json", "steps.json", "cluster.json", "reads.json"])
def test_a_document_that_was_read_is_written_with_the_same_meaning(name: str, tmp_path: Path) -> None:
    file, kind = write_example(tmp_path / "example") / name, cast(Any, RECORDS[name])
    read = parse(file, read_json(file), kind)
    write_json(tmp_path / name, read)
    assert parse(file, read_json(tmp_path / name), kind) == read


def test_each_document_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example, read = write_example(tmp_path / "example"), list[str]()
    seal_directory(example)

    def noted(path: Path) -> object:
        read.append(path.name)
        return json.loads(path.read_text(encoding="utf-8"))

    monkeypatch.setattr(judged_documents, "read_json", noted)
    Bundle.open(example)
    assert sorted(read) == ["cluster.json", "reads.json", "run.json", "scenario.json", "steps.json"]
