"""The one Spark session of a process. It costs about 15 CPU-seconds to start, so everything shares it."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import BinaryIO, Final

import py4j  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from harness.model.errors import BadInput, HarnessFailure
from harness.model.scratch import scratch
from harness.verify.engine.jvm import jvm_of, send_fewer_messages

MASTER: Final = "local[2, 4]"  # two threads; up to four tries for each task, as on a cluster (the local default is one)
_PR_SET_PDEATHSIG: Final = 1
_MAIN_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
_END_S: Final = 30.0
_REASON: Final = re.compile(r"(?:SparkException|ERROR \w+|^Error): (.+)")
# Lines that Spark and Java print at every start; none of them says why it ended.
_EVERY_START: Final = re.compile(r"WARNING: |Setting .*log level|To adjust logging|Using Spark's default|\S+ \S+ WARN ")

# For a gate of a million records on two cores. On a cluster, spark-defaults and the master decide.
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    # Broadcast tables use heap outside this share: with Spark's default of 0.6 both together fill the old generation,
    # and cached frames are written to disk too late.
    "spark.memory.fraction": "0.4",
    # The memory that each sort and each hash table takes first, and there are thousands with few rows. The default is
    # 64 MiB here, filled with zeros. With this value three bundles take 19 % less CPU, and 1.7 GiB instead of 3.1.
    "spark.buffer.pageSize": "256k",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Plans compile to more code than the 48 MiB that Java reserves with its first compiler alone; when they are full,
# anything that needs a new adapter dies with a VirtualMachineError.
# Java lets the heap grow as soon as 1 % of the time goes into collecting it; here from 5 % on.
_JAVA: Final = "-XX:+UseParallelGC -XX:GCTimeRatio=19 -XX:ReservedCodeCacheSize=512m"
# Those that each session on this machine has.
LASTING_FLAGS: Final = f"-Xmx{_LOCAL['spark.driver.memory']} {_JAVA}"
# For a gate planning is most of the work, and runs each code path too seldom for the optimizing compiler to pay:
# without it a gate takes 20 % less CPU to judge. With a smaller young generation 21 bundles take as much CPU as
# without, and 1.4 GiB in place of 2.2.
_FEW_RECORDS: Final = "-XX:TieredStopAtLevel=1 -XX:MaxNewSize=256m"
# With many records the loops over them are most of the work. The optimizing compiler halves their cost, and takes only
# methods that run twenty times as often as by default: the others cost it more than they gain.
_MANY_RECORDS: Final = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000 -XX:MaxNewSize=512m"
)
_MANY_BYTES: Final = 256 << 20  # some ten million records
_ALWAYS: Final = {
    "spark.log.level": "ERROR",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    # Inferred constraints make plans of many joins slow to plan, and break a union of checkpointed frames, which keep
    # constraints on columns that they no longer have.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark keeps the compiled code of 100 stages. The checks have more, so that every judgement compiled all of them.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Spark notes where in Python each column was made, for its messages of errors: a quarter of what Python costs here.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # The short form of the description of each plan, which is for a user interface.
    "spark.sql.ui.explainMode": "simple",
    # A limited read asks all partitions in one job. By default it asks one of them first, alone: see engine/kept.py.
    "spark.sql.limit.initialNumPartitions": "10000",
}


def open_session(
    master: str | None = None, *, size_bytes: int = 0, java_flags: Callable[[], Sequence[str]] = tuple
) -> SparkSession:
    """The session of this process, started when there is none yet; `master` is any Spark master, None = two threads
    here. size_bytes: of the tables to be judged, which decides how Java compiles. java_flags: further ones, asked for
    only when a session is about to start on this machine.

    The caller must set JAVA_HOME. Raises HarnessFailure, with the last lines that the Java process printed, when it
    does not start, and BadInput when the user named the master.
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
        compiler = _MANY_RECORDS if size_bytes >= _MANY_BYTES else _FEW_RECORDS
        settings |= _LOCAL | {"spark.driver.extraJavaOptions": " ".join([_JAVA, compiler, *map(_quoted, java_flags())])}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stderr_in_file(_printed()), _java_ends_with_us(), _temp_files_in_scratch():
        try:
            spark = builder.getOrCreate()
            send_fewer_messages(spark)
            compile_once(spark)
            return spark
        except Exception as error:
            lines = _printed_lines()
            if master is not None:
                raise BadInput(_unusable(master, str(error), lines)) from error
            raise HarnessFailure(
                f"Spark does not start ({error}); its Java process printed: {' / '.join(lines[-3:])}"
            ) from error


def _quoted(flag: str) -> str:
    """A flag of Java as a word of a Spark setting: paths may have spaces."""
    return '"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"'


