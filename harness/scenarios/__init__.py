"""The built-in scenarios, and any other by its file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness.faults.steps.registry import check_steps
from harness.model.backend import CONTAINERS, PROCESSES
from harness.model.errors import BadInput
from harness.model.scenario import toml
from harness.model.scenario.scenario import SETS, Scenario
from harness.model.user_files import read_text

KNOWN_BUG = "known-bug"  # open in every release: it fails, and rightly
TRIAL = "trial"  # not seen yet both to pass on a release and to fail under its negative control


@cache
def builtin() -> dict[str, Scenario]:
    """Every built-in scenario by name, in alphabetical order."""
    return {name: toml.parse(path.read_text("utf-8"), name, check_steps) for name, path in sorted(_paths().items())}


def path_of(name: str) -> Path:
    """The file of a built-in scenario, in the folder of its subject."""
    return _paths()[name]


def _paths() -> dict[str, Path]:
    return {path.stem: path for path in Path(__file__).parent.glob("*/*.toml")}


def gate(backend: str = PROCESSES) -> list[Scenario]:
    """What a backend's gate requires; scenarios of one shape stand together, so that they can share a cluster."""
    return _in_order(s for s in builtin().values() if s.gate or (s.gate_on_containers and backend == CONTAINERS))


def _in_order(chosen: Iterable[Scenario]) -> list[Scenario]:
    return sorted(chosen, key=lambda s: (s.fresh, s.shape.controllers, str(s.shape), not s.smoke, s.name))


def tags_of(scenario: Scenario) -> tuple[str, ...]:
    """Its own tags, in front of them its sets: smoke, gate, nightly. Known bugs and trials are in none."""
    nightly = not scenario.gate and not {KNOWN_BUG, TRIAL} & set(scenario.tags)
    sets = {"smoke": scenario.smoke, "gate": scenario.gate, "nightly": nightly}
    return (*(name for name in SETS if sets[name]), *scenario.tags)


def tags() -> list[str]:
    """Every tag that some built-in scenario has."""
    return sorted({tag for scenario in builtin().values() for tag in tags_of(scenario)})


def tagged(wanted: Iterable[str]) -> list[Scenario]:
    """Built-in scenarios with one of the tags, those of one shape together. BadInput on a tag that none has."""
    wanted = frozenset(wanted)
    for tag in sorted(wanted):
        if tag not in tags():
            raise BadInput(f"no scenario has the tag {tag!r}{toml.hint(tag, tags())}")
    return _in_order(s for s in builtin().values() if wanted & set(tags_of(s)))


def smoke() -> list[Scenario]:
    """The three quick ones."""
    return [s for s in gate() if s.smoke]


def load(spec: str) -> Scenario:
    """A built-in scenario by its name, or a file by its path. BadInput when there is neither."""
    if spec in builtin():
        return builtin()[spec]
    path = Path(spec)
    if path.suffix == ".toml":
        return _of_file(path, spec)
    if path.is_dir():
        raise BadInput(f"scenario {spec} is a folder; give one of its .toml files")
    if path.suffix.lower() == ".toml":
        raise BadInput(f"scenario {spec}: a scenario's file ends in .toml, in small letters; rename it")
    raise BadInput(f"no scenario {spec!r}{toml.hint(spec, builtin())}")


def _of_file(path: Path, spec: str) -> Scenario:
    """Sentences about a file name the whole path: several may have the same name."""
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
            raise BadInput(f"scenario {spec}: there is no such file; {meant}")
        return read_text(path, encoding="utf-8-sig")  # editors of some systems begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise BadInput(f"scenario {spec} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8") from error
    except OSError as error:
        raise BadInput(
            f"scenario {spec} cannot be read ({error.strerror}); give a .toml file that you may read"
        ) from error


def negative_control(scenario: Scenario) -> Scenario:
    """The twin that must FAIL when it is judged by the contract of `scenario`; BadInput when none is named."""
    return toml.negative_control(scenario, check_steps)
