"""Tables of the evidence as Spark frames, one for all bundles of a judgement; each row has the number of its bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from harness.model.errors import BadEvidence
from harness.model.schemas import INT64_LIMIT, TABLES
from harness.verify.engine.case import COMMITTED
from harness.verify.engine.joined import join, worth_joining
from harness.verify.engine.jvm import jvm_of

BUNDLE: Final = "bundle"
PLACE: Final = [BUNDLE, "topic", "topic_id", "partition"]
RECORD: Final = [BUNDLE, "stream", "seq"]
# The `kind` of an observation as it is in the file.
RECORDED: Final = "recorded"
# In place of the kind of observations that another read of a leader made after healing than the drain.
OTHER_DRAIN: Final = "other drain"
# An offset or time (ns) beyond all others, with room to add something to it.
UNBOUNDED: Final = 2**62

Frames = dict[str, DataFrame]
Value = str | int | bool | None  # of a column
Values = tuple[Value, ...]  # of a row

_TYPES: Final[dict[str, T.DataType]] = {
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "bool": T.BooleanType(),
    "string": T.StringType(),
}


def is_committed() -> Column:
    """Whether an observation is from a read_committed reader."""
    return F.col("isolation") == COMMITTED


def is_drain() -> Column:
    """Whether an observation of `Prepared.observations` is from the drain. By the column of the file, so that Spark
    skips the files of other readers."""
    return F.col(RECORDED) == "drain"


def is_live() -> Column:
    """The same for a live reader, or a read from an arbitrary offset."""
    return F.col(RECORDED).isin("live", "probe")


def spark_schema(columns: Mapping[str, str]) -> T.StructType:
    """The Spark schema of columns as in harness.model.schemas; every column is nullable for Spark."""
    return T.StructType([T.StructField(name, _TYPES[kind.removesuffix("?")]) for name, kind in columns.items()])


def frame(spark: SparkSession, columns: Mapping[str, str], rows: Iterable[Sequence[Value]]) -> DataFrame:
    """A small frame from Python rows: facts from documents, never records. The first column is the bundle. BadEvidence
    for an integer beyond 64 bits, which Spark would have to replace by null.

    The rows are constants of the query: createDataFrame would start Python workers, and the optimizer would not know
    that most of these frames are empty.
    """
    schema = spark_schema({BUNDLE: "int32", **columns})
    lines = [f"({', '.join(_literal(value) for value in row)})" for row in rows]
    if not lines:
        return _without_rows(spark, schema)
    names = ", ".join(f"`{name}`" for name in schema.names)
    typed = [f"CAST(`{field.name}` AS {field.dataType.simpleString()}) AS `{field.name}`" for field in schema]
    return spark.sql(f"SELECT {', '.join(typed)} FROM VALUES {', '.join(lines)} AS facts({names})")


def _without_rows(spark: SparkSession, schema: T.StructType) -> DataFrame:
    """A frame that everyone can see to be empty, without a query."""
    session = spark._jsparkSession
    rows = session.createDataFrame(jvm_of(spark).java.util.ArrayList(), session.parseDataType(schema.json()))
    return DataFrame(rows, spark)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        if abs(value) >= INT64_LIMIT:  # as NULL it would mean "unknown" or "any"
            raise BadEvidence(f"the evidence has the number {value}, which does not fit into 64 bits; correct it")
        return f"{value}L"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    raise TypeError(f"a frame of facts cannot hold a {type(value).__name__}")


def read_tables(spark: SparkSession, files: Mapping[str, Mapping[int, Sequence[Path]]], scratch: Path) -> Frames:
    """Frames by table name from the part files of each bundle, by its number. A table without files is empty.

    `scratch`, a folder that stays as long as the frames are used, gets links to the files, or their rows in one file.
    """
    return {name: _read(spark, name, files.get(name, {}), scratch / name) for name in TABLES}


def _read(spark: SparkSession, name: str, files: Mapping[int, Sequence[Path]], links: Path) -> DataFrame:
    """One scan over the files of all bundles. Where they are not joined, the bundle's number is a partition column,
    which costs nothing for each row."""
    if not any(files.values()):
        return frame(spark, TABLES[name], [])
    schema = spark_schema({**TABLES[name], BUNDLE: "int32"})
    reader = spark.read.schema(schema)
    if (spark.sparkContext.master or "").startswith("local"):
        if name != "reservations" and worth_joining(files):
            joined = links.with_suffix(".parquet")
            join(files, name, BUNDLE, joined)
            return reader.parquet(str(joined)).select(BUNDLE, *TABLES[name])
        for number, parts in files.items():
            folder = links / f"{BUNDLE}={number}"
            folder.mkdir(parents=True)
            for nth, part in enumerate(parts):
                (folder / f"{nth}{part.suffix}").symlink_to(part.resolve())
        return _parts(reader, name, [str(links)]).select(BUNDLE, *TABLES[name])
    # On a cluster the workers see the bundles, but not our links.
    bundles = [
        _parts(reader, name, [str(part.resolve()) for part in parts]).withColumn(BUNDLE, F.lit(number))
        for number, parts in files.items()
        if parts
    ]
    return reduce(DataFrame.unionByName, bundles).select(BUNDLE, *TABLES[name])


def _parts(reader: DataFrameReader, name: str, paths: list[str]) -> DataFrame:
    return reader.json(paths) if name == "reservations" else reader.parquet(*paths)
