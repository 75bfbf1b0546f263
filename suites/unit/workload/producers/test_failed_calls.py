"""The failed calls of a transactional client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.evidence.writer import BundleWriter
from harness.model.scenario.scenario import Producer, Transactions
from harness.model.schemas import TABLES
from harness.workload.java.java_process import JavaError
from harness.workload.producers import transactions
from harness.workload.producers.failed_calls import Call, FailedCalls
from harness.workload.producers.transactions import TransactionLoop
from harness.workload.timed_calls import CallHung
from suites.unit.workload.producers.offline import producer_of, tables_of

REFUSED = KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING))


class Rows:
    """A table in memory."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []

    def append(self, columns: Mapping[str, object]) -> None:
        self.rows.append(columns)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def loop_of(bundle: BundleWriter, declared: Transactions) -> TransactionLoop:
    """The transactions of a producer whose cluster does not exist."""
    spec = Producer(name="p", topics=("t",), transactions=declared)
    return TransactionLoop(producer_of(bundle, spec), 1.0, tables_of(bundle, spec), {})


def _of_a_fatal_error() -> SystemError:
    """The exception that Python raises if confluent-kafka calls a callback while an error is set."""
    broken = SystemError("returned a result with an exception set")
    broken.__cause__ = REFUSED
    return broken


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (REFUSED, "INVALID_PRODUCER_ID_MAPPING"),
        (_of_a_fatal_error(), "INVALID_PRODUCER_ID_MAPPING"),
        (KafkaException(JavaError("InvalidTxnStateException")), "InvalidTxnStateException"),
        (CallHung("no return within 20 s"), "_HUNG"),
    ],
)
def test_a_failed_call_is_a_row_with_its_error_and_raises_it(raised: Exception, error: str) -> None:
    table = Rows()
    calls = FailedCalls(table, "payments", 30_000)
    with pytest.raises(type(raised)), calls.of("commit", 7):
        raise raised
    (row,) = table.rows
    assert row.keys() == TABLES["failed_calls"].keys()
    assert (row["producer"], row["call"], row["error"], row["initialised_ns"]) == ("payments", "commit", error, 7)
    assert calls.last == {"commit": error}


def test_a_call_that_succeeds_is_no_row_and_ends_the_failures_of_its_kind() -> None:
    table = Rows()
    calls = FailedCalls(table, "payments", None)
    for kind in ("commit", "offsets"):
        with pytest.raises(KafkaException), calls.of(kind, 7):
            raise REFUSED
    with calls.of("commit", 7):
        pass
    assert len(table.rows) == 2
    assert calls.last == {"offsets": "INVALID_PRODUCER_ID_MAPPING"}


def test_no_client_was_initialised_before_it_is() -> None:
    table = Rows()
    with pytest.raises(KafkaException), FailedCalls(table, "payments", 30_000).of("init", 7):
        raise REFUSED
    assert table.rows[0]["initialised_ns"] is None


def test_an_error_of_the_harness_is_no_error_of_a_client() -> None:
    table = Rows()
    with pytest.raises(SystemError), FailedCalls(table, "payments", 30_000).of("abort", 7):
        raise SystemError("bad")
    assert not table.rows


@pytest.mark.parametrize(
    ("declared", "waits_for"),
    [
        ({}, {"commit", "abort"}),
        ({"abort_share": 0.0}, {"commit"}),
        ({"abort_share": 0.0, "offsets_of": "g"}, {"commit", "offsets"}),
    ],
)
def test_a_load_waits_for_calls_that_it_makes_again_and_again(
    tmp_path: Path, declared: dict[str, Any], waits_for: set[str]
) -> None:
    bundle = BundleWriter(tmp_path)
    loop = loop_of(bundle, Transactions(**declared))
    assert loop.producer.transaction_timeout_ms == 30_000
    loop.failed_calls.last |= {"commit": "UNKNOWN", "abort": "UNKNOWN", "offsets": "UNKNOWN"}
    assert loop.waits_for == waits_for
    bundle.close()


class Client:
    """A client that the coordinator refuses with a retriable error, or not."""

    def __init__(self, refused: bool) -> None:
        self.refused = refused

    def init_transactions(self, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.refused:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "loading", retriable=True))


@pytest.mark.parametrize(("stalled_s", "replaced"), [(0.0, True), (60.0, False)])
def test_a_client_that_asks_in_vain_for_long_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalled_s: float, replaced: bool
) -> None:
    bundle = BundleWriter(tmp_path)
    loop = loop_of(bundle, Transactions())
    first: object = Client(refused=True)
    monkeypatch.setattr(transactions, "_STALLED_S", stalled_s)
    monkeypatch.setattr(transactions, "_INIT_S", 0.2)
    monkeypatch.setattr(loop.producer, "client", first)
    monkeypatch.setattr(loop.producer, "open", lambda: setattr(loop.producer, "client", Client(refused=False)))
    if replaced:
        loop._initialise()
    else:
        with pytest.raises(KafkaException):
            loop._initialise()
    assert (loop.producer.client is not first) == replaced
    bundle.close()


@pytest.mark.parametrize(
    ("call", "faults", "doubtful"),
    [("offsets", True, False), ("offsets", False, True), ("commit", True, True), ("init", True, True)],
)
def test_a_call_in_which_librdkafka_is_known_to_hang_is_a_note(
    tmp_path: Path, call: Call, faults: bool, doubtful: bool
) -> None:
    bundle = BundleWriter(tmp_path)
    loop = loop_of(bundle, Transactions())
    loop.known_to_hang = faults
    with pytest.raises(CallHung), loop.failed_calls.of(call, 7):
        raise CallHung("no return within 20 s")
    loop._hangs("a call hangs")
    assert (len(loop.doubts), len(loop.notes)) == (int(doubtful), int(not doubtful))
    bundle.close()
