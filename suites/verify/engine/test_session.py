"""The Spark session: refused masters, no Java process that outlives us, and one that ends early."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import py4j  # type: ignore[import-untyped]
import pytest
from pyspark.errors import ArithmeticException

from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.scratch import abandoned
from harness.verify.engine.session import java_runs, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
STARTS = """
from harness.commands.exit_codes import guarded
from harness.verify.engine.session import open_session
raise SystemExit(int(guarded(open_session)))
"""
# Like spark-submit before its Java listens: reads nothing, and is replaced by exec more than once.
SUBMIT = """#!/bin/bash
exec bash -c 'echo $$ > "$SPARK_HOME/pid.tmp"; mv "$SPARK_HOME/pid.tmp" "$SPARK_HOME/pid"; exec sleep 120'
"""
# A session of its own, in which one query is run. The first argument is the query.
QUERIES = """
import sys
from harness.commands.exit_codes import guarded
from harness.verify.engine.session import java_runs, open_session
def main():
    spark = open_session()
    proc = spark.sparkContext._gateway.proc
    with java_runs(spark):
        if sys.argv[1] == "kill":
            proc.kill()
            proc.wait(30)
        spark.sql("SELECT 1" if sys.argv[1] == "kill" else sys.argv[1]).collect()
    return 0
raise SystemExit(int(guarded(main)))
"""


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark that never starts."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, Exit.INTERRUPTED),
        (signal.SIGTERM, Exit.TERMINATED),
        (signal.SIGHUP, Exit.TERMINATED),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_java_ends_with_us_while_spark_starts(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    work = spark_home / "tmp"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    environment = os.environ | {"SPARK_HOME": str(spark_home), "PYTHONPATH": str(ROOT), "TMPDIR": str(work)}
    with subprocess.Popen([sys.executable, "-c", STARTS], env=environment, preexec_fn=_default_signals) as harness:
        java = _pid(spark_home / "pid")
        try:
            assert _runs(java)
            harness.send_signal(number)
            assert harness.wait(30) == code
            assert _ended(java), "the Java process is still running"
            assert set(work.iterdir()) == set(abandoned()), "a file is left that no cleanup removes"
        finally:
            harness.kill()
            if _runs(java):
                os.kill(java, signal.SIGKILL)


def _default_signals() -> None:
    """A runner started with nohup, or in the background of a shell, passes on ignored signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _pid(file: Path) -> int:
    limit_s = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < limit_s, "spark-submit was not called"
        time.sleep(0.05)
    return int(file.read_text())


def _runs(pid: int) -> bool:
    """Whether it runs; a zombie, as in a container without an init process, does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _ended(pid: int) -> bool:
    limit_s = time.monotonic() + 10
    while _runs(pid):
        if time.monotonic() > limit_s:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("kill", "Spark's Java process ended while it judged (it printed no reason); try again"),
        # An array of 16 GB: Java does not even try to fill it.
        (
            "SELECT size(sequence(1, id + 2000000000)) FROM range(1)",
            "Spark's Java process ended while it judged, because its memory was full; judge fewer bundles at once, or "
            "name a cluster with --master",
        ),
    ],
)
def test_a_java_process_that_ends_is_named_once(query: str, said: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", QUERIES, query], env=environment, capture_output=True, timeout=120)
    assert done.returncode == Exit.HARNESS
    assert said in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1


def test_py4j_logs_no_tracebacks(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """As it does if the connection is reset, or at Ctrl-C."""
    root, of_py4j = logging.getLogger(), str(Path(py4j.__file__).with_name("java_gateway.py"))
    with java_runs(spark):
        for pathname in (of_py4j, __file__):
            root.handle(logging.makeLogRecord({"msg": "lost", "levelno": logging.ERROR, "pathname": pathname}))
    assert [record.pathname for record in caplog.records] == [__file__]


def test_a_query_that_fails_is_no_end_of_java(spark: SparkSession) -> None:
    with pytest.raises(ArithmeticException), java_runs(spark):
        spark.sql("SELECT 1 / (id - id) FROM range(1)").collect()
    with java_runs(spark):
        assert spark.sql("SELECT 1").count() == 1


@pytest.mark.parametrize("master", ["", " "])
def test_an_empty_master_is_refused(master: str) -> None:
    with pytest.raises(BadInput, match=r"names no Spark master: give one such as spark://host:7077, or leave --master"):
        open_session(master)


# Another master than one on this machine. The script has neither Spark nor Java.
ELSEWHERE = """
from harness.commands.exit_codes import guarded
from harness.verify.engine.session import open_session
def flags():
    print("asked")
    return ()
raise SystemExit(int(guarded(lambda: open_session(MASTER, java_flags=flags))))
"""


@pytest.mark.parametrize(
    ("master", "asked"), [("'spark://host:7077'", ""), ("'local[1]'", "asked\n"), ("None", "asked\n")]
)
def test_only_a_session_on_this_machine_asks_for_flags_of_java(spark_home: Path, master: str, asked: str) -> None:
    (spark_home / "bin" / "spark-submit").write_text("#!/bin/sh\nexit 1\n")
    environment = os.environ | {"SPARK_HOME": str(spark_home), "PYTHONPATH": str(ROOT), "TMPDIR": str(spark_home)}
    code = ELSEWHERE.replace("MASTER", master)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == asked
    assert done.returncode == (Exit.HARNESS if master == "None" else Exit.USAGE)


def test_java_has_room_for_compiled_plans(spark: SparkSession) -> None:
    """Judging a few hundred bundles at once fills 48 MiB; a Java without room for code throws at random places."""
    assert spark._jvm is not None
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room_bytes = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room_bytes >= 240 << 20
