"""The scenarios of a pytest run of the gate."""

from __future__ import annotations

import pytest

from fixtures.plugin import comma_separated
from harness import scenarios
from harness.model.scenario.scenario import Scenario


def chosen(config: pytest.Config) -> list[Scenario]:
    """The scenarios that `--only` names or that have a tag of `--tag`. Without both, the gate of the backend."""
    names, tags = comma_separated(config, "--only"), comma_separated(config, "--tag")
    named = [scenarios.load(name) for name in names]
    return [*named, *scenarios.tagged(tags)] if names or tags else scenarios.gate(config.getoption("--backend"))
