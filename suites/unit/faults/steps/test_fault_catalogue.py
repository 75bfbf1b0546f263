"""Each kind of step declares what the catalogue shows, and CATALOGUE.md is what the classes declare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from harness import scenarios
from harness.clusters.disks import loop_devices
from harness.faults.steps import catalogue
from harness.faults.steps.registry import BY_NAME, KINDS, folder_of
from harness.faults.steps.step import Fault, Kind, is_disturbance
from harness.model.scenario.scenario import Scenario

FAULTS = [kind for kind in KINDS if is_disturbance(kind)]
OF_OWN_DISKS = {kind.do for kind in FAULTS if kind.needs & loop_devices.ALL}
ON_REQUEST = [s for s in scenarios.builtin().values() if not s.gate and "known-bug" not in s.tags]
CHANGES_THE_CLUSTER = {"damage", "damage_metadata", "lose_tail", "disk_full", "controller_wiped", "roll"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.do)
def test_each_kind_declares_a_summary_of_one_sentence(kind: type[Kind]) -> None:
    assert "summary" in kind.__dict__, "inherited from another kind"
    assert kind.summary[0].isupper()
    assert kind.summary.endswith(".")
    assert ". " not in kind.summary
    assert len(kind.summary) <= 160
    assert "\n" not in kind.summary


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.do)
def test_each_fault_declares_what_proves_its_effect(kind: type[Kind]) -> None:
    assert "proof" in kind.__dict__, "inherited from another kind"
    assert len(kind.proof) > len("as of ``")
    assert not kind.proof.endswith(".")


def test_a_proof_that_refers_to_another_fault_names_one() -> None:
    named = {word for kind in FAULTS for word in kind.proof.split("`")[1::2] if kind.proof.startswith("as for ")}
    assert named - {field for kind in FAULTS for field in kind.__dataclass_fields__} <= BY_NAME.keys()
    assert "kill" in named


def test_waits_declare_no_proof() -> None:
    assert [kind.do for kind in KINDS if kind.proof and not is_disturbance(kind)] == []


def test_the_committed_catalogue_is_up_to_date() -> None:
    assert catalogue.PATH.read_text(encoding="utf-8") == catalogue.render(), "run `durability docs`"


def test_the_catalogue_has_each_kind_once() -> None:
    lines = catalogue.render().splitlines()
    assert sorted(line.split("`")[1] for line in lines if line.startswith("| `")) == sorted(BY_NAME)


def test_the_catalogue_shows_required_arguments_defaults_and_choices() -> None:
    row = next(line for line in catalogue.render().splitlines() if line.startswith("| `throttle` "))
    assert row.endswith(
        '`rate_kb_s`, `on = []`, `side = "both"` (or leader, follower), `of = "new"` (or all), `for_s = 0` '
        "| no: it needs a replica that is out of sync when it begins |"
    )


def test_the_catalogue_shows_what_generated_scenarios_draw_from() -> None:
    rows = {line.split("`")[1]: line for line in catalogue.render().splitlines() if line.startswith("| `")}
    assert rows["kill"].endswith("| yes |")
    assert rows["flap"].endswith("| `down_s` from 2.5, 4; `up_s` from 0.3, 0.7 |")
    assert rows["elect_preferred"].endswith("| after frozen or leaders_moved or stopped |")


def test_the_catalogue_names_the_only_backend_that_can_run_a_fault() -> None:
    rows = {line.split("`")[1]: line for line in catalogue.render().splitlines() if line.startswith("| `")}
    assert "`disk.full`, `restart`, processes only" in rows["disk_full"]
    assert "`memory.limit`, `restart`, containers only" in rows["oom_killed"]
    assert "only |" not in rows["kill"]


def test_kinds_are_listed_by_folder_and_then_by_name() -> None:
    assert [(folder_of(kind), kind.do) for kind in KINDS] == sorted((folder_of(kind), kind.do) for kind in KINDS)


def test_two_kinds_cannot_have_the_same_word() -> None:
    with pytest.raises(TypeError, match=r"two kinds of steps are called 'kill': harness\.faults\.nodes\.kill and "):

        @dataclass(frozen=True, kw_only=True)
        class Again(Fault):
            do: ClassVar[str] = "kill"


@pytest.mark.parametrize("scenario", ON_REQUEST, ids=lambda scenario: scenario.name)
def test_each_scenario_outside_the_gate_has_a_negative_control(scenario: Scenario) -> None:
    assert scenario.negative_control is not None
    assert scenarios.negative_control(scenario) != scenario
    text = scenarios.path_of(scenario.name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60


def test_scenarios_that_change_nodes_for_good_get_a_fresh_cluster() -> None:
    """Another scenario on the same cluster would start with other disks, or on another release, than it expects."""
    changing = CHANGES_THE_CLUSTER | OF_OWN_DISKS
    every = scenarios.builtin().values()
    assert {s.name for s in every if changing & {step.do for step in s.steps}} == {s.name for s in every if s.fresh}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.do)
def test_each_fault_is_played_on_real_brokers(kind: type[Kind]) -> None:
    files = Path(__file__).parents[3].joinpath("gate").rglob("test_*.py")
    assert any(f'"{kind.do}"' in path.read_text(encoding="utf-8") for path in files)
