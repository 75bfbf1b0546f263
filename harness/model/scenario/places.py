"""Names for partitions in the steps of a scenario, which are replaced by the partitions when the scenario is read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from harness.model.contract.internal_topics import OFFSETS, partitions_of, state_partition
from harness.model.errors import BadInput
from harness.model.scenario.rules import nearest
from harness.model.scenario.scenario import Scenario, Step

_OFFSETS_OF: Final = re.compile(r"offsets\(([^()]*)\)")


def written_out(scenario: Scenario, where: str) -> Scenario:
    """The scenario with "offsets(GROUP)" in its steps replaced by the group's partition, such as
    "__consumer_offsets/7".

    BadInput, with the nearest name, if there is no such group.

    """
    return replace(scenario, steps=tuple(_step(step, scenario, where) for step in scenario.steps))


def _step(step: Step, scenario: Scenario, where: str) -> Step:
    def place(match: re.Match[str]) -> str:
        group = match[1].strip()
        if group not in scenario.groups:
            raise BadInput(
                f"{where}: step {step.name}: {match[0]}: no group {group!r}{nearest(group, scenario.groups)}"
            )
        return f"{OFFSETS}/{state_partition(group, partitions_of(scenario.shape, OFFSETS))}"

    def spelt(value: object) -> object:
        if isinstance(value, str):
            return _OFFSETS_OF.sub(place, value)
        return [spelt(one) for one in value] if isinstance(value, list) else value

    return replace(step, args={key: spelt(value) for key, value in step.args.items()})
