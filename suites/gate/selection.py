"""Which scenarios a pytest run of the gate is about."""

from __future__ import annotations

import pytest

from harness import scenarios
from harness.model.scenario import Scenario


def chosen(config: pytest.Config) -> list[Scenario]:
    """Those that `--only` names, else the whole gate of the backend."""
    names = [name.strip() for name in config.getoption("--only").split(",") if name.strip()]
    return [scenarios.load(name) for name in names] or scenarios.gate(config.getoption("--backend"))
