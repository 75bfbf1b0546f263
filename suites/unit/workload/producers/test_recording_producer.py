"""The ledger of a producer that reaches no broker: librdkafka alone decides the outcomes. This does not test Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.dataset as ds
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from harness.evidence.writer import BundleWriter
from harness.model.clock import now_ns
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer
from harness.workload.meters import Meters
from harness.workload.producers.delivery_reports import only_reported
from harness.workload.producers.produce_arguments import UNORDERED_MS, backdated
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Tally, Target
from harness.workload.producers.streams import WINDOW, Numbers

PLACE = ("t", 0)
NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[BundleWriter]:
    writer = BundleWriter(tmp_path)
    yield writer
    writer.close()


class Offline:
    """A producer without a broker, and its ledger."""

    def __init__(self, bundle: BundleWriter, **spec: Any) -> None:
        self.bundle = bundle
        context = ProducerContext(
            bootstrap=NO_BROKER,
            targets={"t": Target(topic="t", topic_id="id", partitions=2)},
            numbers=Numbers(),
            meters=Meters(),
            ledger=self.bundle.table("ledger", "p"),
            reservations=self.bundle.table("reservations", "p"),
            run=1,
            seed=1,
        )
        self.producer = RecordingProducer(Producer(name="p", topics=("t",), **spec), context)

    def ledger(self) -> list[dict[str, Any]]:
        self.bundle.close()
        rows = ds.dataset(self.bundle.path / "ledger", format="parquet").to_table().to_pylist()
        return sorted(rows, key=lambda row: (row["stream"], row["seq"]))


def test_sends_that_time_out_are_unknown(bundle: BundleWriter) -> None:
    offline = Offline(bundle, idempotent=False, config={"delivery.timeout.ms": "300", "linger.ms": "0"})
    tally = Tally()
    assert offline.producer.queue(PLACE, 5, tally=tally) == 5
    offline.producer.close(10)
    rows = offline.ledger()
    assert [(row["seq"], row["outcome"], row["error"], row["offset"]) for row in rows] == [
        (seq, "unknown", "_MSG_TIMED_OUT", None) for seq in range(5)
    ]
    assert (tally.unknown, tally.settled) == (5, True)
    assert all(row["called_ns"] < row["returned_ns"] for row in rows)


def test_a_purged_send_is_unknown_if_the_client_retries(bundle: BundleWriter) -> None:
    offline = Offline(bundle)
    offline.producer.queue(PLACE, 3)
    offline.producer.close(0.1)
    assert {(row["outcome"], row["error"]) for row in offline.ledger()} == {("unknown", "_PURGE_QUEUE")}


def test_a_purged_send_is_refused_if_the_client_never_retries(bundle: BundleWriter) -> None:
    offline = Offline(bundle, idempotent=False, config={"retries": "0"})
    offline.producer.queue(PLACE, 3)
    offline.producer.close(0.1)
    assert {(row["outcome"], row["error"]) for row in offline.ledger()} == {("refused", "_PURGE_QUEUE")}


@pytest.mark.parametrize("extra", [{}, {"headers": True}, {"backdated_s": 60}], ids=["none", "headers", "a time"])
def test_values_above_the_size_limit_of_the_client_are_refused_without_a_gap(
    bundle: BundleWriter, extra: dict[str, Any]
) -> None:
    offline = Offline(bundle, value_bytes=5000, **extra, config={"message.max.bytes": "1000"})
    assert offline.producer.queue(PLACE, 4) == 0
    offline.producer.close(0.1)
    assert [(row["seq"], row["outcome"], row["error"]) for row in offline.ledger()] == [
        (seq, "refused", "MSG_SIZE_TOO_LARGE") for seq in range(4)
    ]


@pytest.mark.parametrize("extra", [{}, {"headers": True}, {"backdated_s": 60}], ids=["none", "headers", "a time"])
def test_records_that_a_full_queue_rejects_have_no_row(bundle: BundleWriter, extra: dict[str, Any]) -> None:
    offline = Offline(bundle, **extra, config={"queue.buffering.max.messages": "10"})
    assert offline.producer.queue(PLACE, 15) == 10
    assert offline.producer.queue(PLACE, 15) == 0
    offline.producer.close(0.1)
    assert [row["seq"] for row in offline.ledger()] == list(range(10))


def test_times_of_a_backdated_producer_do_not_rise_with_its_records() -> None:
    before_ms = now_ns() // 10**6
    times = [backdated(60)["timestamp"] for _ in range(100)]
    assert times != sorted(times)
    assert before_ms - UNORDERED_MS < min(times) + 60_000 <= max(times) + 60_000 <= now_ns() // 10**6
    assert backdated(0) == {}


def test_the_sends_of_an_abandoned_incarnation_are_unknown(bundle: BundleWriter) -> None:
    offline = Offline(bundle, keyed=True)
    offline.producer.queue(PLACE, 2)
    offline.producer.queue(("t", 1), 1)
    offline.producer.abandon()
    rows = offline.ledger()
    assert {(row["outcome"], row["error"]) for row in rows} == {("unknown", "_NO_REPORT")}
    assert [row["stream"] for row in rows] == [1, 1, 2]
    assert all(row["key_hash"] % 2 == row["partition"] for row in rows)


def test_a_partition_without_reports_accepts_one_window_of_sends(bundle: BundleWriter) -> None:
    offline = Offline(bundle)
    taken = sum(offline.producer.queue(PLACE, 1000) for _ in range(20))
    assert taken == WINDOW
    assert offline.producer.queue(("t", 1), 10) == 10


def test_a_new_incarnation_opens_new_streams(bundle: BundleWriter) -> None:
    offline = Offline(bundle)
    offline.producer.queue(PLACE, 2)
    offline.producer.close(0.1)
    offline.producer.open()
    offline.producer.queue(PLACE, 1)
    offline.producer.close(0.1)
    assert [(row["stream"], row["seq"]) for row in offline.ledger()] == [(1, 0), (1, 1), (2, 0)]


def test_added_partitions_are_used_once_the_client_has_their_metadata(
    bundle: BundleWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline, reported = Offline(bundle, keyed=True), [2]
    producer = offline.producer
    monkeypatch.setattr(producer, "_partitions_in_metadata", lambda topic: reported[0])
    cast(Any, producer.context.targets)["t"] = Target(topic="t", topic_id="id", partitions=3)
    producer.add_partitions()
    assert producer.places == [("t", 0), ("t", 1)]
    assert producer.queue(("t", 2), 5) == 0
    reported[0] = 3
    assert producer.queue(("t", 2), 5) == 5
    assert producer.places == [("t", 0), ("t", 1), ("t", 2)]
    producer.abandon()
    assert all(row["key_hash"] % 3 == row["partition"] == 2 for row in offline.ledger())


def test_a_client_without_brokers_has_no_partitions_in_its_metadata(bundle: BundleWriter) -> None:
    assert Offline(bundle).producer._partitions_in_metadata("t") == 0


def test_a_recreated_topic_gets_new_streams(bundle: BundleWriter) -> None:
    offline = Offline(bundle)
    producer = offline.producer
    producer.queue(PLACE, 3)
    producer.renew_if_recreated()
    assert producer.incarnations == 1
    cast(Any, producer.context.targets)["t"] = Target(topic="t", topic_id="another", partitions=2)
    producer.renew_if_recreated()
    assert producer.incarnations == 2
    producer.queue(PLACE, 2)
    producer.abandon()
    rows = [(row["stream"], row["seq"], row["topic_id"]) for row in offline.ledger()]
    assert rows == [*((1, seq, "id") for seq in range(3)), *((2, seq, "another") for seq in range(2))]


def test_records_without_a_value_have_the_form_of_their_value_in_the_ledger(bundle: BundleWriter) -> None:
    extra = {"keyed": True, "tombstones": 0.3, "empty": 0.2, "sizes": (50, 300)}
    offline = Offline(bundle, **extra, idempotent=False, config={"delivery.timeout.ms": "300", "linger.ms": "0"})
    assert offline.producer.queue(PLACE, 100) == 100
    offline.producer.close(10)
    rows = offline.ledger()
    assert [(row["stream"], row["seq"], row["error"]) for row in rows] == [(1, n, "_MSG_TIMED_OUT") for n in range(100)]
    counts = Counter(row["value"] for row in rows)
    assert counts.keys() == {"null", "empty", None}
    assert (round(counts["null"], -1), round(counts["empty"], -1)) == (30, 20)
    assert all(row["key_hash"] % 2 == 0 for row in rows)


def test_idempotence_without_acks_all_is_bad_input(bundle: BundleWriter) -> None:
    with pytest.raises(BadInput, match="acks=1"):
        Offline(bundle, acks="1")


@pytest.mark.parametrize(
    ("reported", "expected_offsets"),
    [
        ([], []),
        ([5, 6, 7], [5, 6, 7]),
        ([0, 1, 2], [0, 1, 2]),
        ([-1, 0, 1, 2], [-1, -1, -1, -1]),
        ([7, 8, -1, 0, 1, 9, 10], [7, 8, -1, -1, -1, 9, 10]),
        ([-1, 0, -1, 0, 1, 40], [-1, -1, -1, -1, -1, 40]),  # two batches in a row
        ([-1, 5, 1, 2], [-1, 5, 1, 2]),  # the count ends at 5 and does not continue after it
        ([-1, 0, 2, 3], [-1, -1, 2, 3]),
        ([-1, -1, -1], [-1, -1, -1]),  # acks=0
    ],
)
def test_offsets_that_the_client_counts_up_from_minus_one_are_removed(
    reported: list[int], expected_offsets: list[int]
) -> None:
    assert only_reported(np.array(reported, np.int64)).tolist() == expected_offsets


@given(st.lists(st.integers(-1, 4), max_size=12))
def test_counted_offsets_match_a_record_by_record_reference(reported: list[int]) -> None:
    expected_offsets: list[int] = []
    expected: int | None = None
    for offset in reported:
        expected = 0 if offset < 0 else expected + 1 if offset == expected else None
        expected_offsets.append(offset if expected is None else -1)
    assert only_reported(np.array(reported, np.int64)).tolist() == expected_offsets


class Raising:
    """librdkafka's binding raises a fatal error from the call that serves callbacks, without calling `error_cb`."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error

    def poll(self, _: float) -> int:
        raise KafkaException(self.error)

    flush = poll


