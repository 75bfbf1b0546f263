"""The directions of imports between rooms, checked for every import, also those inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = {
    "harness": {"harness"},
    "reports": {"reports", "harness"},
    "fixtures": {"fixtures", "reports", "harness"},
    "suites": {"suites", "fixtures", "reports", "harness"},
}
REPORTS_SEE = {"harness.model", "harness.evidence"}
# The modules where the harness meets what it shows: commands print and write pages, one writes the matrix in Markdown.
SEE_REPORTS = {
    "harness.commands.cli",
    "harness.commands.compare",
    "harness.commands.docs",
    "harness.commands.history",
    "harness.commands.output",
}

_BASE = {"model", "evidence", "kafka", "clusters"}
# Room -> the other rooms that it may import. A new room needs a line here, and so a decision.
ROOMS: dict[str, set[str]] = {
    "model": set(),
    "evidence": {"model"},
    "kafka": {"model"},
    "audit": {"model", "kafka"},
    "clusters": {"model", "evidence", "kafka"},
    "faults": _BASE,
    "workload": _BASE,
    "scenarios": {"model", "faults"},
    "verify": {"model", "evidence"},
    "run": {*_BASE, "faults", "workload", "scenarios", "audit"},
    "chaos": {*_BASE, "faults", "scenarios"},
}
ROOMS["commands"] = {*ROOMS}

MUST_NOT_NEED = {"pytest", "allure", "_pytest"}


def imported(source: str, package: str = "") -> Iterator[str]:
    """Full names of all imports of a module; `from a import b` counts as a and as a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_call(node):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _is_import_call(node: ast.Call) -> bool:
    """Whether a call is importlib.import_module("...") or a lazy loader that wraps it (`_room`)."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in {"import_module", "__import__", "_room"}


def wrong_imports(module: str, source: str, package: str = "") -> set[str]:
    """Imports of `module` that the tables above do not allow."""
    layer = module.split(".")[0]
    names = set(imported(source, package))
    wrong = {name for name in names if name.split(".")[0] in LAYERS.keys() - LAYERS[layer]}
    if module in SEE_REPORTS:
        wrong = {name for name in wrong if name.split(".")[0] != "reports"}
    if layer == "reports":
        wrong |= {n for n in names if n.startswith("harness.") and ".".join(n.split(".")[:2]) not in REPORTS_SEE}
    if layer == "harness":
        wrong |= {name for name in names if name.split(".")[0] in MUST_NOT_NEED}
        wrong |= {name for name in names if not _allowed_room(module, name)}
    return wrong


def _allowed_room(module: str, name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "harness" or len(parts) < 2 or len(module.split(".")) < 2:
        return True
    own, other = module.split(".")[1], parts[1]
    if own not in ROOMS:
        return False
    return other == own or other in ROOMS[own]


def _modules() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_imports_follow_the_allowed_directions(path: Path) -> None:
    module = _name(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    assert wrong_imports(module, path.read_text(encoding="utf-8"), package) == set()


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("harness.verify.judge", "from harness.clusters import base", {"harness.clusters", "harness.clusters.base"}),
        ("harness.model.finding", "import harness.evidence", {"harness.evidence"}),
        ("harness.faults.nodes.kill", "def f():\n    from harness.run import x", {"harness.run", "harness.run.x"}),
        ("harness.workload.drain.drain", "import pytest", {"pytest"}),
        ("harness.evidence.bundle", "from reports import show", {"reports", "reports.show"}),
        ("harness.kafka.cache", "from ..clusters import base", {"harness.clusters", "harness.clusters.base"}),
        ("harness.kafka.cache", "import importlib\nimportlib.import_module('harness.run')", {"harness.run"}),
        ("harness.run.recovery", "from harness.verify import x", {"harness.verify", "harness.verify.x"}),
        ("reports.summary", "from harness.verify import judge", {"harness.verify", "harness.verify.judge"}),
        ("reports.summary", "import suites", {"suites"}),
        ("fixtures.plugin", "import suites.unit", {"suites.unit"}),
        ("harness.commands.cli", "import reports", set()),
        ("harness.new_room.x", "from harness.model import errors", {"harness.model", "harness.model.errors"}),
        ("harness.verify.judge", "from harness.evidence import Bundle\nfrom harness.verify import x", set()),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str, wrong: set[str]) -> None:
    assert wrong_imports(module, source, module.rpartition(".")[0]) == wrong
