"""Offsets of a group in a transaction that steps open and end, with a client that has no broker."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.evidence.writer import BundleWriter
from harness.model.outcome import TxnOutcome
from harness.model.place import Place
from harness.model.scenario.scenario import Producer, Transactions
from harness.workload.producers.recording_producer import Tally
from harness.workload.producers.transactions import SteppedTransactionLoop
from suites.unit.workload.producers.offline import producer_of, tables_of

PLACE: Place = ("t", 0)


class Client:
    """Commits and aborts, and takes or refuses offsets."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def send_offsets_to_transaction(self, parts: list[TopicPartition], group: object, timeout_s: float) -> None:
        assert (group, timeout_s > 0) == ("of group", True)
        self.calls += [f"{part.topic}/{part.partition} {part.offset}" for part in parts]
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))

    def commit_transaction(self, timeout_s: float) -> None:
        self.calls.append("commit")

    def abort_transaction(self, timeout_s: float) -> None:
        self.calls.append("abort")


@pytest.mark.parametrize(
    ("refuses", "end", "outcome"), [(False, "commit", TxnOutcome.COMMITTED), (True, "abort", TxnOutcome.ABORTED)]
)
def test_offsets_are_sent_when_their_records_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool, end: str, outcome: TxnOutcome
) -> None:
    bundle = BundleWriter(tmp_path)
    spec = Producer(name="p", topics=("t",), when="steps", transactions=Transactions(offsets_of="g"))
    loop = SteppedTransactionLoop(producer_of(bundle, spec), 1.0, tables_of(bundle, spec), {})
    client = Client(refuses=refuses)

    def acknowledged(_: Place, records: int, *, txn_id: int, tally: Tally) -> None:
        tally.queued, tally.acked = records, records

    monkeypatch.setattr(loop.producer, "client", client)
    monkeypatch.setattr(loop.producer, "queue", acknowledged)
    monkeypatch.setattr(loop.producer, "poll", lambda _: None)
    monkeypatch.setattr(loop.producer, "flush", lambda _: True)
    monkeypatch.setattr(loop.producer.context.meters, "highest_acked", lambda: {PLACE: 4})
    monkeypatch.setattr(loop, "_group", "of group")

    loop._fill(PLACE, 5, time.monotonic() + 10, Tally())
    assert loop._finish(commit=True) is outcome
    assert client.calls == ["begin", "t/0 5", end]
    bundle.close()
    (row,) = pq.read_table(tmp_path / "offset_commits").to_pylist()
    assert (row["group"], row["offset"], row["outcome"] == "acked") == ("g", 5, not refuses)
