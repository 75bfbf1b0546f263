"""Names and columns are asked for once, and lists arrive whole and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from harness.verify.engine.jvm import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELEASES = "m\n"  # of objects that Python no longer uses; when they are sent is up to its garbage collector


@pytest.fixture
def sent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages to Java, without releases of objects."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    client = type(gateway._gateway_client)
    messages: list[str] = []
    send = client.send_command

    def recorded(self: GatewayClient, command: str, *arguments: object, **named: object) -> object:
        if not command.startswith(RELEASES):
            messages.append(command)
        return send(self, command, *arguments, **named)

    monkeypatch.setattr(client, "send_command", recorded)
    return messages


def test_names_are_looked_up_once(spark: SparkSession, sent: list[str]) -> None:
    def classes() -> list[object]:
        return [jvm_of(spark).java.util.TreeSet, jvm_of(spark).java.lang.Math.abs]

    first = classes()
    assert sent
    sent.clear()
    assert all(one is other for one, other in zip(first, classes(), strict=True))
    assert sent == []
    assert jvm_of(spark).java.lang.Math.abs(-3) == 3
    assert len(sent) == 1


def test_a_column_of_a_name_is_made_once(spark: SparkSession, sent: list[str]) -> None:
    F.col("there_is_no_other_like_this")
    sent.clear()
    F.col("there_is_no_other_like_this")
    assert sent == []
    assert spark.range(3).where((F.col("id") > 0) & (F.col("id") < 2)).collect() == [(1,)]


def test_a_value_is_asked_for_each_time(spark: SparkSession, sent: list[str]) -> None:
    system = jvm_of(spark).java.io.File
    assert system.separator == "/"
    sent.clear()
    assert system.separator == "/"
    assert len(sent) == 1


@pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 35])
def test_a_list_arrives_whole_and_in_order(spark: SparkSession, sent: list[str], count: int) -> None:
    columns = [F.lit(number).alias(f"c{number}") for number in range(count)]
    one = spark.range(1)
    sent.clear()
    row = one.select(*columns)
    assert len(sent) <= 3 + 2 * -(-count // 10)
    assert row.columns == [f"c{number}" for number in range(count)]
    assert row.first() == tuple(range(count))
    texts = [f"c{number}" for number in range(count)]
    assert row.join(row, texts).select(*texts).first() == tuple(range(count))


def test_other_lists_are_those_of_py4j(spark: SparkSession) -> None:
    to_seq = jvm_of(spark).PythonUtils.toSeq
    assert to_seq([]).size() == 0
    mixed = to_seq([1, "two", None])
    assert [mixed.apply(at) for at in range(mixed.size())] == [1, "two", None]


def test_what_is_not_in_java_is_still_an_error(spark: SparkSession) -> None:
    for _ in range(2):
        with pytest.raises(Py4JError):
            _ = jvm_of(spark).java.lang.Math.there_is_no_such_method
