"""A producer of a topic with one partition whose cluster does not exist, and the tables of its transactions."""

from __future__ import annotations

from harness.evidence.writer import BundleWriter
from harness.model.scenario.scenario import Producer
from harness.workload.meters import Meters
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer, Target
from harness.workload.producers.streams import Numbers
from harness.workload.producers.transactions import TxnTables


def producer_of(bundle: BundleWriter, spec: Producer) -> RecordingProducer:
    context = ProducerContext(
        bootstrap="127.0.0.1:1",
        targets={"t": Target(topic="t", topic_id="id", partitions=1)},
        numbers=Numbers(),
        meters=Meters(),
        ledger=bundle.table("ledger", spec.name),
        reservations=bundle.table("reservations", spec.name),
        run=1,
        seed=1,
    )
    return RecordingProducer(spec, context)


def tables_of(bundle: BundleWriter, spec: Producer) -> TxnTables:
    names = ("transactions", "offset_commits", "failed_calls")
    return TxnTables(**{name: bundle.table(name, spec.name) for name in names})
