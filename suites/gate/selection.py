"""The scenarios of a pytest run of the gate."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fixtures.plugin import comma_separated
from harness import scenarios
from harness.model.scenario.scenario import Scenario


def chosen(config: pytest.Config) -> Sequence[Scenario]:
    """The scenarios that `--only` names or that have a tag of `--tag`, without both the gate of the backend. Those of
    one shape follow each other, so that a part of them shares clusters."""
    names, tags = comma_separated(config, "--only"), comma_separated(config, "--tag")
    named = [scenarios.load(name) for name in names]
    every = [*named, *scenarios.tagged(tags)] if names or tags else scenarios.gate(config.getoption("--backend"))
    return sorted(every, key=lambda scenario: repr(scenario.shape))
