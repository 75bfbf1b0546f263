"""CPU seconds of `durability verify` with and without a class-data archive for Spark, and of making it.

Commands with and without it alternate, each pair beside a bare scan of the same columns. What is asserted is that the
archive is made and changes no verdict.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from harness.commands.spark_archive import SESSIONS_BEFORE
from harness.commands.verify import use_fitting_java
from harness.evidence.verdicts import read_verdict
from suites.bench.made_bundle import ONE_READER, make_bundle
from suites.bench.test_verify_cost import SIZES, VERIFY, Used, used_by

PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "3"))
HEADER: Final = "| records | what | CPU s | wall s | peak MiB | CPU / scan |\n|---|---|---|---|---|---|"


@pytest.mark.parametrize("size", SIZES)
def test_the_cost_of_judging_with_a_class_data_archive(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle(tmp_path / "bundle", size, readers=ONE_READER)

    def judged(cache: Path) -> Used:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        return used_by(*VERIFY, str(bundle))

    def row(what: str, used: Used, scan: Used | None = None) -> str:
        ratio = "" if scan is None else f"{used.cpu_s / scan.cpu_s:.2f}"
        return f"| {size} | {what} | {used.cpu_s:.1f} | {used.wall_s:.1f} | {used.peak_mib} | {ratio} |"

    rows = [row("without", judged(tmp_path / "with"))]
    verdict = read_verdict(bundle)
    (count,) = tmp_path.glob("with/kafka-durability/tools/spark-classes-*.sessions")
    count.write_bytes(b"." * SESSIONS_BEFORE)
    rows.append(row("without, and the archive is made", judged(tmp_path / "with")))
    assert count.with_suffix(".jsa").stat().st_size > 0
    use_fitting_java()
    for pair in range(PAIRS):
        scan = used_by("-m", "suites.bench.verify_baselines", "scan", str(bundle))
        without, with_it = judged(tmp_path / f"without-{pair}"), judged(tmp_path / "with")
        rows += [row("scan", scan, scan), row("without", without, scan), row("with", with_it, scan)]
    with capsys.disabled():
        print("", HEADER, *rows, sep="\n")
    assert read_verdict(bundle) == verdict
