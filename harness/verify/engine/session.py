"""The one Spark session of a process. Starting it costs about 15 CPU-seconds, so that everything shares it."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any, BinaryIO, Final

from pyspark import java_gateway
from pyspark.sql import SparkSession

from harness.model.errors import BadInput, HarnessFailure
from harness.model.scratch import scratch

MASTER: Final = "local[2, 4]"  # two threads; a task that fails is tried as often as on a cluster, where once is no end
_PR_SET_PDEATHSIG: Final = 1
_REASON: Final = re.compile(r"(?:SparkException|ERROR \w+|^Error): (.+)")

# Small by default: a gate is a million records on two cores. On a cluster, spark-defaults and the master decide.
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    # Tables that are broadcast live beside this share of the heap and count in none: with Spark's own 0.6 the two of
    # them fill the old generation, and what is kept for later goes to disk too late.
    "spark.memory.fraction": "0.4",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Planning is most of the work, and runs each of its paths too seldom for the optimizing compiler to pay: without it
    # a gate takes a fifth less CPU to judge. But Java then keeps room for 48 MiB of compiled code, and plans compile to
    # more: once it is full, whatever needs a new adapter dies of a VirtualMachineError.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m",
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
    if master is not None and not master.strip():
        raise BadInput(f"{master!r} names no Spark master: give one such as spark://host:7077, or leave --master out")
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    chosen = MASTER if master is None else master
    local = chosen.startswith("local")
    builder = SparkSession.builder.appName("durability").master(chosen)
    settings = _ALWAYS | {"spark.sql.warehouse.dir": tempfile.gettempdir() + "/durability-warehouse"}
    if local:
        settings |= _LOCAL
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as words, _apart(words), _bound_to_us(), _swept():
        try:
            return builder.getOrCreate()
        except Exception as error:
            words.seek(0)
            said = words.read().decode("utf-8", "replace").strip().splitlines()
            if master is not None:
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


@contextmanager
def _swept() -> Iterator[None]:
    """PySpark waits for word from its Java in a file under a name that tells nobody whose it was: here it has one."""
    before = tempfile.tempdir
    with scratch("spark") as place:
        tempfile.tempdir = place
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextmanager
def _bound_to_us() -> Iterator[None]:
    """The Java process that is started meanwhile ends when this one does, however that ends.

    By itself it notices only when it has come up: before that, its standard input is not read by anybody. PySpark
    passes no other way in: it overwrites a `preexec_fn` that it is given.
    """
    # The kernel's signal comes when the *thread* that forked ends, and only the main one lasts as long as the process.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        yield
        return
    java_gateway.Popen = _BoundToUs  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        java_gateway.Popen = Popen  # type: ignore[attr-defined]


class _BoundToUs(Popen[bytes]):
    """Kept over each exec of spark-submit, so that bash and the Java it becomes are bound alike."""

    def __init__(self, command: list[str], *, preexec_fn: Callable[[], None], **rest: Any) -> None:
        libc, us = ctypes.CDLL(None, use_errno=True), os.getpid()

        def before_exec() -> None:
            preexec_fn()
            # Not SIGKILL: on every ordinary way out, too, Java has folders of its own to sweep first.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
            if os.getppid() != us:  # it died in between: the signal would never come
                os._exit(1)

        super().__init__(command, preexec_fn=before_exec, **rest)
