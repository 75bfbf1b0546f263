"""Renders CATALOGUE.md: every built-in scenario with its property, its negative control and the expected finding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from harness.model.scenario.scenario import Scenario
from harness.scenarios import builtin, control_of, path_of, tags_of

_HEAD: Final = """\
# Built-in scenarios

Written by `durability docs`; do not edit.

A scenario plays its steps under load; then its property is judged. Its negative control changes settings or steps, is
judged by the contract of the unchanged scenario, and must FAIL with the finding in the last column. Scenarios of known
bugs may have none: they must FAIL by themselves on releases with the bug. `durability gate` runs the set `gate`;
`nightly` is every other scenario except known bugs and trials (`durability run --tag nightly`).
"""
_COLUMNS: Final = "| scenario | property | sets | negative control | finding |\n|---|---|---|---|---|"
_SETS: Final = ("gate", "smoke", "nightly", "known-bug", "trial")


def render() -> str:
    """The whole catalogue as Markdown, one table for each folder of scenarios."""
    by_folder = sorted(builtin().values(), key=lambda scenario: (path_of(scenario.name).parent.name, scenario.name))
    sections = [
        f"## {folder}/\n\n{table(list(scenarios), f'{folder}/')}"
        for folder, scenarios in groupby(by_folder, key=lambda scenario: path_of(scenario.name).parent.name)
    ]
    return "\n\n".join([_HEAD.rstrip(), *sections]) + "\n"


def table(scenarios: Sequence[Scenario], folder: str) -> str:
    """One row for each scenario. folder: where its file is, from the place of the table, with a slash at the end."""
    return "\n".join([_COLUMNS, *(_row(scenario, folder) for scenario in scenarios)])


def _row(scenario: Scenario, folder: str) -> str:
    control = scenario.negative_control
    sets = ", ".join(tag for tag in tags_of(scenario) if tag in _SETS)
    sets += ", gate on containers" if scenario.gate_on_containers else ""
    expected = ", ".join(f"`{kind}`" for kind in control.expect) if control else ""
    name = f"[`{scenario.name}`]({folder}{scenario.name}.toml)"
    return f"| {name}: {scenario.title} | {scenario.property} | {sets} | {control_of(scenario)} | {expected} |"
