"""Failed tries of a batch from the lines that librdkafka 2.16.1 logs with debug = msg."""

from __future__ import annotations

import time
from typing import Any, cast

import confluent_kafka
import pytest

from harness.evidence.writer import TableWriter
from harness.workload.producers.failed_tries import SETTINGS, FailedTries

AT = "[thrd:127.0.0.1:40703/3]: 127.0.0.1:40703/3: a.b-c [0]: "
MADE = "Produce MessageSet with 4 message(s) (141 bytes, ApiVersion 10, MsgVersion 2, MsgId 5, BaseSeq 4, {}, lz4)"
GAP = "Broker: Broker received an out of order sequence number"
FAILED = "MessageSet with 4 message(s) (MsgId 5, BaseSeq 4) encountered error: {} (actions Refresh,MsgNotPersisted)"


class Rows:
    """Keeps the rows in place of a table."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def recorder() -> tuple[FailedTries, list[dict[str, Any]]]:
    table = Rows()
    return FailedTries(cast(TableWriter, table), "p", {"a.b-c": "ID"}), table.rows


def say(tries: FailedTries, facility: str, text: str) -> None:
    tries.log(10, "%s [%s] %s", facility, "rdkafka#producer-1", AT + text)


@pytest.mark.parametrize("end", ["", " [NOT LEADER]"])
@pytest.mark.parametrize(
    ("error", "name"), [(GAP, "OUT_OF_ORDER_SEQUENCE_NUMBER"), ("Local: Broker transport failure", "_TRANSPORT")]
)
def test_a_failed_try_has_the_identity_of_its_batch(error: str, name: str, end: str) -> None:
    tries, rows = recorder()
    say(tries, "PRODUCE", MADE.format("PID{Id:12,Epoch:3}"))
    say(tries, "MSGSET", FAILED.format(error) + end)
    (row,) = rows
    assert 0 < row.pop("sent_ns") <= row.pop("failed_ns")
    assert row == {
        "producer": "p",
        "topic": "a.b-c",
        "topic_id": "ID",
        "partition": 0,
        "count": 4,
        "producer_id": 12,
        "producer_epoch": 3,
        "base_sequence": 4,
        "broker": 3,
        "error": name,
    }
    assert tries.problem is None


def test_the_latest_request_of_a_batch_counts() -> None:
    tries, rows = recorder()
    for epoch in (3, 4):
        say(tries, "PRODUCE", MADE.format(f"PID{{Id:12,Epoch:{epoch}}}"))
    say(tries, "MSGSET", FAILED.format(GAP))
    assert [row["producer_epoch"] for row in rows] == [4]


def test_a_producer_without_idempotence_has_no_identity() -> None:
    tries, rows = recorder()
    say(tries, "PRODUCE", MADE.format("PID{Invalid}"))
    say(tries, "MSGSET", FAILED.format(GAP))
    assert [(row["producer_id"], row["producer_epoch"]) for row in rows] == [(-1, -1)]


@pytest.mark.parametrize(
    "text",
    [
        "MessageSet with 4 message(s) failed",
        FAILED.format("Broker: An error of a later release"),
        FAILED.format(GAP).replace("MsgId 5", "MsgId 6"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_problem(text: str) -> None:
    tries, rows = recorder()
    say(tries, "PRODUCE", MADE.format("PID{Id:12,Epoch:3}"))
    say(tries, "MSGSET", text)
    assert not rows
    assert tries.problem is not None
    assert text in tries.problem


def test_acks_without_a_line_are_a_problem() -> None:
    tries, _ = recorder()
    assert tries.problem is None
    tries.acked = True
    assert tries.problem == "the client of p acknowledged records, and its log has no line about any batch"
    say(tries, "MSGSET", "MessageSet with 4 message(s) (MsgId 5, BaseSeq 4) delivered")
    assert tries.problem is None


def test_the_client_itself_logs_such_lines() -> None:
    """With the brokers that librdkafka simulates."""
    tries, _ = recorder()
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, **SETTINGS, "logger": tries})
    producer.produce("a.b-c", b"x", on_delivery=lambda error, _: setattr(tries, "acked", error is None))
    give_up_at_s = time.monotonic() + 30
    while not tries.acked and time.monotonic() < give_up_at_s:
        producer.poll(0.1)
    assert tries.acked
    assert tries.problem is None
