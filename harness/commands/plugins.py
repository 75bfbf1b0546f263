"""Plugins: loads the faults, scenarios and checks of folders outside the tree, for as long as one command runs.

    DIR/faults/NAME.py              classes that derive from Fault or Action, as in harness/faults
    DIR/scenarios/NAME.toml         one scenario, as in harness/scenarios
    DIR/checks/NAME/__init__.py     one check with its `CHECK`, as in harness/verify/checks

A plugin is loaded as a whole or refused: a part that is silently missing would be a promise that nothing checks.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Final

from harness import scenarios
from harness.clusters.choosing import CAPABILITIES
from harness.evidence.manifest import digest
from harness.faults.steps import registry
from harness.faults.steps.step import Kind, is_disturbance, registered, unregister
from harness.model.errors import BadInput
from harness.model.finding import OwnKind, kinds, with_kinds
from harness.model.hints import hint
from harness.model.plugin import Plugin, activated
from harness.model.scenario.scenario import Scenario

FAULTS: Final = "faults"
SCENARIOS: Final = "scenarios"
CHECKS: Final = "checks"
_FOLDERS: Final = (FAULTS, SCENARIOS, CHECKS)
_PACKAGE: Final = "durability_plugins"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_NOT_READ: Final = ("__pycache__",)


@contextmanager
def loaded(folders: Sequence[Path]) -> Iterator[None]:
    """The plugins in these folders are part of the harness inside. BadInput, and nothing is left, if one is refused."""
    chosen = list(dict.fromkeys(folder.resolve() for folder in folders))
    with ExitStack() as stack:
        if chosen:
            stack.enter_context(_importing())
        plugins = [_loaded(_layout(folder), chosen, stack) for folder in chosen]
        stack.enter_context(activated(plugins))
        yield


@contextmanager
def _importing() -> Iterator[None]:
    """Modules of plugins may be imported inside, and are forgotten afterwards. No bytecode is written beside them."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    importlib.invalidate_caches()
    _package(_PACKAGE, None)
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        unregister(_PACKAGE)
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]


