"""Inputs of the checks: computed once for all checks, and in parallel with each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from harness.verify.checks.tier.state import Tier, tiers_of
from harness.verify.engine.ack_times import ack_times
from harness.verify.engine.bucket_rows import Drill, drill
from harness.verify.engine.compare import Compared, compare
from harness.verify.engine.fingerprints import drained_buckets, reader_buckets, shown_buckets
from harness.verify.engine.kept import kept
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.session import compile_once
from harness.verify.engine.sessions import Sessions, sessions

# Spark plans a query on one thread, and planning is most of the work: so two queries run at a time.
_AT_A_TIME: Final = 2


class Inputs:
    """The tables, and the frames that most checks start from. A check that asks for a part waits for it, or gets its
    exception. Each part depends only on parts that were submitted before it."""

    def __init__(self, given: Prepared, pool: Executor) -> None:
        self.given = given
        self._tiers = pool.submit(tiers_of, given)
        shown = pool.submit(lambda: shown_buckets(given))
        self._shown = shown
        self._read = pool.submit(lambda: reader_buckets(given, shown.result()))
        self._ack_times = pool.submit(lambda: kept(ack_times(given.groups)))
        self._drained = pool.submit(lambda: kept(drained_buckets(given, shown.result())))
        self._sessions = pool.submit(lambda: sessions(given, shown.result()))
        self._drill = pool.submit(lambda: drill(given, self.drained))
        self._compared = pool.submit(lambda: compare(given, self.read))

    @property
    def tiers(self) -> list[Tier]:
        """The remote tier of each bundle."""
        return self._tiers.result()

    @property
    def shown(self) -> DataFrame:
        """`fingerprints.shown_buckets`."""
        return self._shown.result()

    @property
    def read(self) -> DataFrame:
        """`fingerprints.reader_buckets`."""
        return self._read.result()

    @property
    def ack_times(self) -> DataFrame:
        """`ack_times.ack_times` of the ledger."""
        return self._ack_times.result()

    @property
    def drained(self) -> DataFrame:
        """`fingerprints.drained_buckets`."""
        return self._drained.result()

    @property
    def sessions(self) -> Sessions:
        """What readers received twice or out of order."""
        return self._sessions.result()

    @property
    def drill(self) -> Drill:
        """The ledger compared with the drain."""
        return self._drill.result()

    @property
    def compared(self) -> Compared:
        """Every other reader compared with the drain."""
        return self._compared.result()


@contextmanager
def side_by_side(spark: SparkSession) -> Iterator[Executor]:
    """A pool for queries. An exception, also Ctrl-C, cancels queries that wait and those that run."""
    pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="judge", initializer=compile_once, initargs=(spark,))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        spark.sparkContext.cancelAllJobs()
        raise
    pool.shutdown()
