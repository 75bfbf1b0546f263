"""Each kind of step declares what it does, and steps.json gets it with nodes and times."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.evidence.documents import plain
from harness.evidence.parsing import parse
from harness.faults.steps.declared_facts import NOTHING, Declared, Declares, Happened, bound
from harness.faults.steps.registry import BY_NAME, KINDS, build_step
from harness.faults.steps.step import Action, Fault, Kind, is_disturbance
from harness.model.contract import contract
from harness.model.documents.steps import Steps
from harness.model.facts import MEANINGS, OBSERVED, Fact, FactKind, Stop
from harness.model.scenario.scenario import Step
from suites.differential.facts_of_steps import ACTIONS, FACTS
from suites.unit.evidence_examples import FORMAT

RAN = Happened(started_ns=1, ended_ns=5, healed_ns=9, nodes=(2,), controllers=(11, 12, 13))


def facts(do: str, happened: Happened = RAN, **args: Any) -> list[Fact]:
    kind = build_step(Step(do=do, name="s", args=args))
    return list(bound(kind.declared(), happened))


def hows(do: str, **args: Any) -> list[tuple[FactKind, Stop | None]]:
    return [(fact.kind, fact.how) for fact in facts(do, **args)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.do)
def test_each_kind_declares_its_facts(kind: type[Kind]) -> None:
    """The table of the differential suite says the same, so no declaration changes by accident."""
    named = {fact.kind for fact in kind.facts}
    assert named == {fact.kind for fact in FACTS.get(kind.do, ())} | ({FactKind.FROZEN} & named)
    assert bool(named - OBSERVED) >= is_disturbance(kind)
    stated = {(fact.kind, fact.how) for fact in kind.facts if fact.how is not None}
    assert stated <= {(fact.kind, fact.how) for fact in FACTS.get(kind.do, ())}
    if issubclass(kind, Action) and kind.facts:
        assert kind.do in ACTIONS


def test_the_table_of_the_differential_suite_has_no_step_that_does_not_exist() -> None:
    assert FACTS.keys() <= BY_NAME.keys()


@pytest.mark.parametrize("facts_", [None, NOTHING, (Declared(FactKind.TIER_CAUGHT_UP),)])
def test_a_fault_that_says_it_changes_nothing_cannot_be_declared(facts_: Declares | None) -> None:
    body: dict[str, Any] = {"do": "meteorite"} | ({} if facts_ is None else {"facts": facts_})
    with pytest.raises(TypeError, match=r"meteorite in .* (declares no facts|changes nothing)"):
        type("Meteorite", (Fault,), body)
    with pytest.raises(TypeError, match=r"meteorite in .* (declares no facts|changes nothing)"):
        type("Meteorite", (Action,), body | {"disturbs": True})
    assert "meteorite" not in BY_NAME


def test_a_wait_has_to_say_that_it_changes_nothing() -> None:
    with pytest.raises(TypeError, match=r"nap in .* declares no facts"):
        type("Nap", (Action,), {"do": "nap"})


@pytest.mark.parametrize(
    ("how", "expected"), [("killed", Stop.KILLED), ("cleanly", Stop.CLEANLY)], ids=["killed", "cleanly"]
)
def test_how_a_disk_fault_stops_its_broker_depends_on_its_argument(how: str, expected: Stop) -> None:
    assert hows("damage", node="broker(1)", what="wiped", how=how)[0] == (FactKind.STOPPED, expected)
    damaged = hows("damage_metadata", node="broker(1)", what="log_flip", how=how)
    assert damaged == [(FactKind.STOPPED, expected), (FactKind.METADATA_DAMAGED, None)]


@pytest.mark.parametrize(
    ("what", "ends"),
    [
        ("meta_properties", True),
        ("meta_properties_cut", True),
        ("node_id", True),
        ("snapshot", True),
        ("cluster_id", False),
        ("log_flip", False),
    ],
)
def test_a_node_ends_by_itself_on_metadata_that_keeps_it_from_starting(what: str, ends: bool) -> None:
    found = hows("damage_metadata", node="broker(1)", what=what)
    assert ((FactKind.STOPPED, Stop.CRASHED) in found) == ends


@pytest.mark.parametrize(("by", "ends"), [("cut", True), (None, False)])
def test_a_broker_ends_by_itself_on_a_checkpoint_that_it_cannot_read(by: str | None, ends: bool) -> None:
    damaged = {"what": "start_offset_checkpoint", "of": "t/0", "by": by} if by else {"what": "wiped"}
    assert ((FactKind.STOPPED, Stop.CRASHED) in hows("damage", node="broker(1)", **damaged)) == ends


def test_a_replica_that_is_set_aside_as_stray_is_fetched_again() -> None:
    kinds = [fact.kind for fact in facts("damage_metadata", node="broker(1)", what="partition_metadata", of="t/0")]
    assert FactKind.COPIES_REBUILT in kinds


def test_rolling_steps_stop_each_node_at_its_own_time() -> None:
    spans: dict[int, tuple[int, int | None]] = {1: (2, 3), 2: (4, None)}
    happened = Happened(started_ns=1, ended_ns=5, healed_ns=5, nodes=(1, 2), spans=spans)
    for how, expected in (("kill", Stop.KILLED), ("terminate", Stop.CLEANLY)):
        found = facts("rolling_restart", happened, how=how)
        assert [(f.how, f.nodes, f.from_ns, f.to_ns) for f in found] == [
            (expected, (1,), 2, 3),
            (expected, (2,), 4, None),
        ]
    stops = [fact for fact in facts("roll", happened) if fact.kind is FactKind.STOPPED]
    assert [(f.how, f.nodes) for f in stops] == [(Stop.CLEANLY, (1,)), (Stop.CLEANLY, (2,))]


def test_a_kill_is_over_with_its_step_and_other_ends_with_the_healing() -> None:
    (killed,), (looped,) = facts("kill", node="broker(1)"), facts("crash_loop", node="broker(1)")
    assert (killed.from_ns, killed.to_ns, looped.to_ns) == (1, 5, 9)
    assert (killed.nodes, killed.how) == ((2,), Stop.KILLED)


def test_a_failpoint_stops_only_nodes_that_ended_by_it_and_may_stop_them_until_it_is_healed() -> None:
    kill = {"node": "broker(2)", "point": "roll"}
    (may,) = facts("failpoint", Happened(started_ns=1, ended_ns=2, nodes=(2,), ended={}), **kill)
    assert (may.how, may.nodes, may.from_ns, may.to_ns) == (Stop.KILLED, (2,), 1, None)
    healed = Happened(started_ns=1, ended_ns=2, healed_ns=9, nodes=(2,), ended={2: (4, 5)})
    (ended,) = facts("failpoint", healed, **kill)
    assert (ended.how, ended.nodes, ended.from_ns, ended.to_ns) == (Stop.KILLED, (2,), 4, 5)
    assert facts("failpoint", replace(healed, ended={}), **kill) == []


def test_unknown_nodes_of_a_controller_fault_are_controllers() -> None:
    unknown = Happened(started_ns=1, controllers=(11, 12, 13))
    stop, lost = facts("quorum_lost", unknown)
    assert (stop.nodes, lost.kind) == ((11, 12, 13), FactKind.QUORUM_LOST)
    assert [fact.kind for fact in facts("quorum_lost", unknown, how="pause")] == [FactKind.FROZEN, FactKind.QUORUM_LOST]
    assert [fact.nodes for fact in facts("kill", unknown, node="broker(1)")] == [None]


@pytest.mark.parametrize(("nodes", "lost"), [((11,), False), ((11, 12), True), (None, True)])
def test_the_quorum_is_lost_only_with_a_majority(nodes: tuple[int, ...] | None, lost: bool) -> None:
    happened = Happened(started_ns=1, nodes=nodes, controllers=(11, 12, 13))
    kinds = [fact.kind for fact in facts("metadata_snapshot", happened)]
    assert (FactKind.QUORUM_LOST in kinds) is lost


def test_settings_are_written_as_kafka_writes_them() -> None:
    config = {"unclean.leader.election.enable": True, "retention.ms": 1000}
    (fact,) = facts("alter_topic", topic="t", config=config)
    assert (fact.topic, fact.config) == ("t", {"unclean.leader.election.enable": "true", "retention.ms": "1000"})


@pytest.mark.parametrize(("failed", "ended_ns", "seen"), [(False, 5, 1), (True, 5, 0), (False, None, 0)])
def test_a_wait_that_did_not_end_has_seen_nothing(failed: bool, ended_ns: int | None, seen: int) -> None:
    happened = Happened(started_ns=1, ended_ns=ended_ns, healed_ns=ended_ns, failed=failed)
    assert len(facts("wait_tiered", happened)) == seen


@pytest.mark.parametrize("kind", FactKind)
def test_facts_survive_steps_json(kind: FactKind) -> None:
    keys = MEANINGS[kind].keys
    fact = Fact(
        kind=kind,
        from_ns=1,
        nodes=(1, 2) if "nodes" in keys else None,
        how=Stop.POWER if "how" in keys else None,
        what="a" if "what" in keys else None,
        topic="t" if "topic" in keys else None,
        client="c" if "client" in keys else None,
        config={"a": "1"} if "config" in keys else None,
    )
    row = {"name": "s", "do": "s", "started_ns": 1, "ended_ns": 2, "healed_ns": None, "is_fault": True, "events": []}
    (step,) = parse(Path("steps.json"), [row | {"facts": [plain(fact)]}], Steps)
    assert step.facts == (fact,)
    assert f"| {kind} |" in FORMAT


def test_only_a_stop_says_how() -> None:
    with pytest.raises(ValueError, match="has no 'how'"):
        Fact(kind=FactKind.STOPPED, from_ns=1)
    with pytest.raises(ValueError, match="has `how`, which belongs to the kind stopped alone"):
        Fact(kind=FactKind.FROZEN, from_ns=1, how=Stop.KILLED)


def _words_of_steps(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "'do'":
            yield f"{path.name}:{node.lineno}: [do]"
        if isinstance(node, ast.Call) and ast.unparse(node).find(".get('do'") >= 0:
            yield f"{path.name}:{node.lineno}: get(do)"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in BY_NAME:
            yield f"{path.name}:{node.lineno}: {node.value}"
        if isinstance(node, ast.ImportFrom) and node.module == contract.__name__:
            named = [alias.name for alias in node.names if getattr(contract, alias.name, None) in [*BY_NAME]]
            yield from (f"{path.name}:{node.lineno}: {name}" for name in named)


def test_the_verifier_knows_no_word_of_a_step() -> None:
    """It reads facts, so that a fault of tomorrow is judged rightly today."""
    files = sorted(Path(harness.__path__[0], "verify").rglob("*.py"))
    assert len(files) > 50
    assert [found for path in files for found in _words_of_steps(path)] == []
