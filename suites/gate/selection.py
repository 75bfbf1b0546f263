"""Which scenarios a pytest run of the gate is about."""

from __future__ import annotations

import pytest

from fixtures.plugin import words
from harness import scenarios
from harness.model.scenario.scenario import Scenario


def chosen(config: pytest.Config) -> list[Scenario]:
    """Those that `--only` names or that have a tag of `--tag`, else the whole gate of the backend."""
    names, tags = words(config, "--only"), words(config, "--tag")
    named = [scenarios.load(name) for name in names]
    return [*named, *scenarios.tagged(tags)] if names or tags else scenarios.gate(config.getoption("--backend"))
