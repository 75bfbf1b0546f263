"""The one Spark session of a process. Starting it costs about 15 CPU-seconds, so that everything shares it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from pyspark.sql import SparkSession

from harness.model.errors import BadInput, HarnessFailure

MASTER: Final = "local[2]"
_REASON: Final = re.compile(r"(?:SparkException|ERROR \w+|^Error): (.+)")

# Small by default: a gate is a million records on two cores. On a cluster, spark-defaults and the master decide.
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Planning is most of the work, and runs each of its paths too seldom for the optimizing compiler to pay: without it
    # a gate takes a fifth less CPU to judge.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
}
_ALWAYS: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    # Inferred constraints make plans of many joins slow to plan, and a union of checkpointed frames break: a frame that
    # was cut off keeps constraints on columns that it no longer has.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def open_session(master: str | None = None) -> SparkSession:
    """The session of this process, started when there is none yet; `master` is any Spark master, None two threads here.

    JAVA_HOME is the caller's business. Raises HarnessFailure, with the last words of the Java process, when it does
    not start, and BadInput when that was asked of a master.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    local = (master or MASTER).startswith("local")
    builder = SparkSession.builder.appName("durability").master(master or MASTER)
    settings = _ALWAYS | {"spark.sql.warehouse.dir": tempfile.gettempdir() + "/durability-warehouse"}
    if local:
        settings |= _LOCAL
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as words, _apart(words):
        try:
            return builder.getOrCreate()
        except Exception as error:
            words.seek(0)
            said = words.read().decode("utf-8", "replace").strip().splitlines()
            if master:
                raise BadInput(_unfit(master, str(error), said)) from error
            raise HarnessFailure(f"Spark does not start ({error}); its Java said: {' / '.join(said[-3:])}") from error


def _unfit(master: str, error: str, said: list[str]) -> str:
    """One sentence on a master that gives no session: Spark's own is in its log, or in the exception of its Java."""
    reasons = [found[1] for line in (*error.splitlines(), *said) if (found := _REASON.search(line))]
    why = reasons[-1] if reasons else error.splitlines()[0]
    return f"no Spark session on {master} ({why.strip().rstrip('.')}); name one that runs, or leave --master out"


@contextmanager
def _apart(words: BinaryIO) -> Iterator[None]:
    """Keeps what the Java process prints (banners, warnings on its modules) in a file, off the user's terminal.

    It inherits standard error for good; what matters later reaches us as exceptions.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(words.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
