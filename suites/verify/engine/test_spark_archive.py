"""A session really maps a class-data archive that an earlier command has made, and judges the same with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.evidence import Bundle
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import VERDICT
from harness.verify import judge
from suites.unit.evidence_examples import write_example
from suites.verify.judging import few_queries

ROOT = Path(__file__).parents[3]
# Judges the bundle as a command does, by one check, and prints which files Java has mapped. The first session may make
# the archive.
JUDGES = """
import sys
from pathlib import Path
import pytest
from pyspark import SparkContext
from harness.commands import spark_archive
from harness.commands.afterwards import with_work_afterwards
from harness.commands.verify import judge_bundles
from harness.evidence import Bundle
from suites.verify.judging import few_queries
spark_archive.SESSIONS_BEFORE = 0
def command():
    with pytest.MonkeyPatch.context() as patch:
        few_queries(patch, "lost")
        judge_bundles([Bundle.open(Path(sys.argv[1]))], None, lambda _: None)
    print(Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
    return 1
raise SystemExit(with_work_afterwards(command))
"""


def judged(bundle: Path, cache: Path) -> str:
    """The output of a process that judges the bundle."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", JUDGES, str(bundle)], env=environment, capture_output=True, text=True, timeout=900
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    return done.stdout


def verdict_of(bundle: Path) -> object:
    return json.loads((bundle / VERDICT).read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="the flags of Java are read from /proc")
def test_a_session_with_an_archive_maps_it_and_judges_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    write_example(bundle)
    seal_directory(bundle)
    few_queries(monkeypatch, "lost")
    judge([Bundle.open(bundle)])
    without = verdict_of(bundle)
    cache = tmp_path / 'a "cache" of it\'s own'
    tools = cache / "kafka-durability" / "tools"

    assert str(tools) not in judged(bundle, cache)
    (archive,) = tools.glob("spark-classes-*.jsa")
    assert archive.stat().st_size > 10**7
    (bundle / VERDICT).unlink()
    assert str(archive) in judged(bundle, cache)
    assert verdict_of(bundle) == without

    damaged = bytearray(archive.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    archive.chmod(0o644)
    archive.write_bytes(damaged)
    assert "[cds" not in judged(bundle, cache), "Java's warning is in the answer of the command"
    assert verdict_of(bundle) == without
