"""Baselines for the cost of judging: the same columns of a bundle, read and joined by other means.

    python -m suites.bench.verify_baselines scan|join|duckdb BUNDLE
    python -m suites.bench.verify_baselines cpu COMMAND...

`scan` is one aggregate over each of both tables, the least that any judge by Spark has to do. `cpu` runs a command and
prints, as the last line, the figures of it and all its descendants, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

_PR_SET_CHILD_SUBREAPER: Final = 36
_COLUMNS: Final = {
    "ledger": ("stream", "seq", "topic_id", "partition", "outcome", "offset", "called_ns", "returned_ns"),
    "observations": ("reader", "kind", "isolation", "topic_id", "partition", "offset", "stream", "seq", "intact"),
}


def _session() -> SparkSession:
    """A session as anyone would start it, without our settings."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "8").getOrCreate()


def scan(bundle: str) -> None:
    spark = _session()
    for table, columns in _COLUMNS.items():
        names = ", ".join(f"`{column}`" for column in columns)
        print(table, spark.read.parquet(f"{bundle}/{table}").selectExpr(f"bit_xor(xxhash64({names}))").collect())


def join(bundle: str) -> None:
    spark = _session()
    sent = spark.read.parquet(f"{bundle}/ledger").where("outcome = 'acked'").select("stream", "seq", "offset")
    read = spark.read.parquet(f"{bundle}/observations").where("kind = 'drain' AND isolation = 'read_committed'")
    read = read.select("stream", "seq", read["offset"].alias("seen"))
    joined = sent.join(read, ["stream", "seq"], "full_outer")
    print(joined.where("seen IS NULL OR offset IS NULL OR seen <> offset").count())


def duckdb(bundle: str) -> None:
    import duckdb as database

    connection = database.connect()
    connection.execute("SET threads = 2")
    sent = f"SELECT stream, seq, \"offset\" AS reported FROM '{bundle}/ledger/*.parquet' WHERE outcome = 'acked'"
    read = (
        f"SELECT stream, seq, \"offset\" AS seen FROM '{bundle}/observations/*.parquet' "
        "WHERE kind = 'drain' AND isolation = 'read_committed'"
    )
    both = f"SELECT count(*) FROM ({sent}) FULL JOIN ({read}) USING (stream, seq) WHERE reported IS DISTINCT FROM seen"
    print(connection.execute(both).fetchall())


def cpu(command: Sequence[str]) -> None:
    # Java outlives the Python process that started it. Only a subreaper gets its figures.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    code = subprocess.call(command, stdout=sys.stderr)
    wall_s = time.monotonic() - started
    try:
        while True:
            os.wait()
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {"code": code, "wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss >> 10}
    print(json.dumps(figures))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "cpu":
        cpu(rest)
    else:
        {"scan": scan, "join": join, "duckdb": duckdb}[what](rest[0])
