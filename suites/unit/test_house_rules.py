"""House rules that hold for every file: the length of functions, no `Any` where the judge reads, and one tested release
for tox, CI and suites."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from harness.scenarios import smoke
from suites.gate.cluster_probes import RELEASE

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 70

LONG_FUNCTIONS: dict[str, int] = {}
# The rooms in which everything has a type, and how often each module uses `Any` for another library.
TYPED_ROOMS = ("harness/model", "harness/verify")
ANY_AT_LIBRARIES = {"harness/verify/engine/session.py": 1}  # arguments that py4j passes on to Popen


def long_functions(source: str) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions that are longer than FUNCTION_LINES_MAX."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield node.name, length


def _sources() -> list[Path]:
    return sorted(p for layer in ("harness", "reports", "fixtures", "suites") for p in (ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_functions_stay_short(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    too_long = {f"{name}:{function}": length for function, length in long_functions(source)}
    assert {n: length for n, length in too_long.items() if length > LONG_FUNCTIONS.get(n, FUNCTION_LINES_MAX)} == {}


def test_the_list_of_long_functions_only_shrinks() -> None:
    """An exception leaves the list when its function fits, and its length there is the current one."""
    files = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in _sources()}
    found = {f"{name}:{f}": length for name, source in files.items() for f, length in long_functions(source)}
    assert {n: found.get(n) for n in LONG_FUNCTIONS} == LONG_FUNCTIONS


def test_a_long_function_is_found() -> None:
    source = "def short():\n    pass\n\ndef long():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
    assert list(long_functions(source)) == [("long", FUNCTION_LINES_MAX + 1)]


def uses_of_any(source: str) -> int:
    """How often a module uses typing.Any; its import does not count."""
    nodes = list(ast.walk(ast.parse(source)))
    return sum(isinstance(n, ast.Name) and n.id == "Any" for n in nodes) + sum(
        isinstance(n, ast.Attribute) and n.attr == "Any" for n in nodes
    )


def test_what_is_judged_is_typed() -> None:
    """Documents, rows and facts are records. `Any` is only where another library demands it."""
    files = (p for room in TYPED_ROOMS for p in (ROOT / room).rglob("*.py"))
    found = {p.relative_to(ROOT).as_posix(): uses_of_any(p.read_text(encoding="utf-8")) for p in files}
    assert {name: uses for name, uses in found.items() if uses} == ANY_AT_LIBRARIES


def test_a_use_of_any_is_found() -> None:
    source = "import typing\nfrom typing import Any\n\ndef f(x: dict[str, Any]) -> typing.Any:\n    pass\n"
    assert uses_of_any(source) == 2


def test_tox_ci_and_suites_test_the_same_release() -> None:
    release = _tox()["tested"]["release"]
    assert release == RELEASE
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert set(re.findall(r"--kafka (\S+)", ci)) == {release}


def test_ci_runs_every_environment_of_tox() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    [left_out] = re.findall(r"TOX_SKIP_ENV='([\w|]+)' \.venv/bin/tox run </dev/null", ci)
    later = re.findall(r"\.venv/bin/tox run (?:--skip-pkg-install )?-e (\w+) </dev/null", ci)
    # The gate plays the scenarios of smoke too.
    assert set(left_out.split("|")) <= {*later, "smoke"}
    assert re.search(r"tox run [^\n]*-e gate -- (?![^\n]*--only)", ci)


def _tox() -> ConfigParser:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    return tox


def test_tox_smoke_runs_the_scenarios_with_smoke_set() -> None:
    tox = _tox()
    assert tox["smoke"]["scenarios"].split(",") == sorted(scenario.name for scenario in smoke())
