"""The one Spark session of a process. Starting it costs about 15 CPU-seconds, so that everything shares it."""

from __future__ import annotations

import tempfile
from typing import Final

from pyspark.sql import SparkSession

MASTER: Final = "local[2]"

# Small by default: a gate is a million records on two cores. On a cluster, spark-defaults and the master decide.
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_ALWAYS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def open_session(master: str | None = None) -> SparkSession:
    """The session of this process, started when there is none yet.

    JAVA_HOME is the caller's business. `master` is any Spark master; None means two local threads.
    """
    builder = SparkSession.builder.appName("durability").master(master or MASTER)
    settings = _ALWAYS | {"spark.sql.warehouse.dir": tempfile.gettempdir() + "/durability-warehouse"}
    if (master or MASTER).startswith("local"):
        settings = _LOCAL | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
