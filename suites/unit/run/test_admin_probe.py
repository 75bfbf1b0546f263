"""How long nodes are asked for the entities of an admin, and which answers are kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from harness.evidence import BundleWriter
from harness.kafka.admin.client import Seen
from harness.model.entities import MetadataEntity, Operation, Sort
from harness.model.outcome import Did
from harness.model.scenario.scenario import Admin, ClusterShape, Scenario
from harness.run import admin_probe
from harness.run.admin_probe import AdminProbe, clear

USER = MetadataEntity(Sort.USER, "ops-user-0")
SPEC = Admin(name="ops", does=("users",), entities=1)
SCENARIO = Scenario(name="s", title="", property="", shape=ClusterShape(brokers=2), admin=(SPEC,))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_probe, "_INTERVAL_S", 0.001)


class View:
    """Answers one look after the other, a value or None for each broker; the last look stays."""

    def __init__(self, *looks: dict[int, str | None]) -> None:
        self.looks = list(looks)
        self.taken = 0
        self.made: list[str] = []
        self.unmade: list[Any] = []

    def create_topics(self, topics: Any, deadline_s: float) -> None:
        self.made += [topic.name for topic in topics]

    def entities(self, spec: Admin) -> list[Seen]:
        assert spec is SPEC
        self.taken += 1
        reported = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return [Seen(node, USER, value, 50, 60) for node, value in reported.items()]

    def carry_out(self, did: Did, metadata_entity: MetadataEntity, value: str | None) -> None:
        self.unmade.append((did, metadata_entity))

    def delete_topics(self, names: list[str]) -> None:
        self.unmade += names


def did(value: str | None, outcome: str = "acked") -> Any:
    op = Operation(
        op=0,
        writer="ops",
        kind="set_user",
        entity=USER.text,
        value=value,
        outcome=outcome,
        called_ns=10,
        returned_ns=20,
    )
    return SimpleNamespace(operations=lambda: [op])


def look(view: View, folder: Path, operating: Any, first: dict[int, str | None]) -> list[dict[str, Any]]:
    bundle = BundleWriter(folder / "bundle")
    looks = AdminProbe(cast(Any, View(first)), SCENARIO, bundle)
    looks.begin(1.0)
    looks._admin = cast(Any, view)
    looks.look("drained", {"ops": operating})
    return [row for row in _rows(folder) if row["phase"] == "drained"]


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [
        row
        for part in sorted((folder / "bundle" / "admin_views").glob("*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]


ABSENT: dict[int, str | None] = {1: None, 2: None}
THERE: dict[int, str | None] = {1: "4097", 2: "4097"}


def test_one_look_is_enough_when_all_brokers_report_the_operation(tmp_path: Path) -> None:
    view = View(THERE)
    rows = look(view, tmp_path, did("4097"), ABSENT)
    assert view.taken == 1
    assert [(r["node"], r["entity"], r["value"]) for r in rows] == [(n, USER.text, "4097") for n in (1, 2)]


@pytest.mark.parametrize(
    "early",
    [{1: "4097", 2: None}, {1: None, 2: None}, {1: "4097"}],
    ids=["they differ", "all are behind", "one is silent"],
)
def test_brokers_are_asked_until_all_report_the_same(tmp_path: Path, early: dict[int, str | None]) -> None:
    view = View(early, early, THERE)
    assert {row["value"] for row in look(view, tmp_path, did("4097"), ABSENT)} == {"4097"}
    assert view.taken == 3


def test_the_last_answers_are_kept_when_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_probe, "LOOK_DEADLINE_S", 0.05)
    view = View({1: "4097", 2: None})
    rows = look(view, tmp_path, did("4097"), ABSENT)
    assert {row["node"]: row["value"] for row in rows} == {1: "4097", 2: None}
    assert view.taken > 1


@pytest.mark.parametrize("reported", [THERE, ABSENT], ids=["done", "not done"])
def test_both_outcomes_of_an_unanswered_operation_are_accepted_at_once(
    tmp_path: Path, reported: dict[int, str | None]
) -> None:
    view = View(reported)
    look(view, tmp_path, did("4097", "unknown"), ABSENT)
    assert view.taken == 1


def test_the_first_value_may_remain_after_a_refused_operation(tmp_path: Path) -> None:
    view = View({1: "7", 2: "7"})
    look(view, tmp_path, did("4097", "refused"), {1: "7", 2: "7"})
    assert view.taken == 1
    assert {row["phase"] for row in _rows(tmp_path)} == {"start", "drained"}


def test_nodes_that_never_answer_leave_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_probe, "LOOK_DEADLINE_S", 0.05)
    assert look(View({}), tmp_path, did("4097"), ABSENT) == []


def test_entities_that_admins_left_are_removed() -> None:
    view = View(THERE)
    clear(cast(Any, view), SCENARIO)
    assert view.unmade == [(Did.DELETE_USER, USER), "ops-standing-0"]