class RaisingFromCallback(Raising):
    """The binding calls a delivery callback after it has set a fatal error: Python makes a SystemError of that."""

    def poll(self, _: float) -> int:
        raise SystemError("returned a result with an exception set") from KafkaException(self.error)

    flush = poll


def test_a_fatal_error_behind_a_system_error_is_stored_and_any_other_is_raised(bundle: BundleWriter) -> None:
    producer = Offline(bundle).producer
    producer.client = cast(Any, RaisingFromCallback(KafkaError(KafkaError._FENCED, "fenced", fatal=True)))
    producer.poll(0)
    assert producer.fatal == "_FENCED"
    producer.open()
    producer.client = cast(Any, RaisingFromCallback(KafkaError(KafkaError._STATE, "used wrongly")))
    with pytest.raises(SystemError):
        producer.poll(0)


class Clearing(Raising):
    """A delivery callback that runs after the binding has set a fatal error clears it."""

    def poll(self, _: float) -> int:
        raise SystemError("<built-in method flush> returned NULL without setting an exception")

    flush = poll


def test_a_fatal_error_that_the_binding_lost_is_one(bundle: BundleWriter) -> None:
    producer = Offline(bundle).producer
    producer.client = cast(Any, Clearing(KafkaError(KafkaError._FENCED, "fenced", fatal=True)))
    assert not producer.flush(0)
    assert producer.fatal == "_FATAL"


def test_a_fatal_error_is_stored_and_any_other_is_raised(bundle: BundleWriter) -> None:
    producer = Offline(bundle).producer
    producer.client = cast(
        Any, Raising(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "desynchronized", fatal=True))
    )
    producer.poll(0)
    assert producer.fatal == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert not producer.flush(0)
    producer.open()
    producer.client = cast(Any, Raising(KafkaError(KafkaError._STATE, "used wrongly")))
    with pytest.raises(KafkaException, match="used wrongly"):
        producer.poll(0)
