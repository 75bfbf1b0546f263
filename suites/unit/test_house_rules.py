"""House rules that hold for every file: the length of functions, no `Any` but at other libraries, and one tested
release for tox, CI and suites."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path

import pytest

from harness.scenarios import smoke
from suites.attached import by_hand
from suites.gate.cluster_probes import RELEASE

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 70

LONG_FUNCTIONS: dict[str, int] = {}
# Where a library forces `Any`, the import says which one, and how.
ANY_AT_LIBRARY = re.compile(r"^from typing import .*\bAny\b.*  # Any: (\w+) \w+", re.MULTILINE)


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


def undeclared_any(name: str, source: str) -> list[str]:
    """Why a module may not use `Any` as it does; empty if it may, or if it does not."""
    if not uses_of_any(source):
        return []
    if name.startswith("harness/model/"):
        return ["the model has no use for it"]
    library = ANY_AT_LIBRARY.search(source)
    if library is None:
        return ["its import does not say which library forces it: `# Any: library and how`"]
    return [] if library[1] in _libraries() else [f"no file imports the library {library[1]}"]


@cache
def _libraries() -> frozenset[str]:
    """What files of the tree import from outside the tree. Not all of it is installed: PySpark is an extra."""
    nodes = [node for path in _sources() for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    imported = {a.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
    imported |= {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0}
    return frozenset(imported - {"harness", "reports", "fixtures", "suites"} - sys.stdlib_module_names)


@pytest.mark.parametrize("room", ["harness", "reports", "fixtures"])
def test_everything_has_a_type_but_at_other_libraries(room: str) -> None:
    """Documents, rows and facts are records. `Any` is only where another library demands it."""
    sources = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / room).rglob("*.py")}
    assert sources
    found = {name: undeclared_any(name, source) for name, source in sources.items()}
    assert {name: why for name, why in found.items() if why} == {}


@pytest.mark.parametrize(
    ("name", "line", "allowed"),
    [
        ("harness/run/x.py", "from typing import Any, Final  # Any: msgspec gives it", True),
        ("harness/run/x.py", "from typing import Any, Final", False),
        ("harness/run/x.py", "from typing import Any  # Any: msgspec", False),
        ("harness/run/x.py", "from typing import Any  # Any: nobody gives it", False),
        ("harness/model/x.py", "from typing import Any  # Any: msgspec gives it", False),
    ],
)
def test_any_needs_a_library_that_forces_it(name: str, line: str, allowed: bool) -> None:
    assert (undeclared_any(name, f"{line}\nx: Any = 1\n") == []) is allowed
    assert undeclared_any(name, f"{line}\nx: int = 1\n") == []


def test_a_use_of_any_is_found() -> None:
    source = "import typing\nfrom typing import Any\n\ndef f(x: dict[str, Any]) -> typing.Any:\n    pass\n"
    assert uses_of_any(source) == 2


def test_tox_ci_and_suites_test_the_same_release() -> None:
    release = _tox()["tested"]["release"]
    assert release == RELEASE == by_hand.RELEASE
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert set(re.findall(r"--kafka (\S+)", ci)) == {release}


def test_ci_runs_every_environment_of_tox() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    [left_out] = re.findall(r"TOX_SKIP_ENV='([\w|]+)' \.venv/bin/tox run </dev/null", ci)
    later = re.findall(r"\.venv/bin/tox run [^\n]*?-e (\w+)(?: -- [^\n]*--part [^\n]*)? </dev/null", ci)
    # The gate plays the scenarios of smoke too.
    assert set(left_out.split("|")) <= {*later, "smoke"}
    assert re.search(r"tox run [^\n]*-e gate -- (?![^\n]*--only)", ci)
    assert "part_of_today=$(($(date +%-j) % 8 + 1))/8\n" in ci
    in_parts = re.findall(r'-e (\w+) -- [^\n]*--part "\$part_of_today" <', ci)
    assert in_parts == ["planted", "proof", "live", "containers", "disks"]


def _tox() -> ConfigParser:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    return tox


def test_tox_smoke_runs_the_scenarios_with_smoke_set() -> None:
    tox = _tox()
    assert tox["smoke"]["scenarios"].split(",") == sorted(scenario.name for scenario in smoke())