class _Layout:
    """The files of one plugin, each of the expected form. BadInput, in one sentence, for a folder with others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults = self._entries(FAULTS, lambda p: p.suffix == ".py" and p.is_file(), "one file NAME.py a fault")
        self.scenarios = self._entries(
            SCENARIOS, lambda p: p.suffix == ".toml" and p.is_file(), "one file NAME.toml a scenario"
        )
        self.checks = self._entries(
            CHECKS, lambda p: (p / "__init__.py").is_file(), "one folder NAME/__init__.py a check"
        )
        if not (self.faults or self.scenarios or self.checks):
            raise BadInput(
                f"--plugins {folder} has no faults/*.py, no scenarios/*.toml and no checks/*/__init__.py; give the "
                "folder above them"
            )
        for path in (*self.faults, *self.scenarios, *self.checks):
            if not _NAME.fullmatch(path.stem.removeprefix("_")):
                raise BadInput(f"{path}: its name may only have a-z, 0-9 and _, and begins with a letter; rename it")

    def _entries(self, name: str, fits: Callable[[Path], bool], form: str) -> list[Path]:
        """The entries of a folder of the plugin, all of one form. Notes and hidden files may be beside them."""
        folder = self.folder / name
        if os.path.lexists(folder) and not folder.is_dir():
            raise BadInput(f"{folder} would be ignored, because it is no folder; make it one, or rename it")
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        entries = [p for p in found if p.name not in _NOT_READ and not p.name.startswith(".") and p.suffix != ".md"]
        if strange := [path for path in entries if not fits(path)]:
            raise BadInput(f"{strange[0]} would be ignored: {name}/ has {form}; move or rename it")
        return entries

    def files(self) -> list[Path]:
        """Every file that decides what the plugin does."""
        below = [path for check in self.checks for path in sorted(check.rglob("*")) if path.is_file()]
        return [*self.faults, *self.scenarios, *(p for p in below if not set(_NOT_READ) & set(p.parts))]


def _layout(folder: Path) -> _Layout:
    if not folder.is_dir():
        raise BadInput(f"--plugins {folder} is no folder; give one with faults/, scenarios/ or checks/ in it")
    try:
        for entry in folder.iterdir():
            meant = get_close_matches(entry.name, _FOLDERS, n=1, cutoff=0.75)
            if entry.is_dir() and meant and entry.name not in _FOLDERS:
                raise BadInput(f"{entry} would be ignored; rename it to {meant[0]}, or to something else")
        return _Layout(folder)
    except OSError as refused:
        raise BadInput(f"--plugins {folder} cannot be read ({refused.strerror}); give one that you may read") from None


def _loaded(layout: _Layout, chosen: Sequence[Path], stack: ExitStack) -> Plugin:
    """Faults first, because scenarios use them; then checks, because scenarios may expect their findings."""
    name = layout.folder.name
    if others := [folder for folder in chosen if folder.name == name and folder != layout.folder]:
        raise BadInput(f"two plugins are called {name}: {layout.folder} and {others[0]}; rename one of the folders")
    package = f"{_PACKAGE}.{re.sub(r'[^0-9A-Za-z_]', '_', name)}"
    _package(package, layout.folder)
    faults = _faults(layout, package)
    stack.enter_context(registry.with_kinds(faults))
    plugin = _checks(layout, package, stack) if layout.checks else Plugin(name=name, folder=layout.folder, files={})
    own = _scenarios(layout)
    stack.enter_context(scenarios.with_scenarios(own))
    files = {path.relative_to(layout.folder).as_posix(): digest(path) for path in layout.files()}
    return Plugin(
        name=name,
        folder=layout.folder,
        files=files,
        faults=tuple(kind.do for kind in faults),
        scenarios=tuple(own),
        checks=plugin.checks,
        kinds=plugin.kinds,
        queries=plugin.queries,
    )


def _package(name: str, folder: Path | None) -> None:
    """A package without a file of its own, in which the import system finds the modules of a folder."""
    module = ModuleType(name)
    module.__path__ = [str(folder)] if folder else []
    sys.modules[name] = module


def _imported(name: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except SyntaxError as wrong:
        where = f"line {wrong.lineno} of {wrong.filename}" if wrong.filename else "it"
        raise BadInput(f"{path}: {where} is not Python ({wrong.msg}); correct it") from None
    except (Exception, SystemExit) as wrong:  # a plugin may raise anything
        said = next(iter(str(wrong).strip().splitlines()), "")
        raise BadInput(f"{path} cannot be imported ({type(wrong).__name__}: {said}); correct it") from None


def _faults(layout: _Layout, package: str) -> list[type[Kind]]:
    _package(f"{package}.{FAULTS}", layout.folder / FAULTS)
    found: list[type[Kind]] = []
    for path in layout.faults:
        module = _imported(f"{package}.{FAULTS}.{path.stem}", path)
        own = [kind for kind in registered().values() if kind.__module__ == module.__name__]
        if not own and not path.stem.startswith("_"):
            raise BadInput(
                f"{path} declares no kind of step; derive a class with a `do` from Fault or Action, or begin the name "
                "of the file with _ if it only helps others"
            )
        for kind in own:
            if inspect.isabstract(kind):
                lacks = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
                raise BadInput(f"{path}: {kind.__name__} does not define {lacks}; add it")
            _check_declaration(kind, path)
        found += own
    return found


def _check_declaration(kind: type[Kind], path: Path) -> None:
    """BadInput for a kind of step without a text that the lists show, or with a capability that no backend has."""
    if not kind.summary:
        raise BadInput(f"{path}: {kind.__name__} has no summary; write in one sentence what it does")
    if is_disturbance(kind) and not kind.proof:
        raise BadInput(f"{path}: {kind.__name__} has no proof; write what proves that it had an effect")
    known = frozenset().union(*CAPABILITIES.values())
    if unknown := sorted(kind.needs - known):
        raise BadInput(f"{path}: {kind.__name__} needs {unknown[0]!r}, which no backend has{hint(unknown[0], known)}")


def _checks(layout: _Layout, package: str, stack: ExitStack) -> Plugin:
    """The part of the plugin that is about checks. It needs PySpark, as judging does."""
    try:
        from harness.verify import registry as checks
        from harness.verify.engine.rows import NOT_FINDINGS
        from harness.verify.promise import declare, withdraw
    except ModuleNotFoundError as absent:
        raise BadInput(f"checks of a plugin need {absent.name}: pip install 'kafka-durability[spark]'") from None
    _package(f"{package}.{CHECKS}", layout.folder / CHECKS)
    promises: dict[str, str] = {}
    introduced: dict[str, OwnKind] = {}
    queries: list[str] = []
    for path in layout.checks:
        file = path / "__init__.py"
        check = checks.check_in(_imported(f"{package}.{CHECKS}.{path.name}", file))
        if check is None:
            raise BadInput(f"{file} declares no check; give it a CHECK = Check(...)")
        if not check.can_find:
            raise BadInput(f"{file}: its CHECK has no queries and adds nothing, so it would find nothing; add one")
        own = [kind for kind in check.kinds if isinstance(kind, OwnKind)]
        _check_kinds(own, file, NOT_FINDINGS)
        try:
            declare(path.name, check)
        except ValueError as contradiction:
            raise BadInput(f"{file}: {contradiction}") from None
        stack.callback(withdraw, path.name)
        stack.enter_context(with_kinds(own))
        promises[path.name] = check.promise
        introduced |= {kind.value: kind for kind in own}
        queries += check.readers
    meanings = {word: kind.meaning for word, kind in introduced.items()}
    return Plugin(
        name=layout.folder.name, folder=layout.folder, files={}, checks=promises, kinds=meanings, queries=tuple(queries)
    )


def _check_kinds(own: Sequence[OwnKind], file: Path, no_findings: Sequence[str]) -> None:
    """BadInput for a kind with a name that others have. no_findings: words of rows that are notes and doubts."""
    for kind in own:
        if not _NAME.fullmatch(kind):
            raise BadInput(f"{file}: the kind {kind.value!r} may only have a-z, 0-9 and _; rename it")
        if not kind.meaning:
            raise BadInput(f"{file}: the kind {kind} has no meaning; write OwnKind(name, meaning)")
        if kind.value in no_findings or kind in kinds():
            raise BadInput(f"{file}: there already is a kind of finding {kind.value!r}; rename this one")


def _scenarios(layout: _Layout) -> dict[str, Scenario]:
    found: dict[str, Scenario] = {}
    for path in layout.scenarios:
        if path.stem in scenarios.every():
            raise BadInput(f"{path}: there already is a scenario {path.stem!r}; rename this file")
        found[path.stem] = scenarios.of_file(path, str(path))
    return found
