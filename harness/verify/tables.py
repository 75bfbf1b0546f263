"""Tables of the evidence as Spark frames, shared by all bundles of a judgement: each row says whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from harness.model.schemas import TABLES

BUNDLE: Final = "bundle"
PLACE: Final = [BUNDLE, "topic", "topic_id", "partition"]
RECORD: Final = [BUNDLE, "stream", "seq"]

Frames = dict[str, DataFrame]

_TYPES: Final[dict[str, T.DataType]] = {
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "bool": T.BooleanType(),
    "string": T.StringType(),
}


def spark_schema(columns: Mapping[str, str]) -> T.StructType:
    """The Spark schema of columns as harness.model.schemas writes them; everything may be null to Spark."""
    return T.StructType([T.StructField(name, _TYPES[kind.removesuffix("?")]) for name, kind in columns.items()])


def frame(spark: SparkSession, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> DataFrame:
    """A small frame from Python rows: facts of documents, never records. Its first column is the bundle."""
    return spark.createDataFrame(list(rows), spark_schema({BUNDLE: "int32", **columns}))


def read_tables(spark: SparkSession, files: Mapping[str, Mapping[int, Sequence[Path]]]) -> Frames:
    """Frames by table name from the part files of each bundle, by its number. A table without files is empty."""
    return {name: _read(spark, name, files.get(name, {})) for name in TABLES}


def _read(spark: SparkSession, name: str, files: Mapping[int, Sequence[Path]]) -> DataFrame:
    paths = [str(path.resolve()) for parts in files.values() for path in parts]
    if not paths:
        return frame(spark, TABLES[name], [])
    schema = spark_schema(TABLES[name])
    reader = spark.read.schema(schema)
    whole = reader.json(paths) if name == "reservations" else reader.parquet(*paths)
    return whole.withColumn(BUNDLE, _bundle_of(files)).select(BUNDLE, *TABLES[name])


def _bundle_of(files: Mapping[int, Sequence[Path]]) -> Column:
    """The number of the bundle from the file's folder; Spark tells it as a URL."""
    folders = {str(parts[0].resolve().parent): number for number, parts in files.items() if parts}
    numbers = F.create_map([F.lit(x) for folder, number in folders.items() for x in (folder, number)])
    url = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
    path = F.regexp_replace(F.url_decode(url), "^file:/+", "/")
    return numbers[F.regexp_replace(path, "/[^/]*$", "")]
