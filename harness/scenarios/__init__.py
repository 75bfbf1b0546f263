"""The built-in scenarios, and any other by its file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from harness.faults.registry import check_steps
from harness.model import scenario_toml
from harness.model.errors import BadInput
from harness.model.scenario import Scenario


@cache
def builtin() -> dict[str, Scenario]:
    """Every built-in scenario by name, in alphabetical order."""
    texts = {Path(f.name).stem: f.read_text() for f in files(__name__).iterdir() if f.name.endswith(".toml")}
    return {name: scenario_toml.parse(texts[name], name, check_steps) for name in sorted(texts)}


def gate() -> list[Scenario]:
    """The required scenarios; those of one shape stand together, so that they can share a cluster."""
    chosen = [s for s in builtin().values() if s.gate]
    return sorted(chosen, key=lambda s: (s.fresh, s.shape.controllers, str(s.shape), not s.smoke, s.name))


def smoke() -> list[Scenario]:
    """The three quick ones."""
    return [s for s in gate() if s.smoke]


def load(spec: str) -> Scenario:
    """A built-in scenario by its name, or a file by its path. BadInput when there is neither."""
    if spec in builtin():
        return builtin()[spec]
    path = Path(spec)
    if path.suffix != ".toml":
        raise BadInput(f"no scenario {spec!r}{scenario_toml.hint(spec, builtin())}")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"scenario {spec}: cannot be read: {error}") from error
    return scenario_toml.parse(text, path.stem, check_steps)


def weakened(scenario: Scenario) -> Scenario:
    """The twin that must FAIL when it is judged by the contract of `scenario`; BadInput when none is named."""
    return scenario_toml.weakened(scenario, check_steps)
