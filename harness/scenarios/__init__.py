"""Loads the built-in scenarios, those of plugins, and scenarios from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from harness.faults.steps.registry import check_steps
from harness.model.backend import CONTAINERS, PROCESSES
from harness.model.errors import BadInput
from harness.model.hints import hint
from harness.model.scenario import toml
from harness.model.scenario.scenario import KNOWN_BUG, SETS, Scenario
from harness.model.user_files import read_text

TRIAL = "trial"  # not yet seen both to PASS on a release and to FAIL under its negative control


@cache
def builtin() -> dict[str, Scenario]:
    """Every built-in scenario by name, in alphabetical order."""
    return {name: toml.parse(path.read_text("utf-8"), name, check_steps) for name, path in sorted(_paths().items())}


_OF_PLUGINS: Final[dict[str, Scenario]] = {}


def every() -> dict[str, Scenario]:
    """The built-in scenarios and those of plugins, by name."""
    return {**builtin(), **_OF_PLUGINS}


@contextmanager
def with_scenarios(own: Mapping[str, Scenario]) -> Iterator[None]:
    """The scenarios of plugins are known by their names inside."""
    _OF_PLUGINS.update(own)
    try:
        yield
    finally:
        for name in own:
            del _OF_PLUGINS[name]


def path_of(name: str) -> Path:
    """The file of a built-in scenario, in the folder of its subject."""
    return _paths()[name]


def _paths() -> dict[str, Path]:
    return {path.stem: path for path in Path(__file__).parent.glob("*/*.toml")}


def gate(backend: str = PROCESSES) -> list[Scenario]:
    """The scenarios that the gate of a backend requires, those of one shape adjacent, so that they share a cluster."""
    return _in_order(s for s in every().values() if s.gate or (s.gate_on_containers and backend == CONTAINERS))


def _in_order(chosen: Iterable[Scenario]) -> list[Scenario]:
    return sorted(chosen, key=lambda s: (s.fresh, s.shape.controllers, str(s.shape), not s.smoke, s.name))


def tags_of(scenario: Scenario) -> tuple[str, ...]:
    """Its sets (smoke, gate, nightly) and then its own tags. Known bugs and trials are in no set."""
    nightly = not scenario.gate and not {KNOWN_BUG, TRIAL} & set(scenario.tags)
    sets = {"smoke": scenario.smoke, "gate": scenario.gate, "nightly": nightly}
    return (*(name for name in SETS if sets[name]), *scenario.tags)


def tags() -> list[str]:
    """Every tag of the scenarios that are known by name."""
    return sorted({tag for scenario in every().values() for tag in tags_of(scenario)})


def tagged(wanted: Iterable[str]) -> list[Scenario]:
    """Scenarios with one of the tags, those of one shape adjacent. Raises BadInput for an unknown tag."""
    wanted = frozenset(wanted)
    for tag in sorted(wanted):
        if tag not in tags():
            raise BadInput(f"no scenario has the tag {tag!r}{hint(tag, tags())}")
    return _in_order(s for s in every().values() if wanted & set(tags_of(s)))


def smoke() -> list[Scenario]:
    """The quick scenarios of the gate."""
    return [s for s in gate() if s.smoke]


def load(spec: str) -> Scenario:
    """Loads a scenario by name, built-in or of a plugin, or a file by path. Raises BadInput if there is none."""
    if spec in every():
        return every()[spec]
    path = Path(spec)
    if path.suffix == ".toml":
        return of_file(path, spec)
    if path.is_dir():
        raise BadInput(f"scenario {spec} is a folder; give one of its .toml files")
    if path.suffix.lower() == ".toml":
        raise BadInput(f"scenario {spec}: the name of a scenario file must end in .toml, in lower case; rename it")
    raise BadInput(f"no scenario {spec!r}{hint(spec, every())}")


def of_file(path: Path, spec: str) -> Scenario:
    """The scenario in a file. Messages name the whole path: several files may have the same name."""
    text = _text_of(path, spec)
    if not text.strip():
        raise BadInput(f"scenario {spec} is empty; `durability list scenarios` shows examples to begin with")
    try:
        return toml.parse(text, path.stem, check_steps)
    except BadInput as error:
        raise BadInput(f"{spec}: {error}") from error


def _text_of(path: Path, spec: str) -> str:
    try:
        if not path.exists():
            meant = f"did you mean the built-in {path.stem!r}?" if path.stem in builtin() else "check the path"
            raise BadInput(f"scenario {spec}: the file does not exist; {meant}")
        return read_text(path, encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        raise BadInput(f"scenario {spec} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8") from error
    except OSError as error:
        raise BadInput(
            f"scenario {spec} cannot be read ({error.strerror}); give a .toml file that you may read"
        ) from error


def control_of(scenario: Scenario) -> str:
    """What its negative control changes, or why it has none, for people."""
    if scenario.negative_control is not None:
        return scenario.negative_control.what
    if KNOWN_BUG in scenario.tags:
        return "none: it must FAIL on a release with the bug"
    return "none, so nothing proves that it can FAIL; add a [negative_control] to it"


def negative_control(scenario: Scenario) -> Scenario:
    """The negative control: it must FAIL when it is judged by the contract of `scenario`. BadInput if there is none."""
    return toml.negative_control(scenario, check_steps)
