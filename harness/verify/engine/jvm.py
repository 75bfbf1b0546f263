"""The parts of Spark that exist only in Java."""

from __future__ import annotations

from py4j.java_gateway import JVMView  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> JVMView:
    """The classes in the Java process of a session."""
    found = spark._jvm
    assert found is not None  # PySpark sets it to None only in `stop`
    return found
