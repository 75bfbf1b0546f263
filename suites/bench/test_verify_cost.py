"""CPU seconds of `durability verify` on made bundles, next to a bare Spark scan of the same columns, a full outer join
in Spark and one in DuckDB. Each is a process of its own, so starting Spark counts everywhere.

CPU seconds of all processes decide nothing here: the table is for suites/bench/README.md. What is asserted is that each
planted defect is found, and nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from subprocess import run
from typing import Any, Final

import pytest

from harness.commands.verify import use_fitting_java
from suites.bench.made_bundle import ONE_READER, SEVEN_READERS, Defects, make_bundle

# Sizes in acknowledged records, separated by commas.
SIZES: Final = [int(size) for size in os.environ.get("BENCH_VERIFY_RECORDS", "1200000").split(",")]
VERIFY: Final = ("-c", "from harness.commands.main import main; main()", "verify")
BASELINES: Final = ("scan", "join", "duckdb")
HEADER: Final = "| bundle | records | what | CPU s | wall s | peak MiB | CPU / scan |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Used:
    """Figures of a command and all its descendants; peak: of the largest process."""

    code: int
    cpu_s: float
    wall_s: float
    peak_mib: int


def used_by(*arguments: str) -> Used:
    """The figures of this Python with these arguments."""
    measured = run(
        [sys.executable, "-m", "suites.bench.verify_baselines", "cpu", sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(measured.stdout.splitlines()[-1])
    return Used(**figures)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "readers", "per_million"),
    [
        ("one reader", ONE_READER, 0),
        ("one reader, defects", ONE_READER, 1),
        ("seven readers, defects", SEVEN_READERS, 1),
    ],
)
def test_the_cost_of_judging(
    name: str,
    readers: tuple[Any, ...],
    per_million: int,
    size: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_fitting_java()
    each = max(1, size * per_million // 10**6) if per_million else 0
    defects = Defects(lost=each, duplicated=each, reordered=each)
    bundle = str(make_bundle(tmp_path / "bundle", size, readers=readers, defects=defects))
    baselines = [what for what in BASELINES if what != "duckdb" or importlib.util.find_spec("duckdb")]
    used = {what: used_by("-m", "suites.bench.verify_baselines", what, bundle) for what in baselines}
    assert [what for what, of in used.items() if of.code] == []
    used = {"verify": used_by(*VERIFY, bundle), **used}
    with capsys.disabled():
        print(f"\n{HEADER}")
        for what, of in used.items():
            ratio = of.cpu_s / used["scan"].cpu_s
            print(f"| {name} | {size} | {what} | {of.cpu_s:.1f} | {of.wall_s:.1f} | {of.peak_mib} | {ratio:.2f} |")
    verdict = json.loads((Path(bundle) / "verdict.json").read_text())
    found = Counter[str]()
    for finding in verdict["findings"]:
        found[finding["kind"]] += finding["count"]
    for kind in ("lost", "duplicated", "reordered"):
        assert found[kind] == each, verdict["findings"]
