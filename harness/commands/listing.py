"""The command `list`: scenarios, faults, checks, excuses, doubts and releases, each as a heading and rows of text."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Final

from harness.model.backend import AUTO
from harness.model.doubt_names import DoubtName
from harness.model.errors import BadInput
from harness.model.finding import kinds

if TYPE_CHECKING:
    from harness.model.scenario.scenario import Scenario

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def scenarios(maven_repo: str | None) -> Table:
    """Scenarios with their tags, those of the gate first."""
    del maven_repo
    library = _room("harness.scenarios")
    gate = {s.name for s in library.gate()}
    rows = sorted(library.every().values(), key=lambda s: (s.name not in gate, s.name))
    return ("scenario", "tags", "title", "property", "negative control, which must FAIL"), [
        (
            s.name,
            ", ".join(library.tags_of(s)) + _where_only(s),
            s.title,
            s.property,
            library.control_of(s),
        )
        for s in rows
    ]


def faults(maven_repo: str | None) -> Table:
    """Kinds of steps with their arguments, and whether this machine can run them."""
    del maven_repo
    registry = _room("harness.faults.steps.registry")
    rows = [
        (
            str(kind.do),
            _arguments(kind),
            kind.summary,
            ", ".join(fact.text for fact in kind.facts),
            _available(kind.needs),
        )
        for kind in registry.all_kinds()
    ]
    return ("step", "arguments", "what it does", "facts", "here"), [*rows]


def checks(maven_repo: str | None) -> Table:
    """Kinds of findings with their meanings, and the checks that report each, with the promise of each check."""
    del maven_repo
    declared = _room("harness.verify.registry").declared()
    rows = [
        (
            kind.value,
            kind.meaning,
            "; ".join(f"{name}: {check.promise}" for name, check in declared.items() if kind in check.reports),
        )
        for kind in kinds()
    ]
    return ("finding", "what it means", "checks and what they promise"), sorted(rows)


def excuses(maven_repo: str | None) -> Table:
    """Names of excuses with what permits each, and the kinds of findings that it may excuse."""
    del maven_repo
    _room("harness.verify.registry")  # it finds them
    found = _room("harness.verify.promise").excuses()
    rows = [(excuse.name, excuse.permits, ", ".join(excuse.kinds)) for _, excuse in found]
    return ("excuse", "what permits it", "findings"), sorted(rows)


def doubts(maven_repo: str | None) -> Table:
    """Names of doubts with their meanings and origins."""
    del maven_repo
    rows = [(doubt.value, doubt.origin.value, doubt.meaning) for doubt in DoubtName]
    return ("doubt", "origin", "what it means"), [*rows]


def releases(maven_repo: str | None) -> Table:
    """Final versions in the repository, newest first, and which of them are cached."""
    from harness.kafka.release.cache import default_cache
    from harness.kafka.release.release import has_kraft, known_versions

    known, offline = known_versions(maven_repo, default_cache())
    if offline and not known:
        raise BadInput(offline)

    def usable(version: str, cached: bool) -> str:
        if not has_kraft(version):
            return "no: it has no KRaft mode for production (KIP-833)"
        if cached:
            return f"cached; the repository was not asked: {offline}" if offline else "cached"
        return "downloaded when used, if it is completely published"

    return ("release", "here"), [(one.version, usable(one.version, one.cached)) for one in known]


LISTS: Final[dict[str, Callable[[str | None], Table]]] = {
    "scenarios": scenarios,
    "faults": faults,
    "checks": checks,
    "excuses": excuses,
    "doubts": doubts,
    "releases": releases,
}


def _where_only(scenario: Scenario) -> str:
    here = _available(_room("harness.faults.steps.registry").needs(scenario))
    return "" if here == "yes" else f"; {here}"


def _arguments(kind: type) -> str:
    return ", ".join(field.name for field in dataclasses.fields(kind))


def _available(needs: frozenset[str]) -> str:
    able = _able(AUTO)
    fit = [backend for backend, capabilities in able.items() if needs <= capabilities]
    if len(fit) == len(able):
        return "yes"
    if fit:
        return f"with --backend {' or '.join(fit)} only"
    lacking = needs - frozenset().union(*able.values())
    reported: dict[str, str] = _room("harness.clusters.choosing").missing()
    reasons = {reported[capability] for capability in lacking if capability in reported}
    why = "; ".join(sorted(reasons)) or f"no backend here has {', '.join(sorted(needs))}"
    return f"no: {why}"


def _able(backend: str) -> dict[str, frozenset[str]]:
    """The capabilities of each backend that a run on it may use."""
    from harness.clusters.choosing import CAPABILITIES, able

    return {name: able(name) for name in CAPABILITIES if backend in (AUTO, name)}


def _room(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as absent:
        raise BadInput(f"this installation lacks {absent.name}; pip install 'kafka-durability[all]'") from None
