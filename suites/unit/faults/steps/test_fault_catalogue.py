"""What the README tells of faults and of scenarios outside the gate is what the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import scenarios
from harness.clusters.choosing import CAPABILITIES
from harness.clusters.disks import loop_devices
from harness.faults.steps.registry import KINDS, is_disturbance
from harness.faults.steps.step import Kind
from harness.model.scenario.scenario import Scenario

README = (Path(__file__).parents[4] / "README.md").read_text(encoding="utf-8")
FAULTS = [kind for kind in KINDS if is_disturbance(object.__new__(kind))]
# A bug that is open in every release has its own place in the README.
OF_OWN_DISKS = {kind.do for kind in FAULTS if kind.needs & loop_devices.ALL}
ON_REQUEST = [s for s in scenarios.builtin().values() if not s.gate and "known-bug" not in s.tags]


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by what is in the first cell."""
    lines = README.split(f"\n## {heading}\n")[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    cells = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return {first.strip("`"): rest for first, *rest in cells}


def backend(kind: type[Kind]) -> str:
    able = [name for name, capabilities in CAPABILITIES.items() if kind.needs <= capabilities]
    return "both" if len(able) == len(CAPABILITIES) else able[0]


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.do)
def test_the_readme_tells_of_each_fault(kind: type[Kind]) -> None:
    reported = rows("What it breaks")[kind.do]
    assert reported[:2] == [(kind.__doc__ or "").strip().splitlines()[0], backend(kind)]
    assert len(reported[2]) > 10


def test_and_of_nothing_else() -> None:
    assert list(rows("What it breaks")) == [kind.do for kind in FAULTS]
    table = README.split("\n## What it breaks\n")[1].split("\n\nNot in the gate")[0].splitlines()
    firsts = [line.split("|")[1] for line in table if line.startswith("| `")]
    assert len(firsts) == len(set(firsts)), "a fault stands twice"


@pytest.mark.parametrize("scenario", ON_REQUEST, ids=lambda scenario: scenario.name)
def test_the_readme_tells_what_is_outside_the_gate(scenario: Scenario) -> None:
    assert f"| {scenario.property} | `{scenario.name}` |" in README.splitlines()


@pytest.mark.parametrize("scenario", ON_REQUEST, ids=lambda scenario: scenario.name)
def test_what_is_outside_the_gate_can_be_proven_too(scenario: Scenario) -> None:
    assert scenario.negative_control is not None
    assert scenarios.negative_control(scenario) != scenario
    text = scenarios.path_of(scenario.name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60


def test_who_changes_nodes_for_good_has_them_for_itself() -> None:
    """The next scenario on the same cluster would begin with other disks, or another release, than it thinks."""
    wearing = {"damage", "damage_metadata", "lose_tail", "disk_full", "controller_wiped", "roll", *OF_OWN_DISKS}
    assert {s.name for s in scenarios.builtin().values() if wearing & {step.do for step in s.steps}} == {
        s.name for s in ON_REQUEST if s.fresh
    }


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.do)
def test_each_fault_is_tried_on_brokers(kind: type[Kind]) -> None:
    files = Path(__file__).parents[3].joinpath("gate").rglob("test_*.py")
    assert any(f'"{kind.do}"' in path.read_text(encoding="utf-8") for path in files)