def ended_java() -> list[str] | None:
    """Ends the Java process of the session and returns its command line, up to the class that it ran; None when there
    is no such process, or it does not end. The session cannot be used afterwards."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.stdin is None:
        return None
    words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
    process.stdin.close()  # Java ends at the end of its standard input
    try:
        process.wait(_END_S)
    except TimeoutExpired:
        return None
    return words[: words.index(_MAIN_CLASS)] if _MAIN_CLASS in words else None


def compile_once(spark: SparkSession) -> None:
    """Lets queries of this thread find the code that tasks have compiled, and tasks that of this thread.

    Spark looks for compiled code by its text and by the class loader of the thread, and the driver compiles the code of
    each stage to see whether that is possible. On a local master tasks run in the same process, with a class loader of
    their own, so that all code was compiled twice. Theirs finds whatever the driver's finds.
    """
    of_java = jvm_of(spark).java.lang
    # Not by its method: Java cannot list the methods of this class without a library that Spark does not bring.
    serializer = of_java.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("serializer")
    serializer.setAccessible(True)
    of_tasks = serializer.get(spark.sparkContext._jsc.sc().env()).defaultClassLoader()
    if of_tasks.isDefined():  # only where tasks run in this process
        of_java.Thread.currentThread().setContextClassLoader(of_tasks.get())


@contextmanager
def java_runs(spark: SparkSession) -> Iterator[None]:
    """Raises HarnessFailure, with the reason, if the Java process of the session ended in this context: then every
    query failed, and none of their errors says why."""
    with _without_logs_of_py4j():
        try:
            yield
        except Exception as error:
            if why := _why_ended(spark):
                raise HarnessFailure(why) from error
            raise
        if why := _why_ended(spark):
            raise HarnessFailure(why)


@contextmanager
def _without_logs_of_py4j() -> Iterator[None]:
    """py4j logs a lost connection, and Ctrl-C, with a traceback to the root logger, so to the user's terminal; then it
    raises the same."""
    root = logging.getLogger()
    folder = str(Path(py4j.__file__).parent)

    def of_others(record: logging.LogRecord) -> bool:
        return not record.pathname.startswith(folder)

    root.addFilter(of_others)
    try:
        yield
    finally:
        root.removeFilter(of_others)


def _why_ended(spark: SparkSession) -> str | None:
    """One sentence; None while the session can be used."""
    try:
        if not spark.sparkContext._jsc.sc().isStopped():
            return None
    except (Py4JError, OSError):
        pass  # nothing answers
    lines = _printed_lines()
    if any("OutOfMemoryError" in line for line in lines):
        return (
            "Spark's Java process ended while it judged, because its memory was full; judge fewer bundles at once, or "
            "name a cluster with --master"
        )
    reasons = [found[1] for line in lines if (found := _REASON.search(line))]
    why = [*lines, *reasons][-1] if lines else "it printed no reason"
    return f"Spark's Java process ended while it judged ({why}); try again"


@cache
def _printed() -> BinaryIO:
    """The file, without a name, for what the Java process prints from its start to its end."""
    return tempfile.TemporaryFile()


def _printed_lines() -> list[str]:
    _printed().seek(0)
    lines = _printed().read().decode("utf-8", "replace").strip().splitlines()
    return [line for line in lines if not _EVERY_START.match(line)]


def _unusable(master: str, error: str, lines: list[str]) -> str:
    """One sentence about a master that gives no session. Spark's own sentence is in its log or in a Java exception."""
    reasons = [found[1] for line in (*error.splitlines(), *lines) if (found := _REASON.search(line))]
    why = reasons[-1] if reasons else error.splitlines()[0]
    return f"no Spark session on {master} ({why.strip().rstrip('.')}); name one that runs, or leave --master out"


@contextmanager
def _stderr_in_file(printed: BinaryIO) -> Iterator[None]:
    """Redirects what the Java process prints (banners, warnings about its modules) to a file, away from the user's
    terminal.

    The process inherits standard error until it ends.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(printed.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


@contextmanager
def _temp_files_in_scratch() -> Iterator[None]:
    """PySpark waits for its Java process through a temporary file without an owner; here it is in a scratch folder,
    which is cleaned up."""
    before = tempfile.tempdir
    with scratch("spark") as place:
        tempfile.tempdir = place
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextmanager
def _java_ends_with_us() -> Iterator[None]:
    """A Java process started in this context ends when this process ends, for any reason.

    Java itself notices only once it runs, because it does not read its standard input before. PySpark offers no other
    hook: it overwrites a `preexec_fn` that it is given.
    """
    # The kernel sends the signal when the *thread* that forked ends, and only the main thread lasts as long as the
    # process.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        yield
        return
    java_gateway.Popen = _EndsWithUs  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        java_gateway.Popen = Popen  # type: ignore[attr-defined]


class _EndsWithUs(Popen[bytes]):
    """Stays in force over each exec of spark-submit, so bash and the Java process that replaces it end with us, too."""

    def __init__(
        self, command: list[str], *, preexec_fn: Callable[[], None], stdin: int, env: Mapping[str, str]
    ) -> None:
        libc, us = ctypes.CDLL(None, use_errno=True), os.getpid()

        def before_exec() -> None:
            preexec_fn()
            # Not SIGKILL: on a normal exit Java has to remove folders of its own.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
            if os.getppid() != us:  # we died in between, so the signal would never come
                os._exit(1)

        super().__init__(command, preexec_fn=before_exec, stdin=stdin, env=env)
