"""The loop that drives a producer of a scenario: steadily, in transactions, by steps, or by what it is given."""

from __future__ import annotations

from harness.evidence.writer import BundleWriter
from harness.model.scenario.scenario import STREAMS, Producer, Scenario
from harness.workload.consumers.processor import ProcessorLoop
from harness.workload.java.kafka_streams import StreamsLoop
from harness.workload.producers.loops import BurstLoop, ProducerLoop, SteadyLoop
from harness.workload.producers.recording_producer import ProducerContext, RecordingProducer
from harness.workload.producers.stepped_transactions import SteppedTransactionLoop
from harness.workload.producers.transactions import TransactionLoop, TxnTables
from harness.workload.readiness import close_s_of, segment_bytes_of

Loop = ProducerLoop | StreamsLoop
ProcessingLoop = ProcessorLoop | StreamsLoop


def loop_of(spec: Producer, context: ProducerContext, bundle: BundleWriter, scenario: Scenario) -> Loop:
    """Not started yet; its tables are those of a bundle."""
    if spec.client == STREAMS:
        return StreamsLoop(spec, context, _tables(spec, bundle), bundle.table("processed", spec.name))
    producer, ends_s = RecordingProducer(spec, context), close_s_of(spec, context.bootstrap)
    if spec.transactions is None:
        return BurstLoop(producer, ends_s) if spec.when == "steps" else SteadyLoop(producer, ends_s)
    tables = _tables(spec, bundle)
    if spec.processes is not None:
        return ProcessorLoop(producer, ends_s, tables, bundle.table("processed", spec.name))
    kind = SteppedTransactionLoop if spec.when == "steps" else TransactionLoop
    return kind(producer, ends_s, tables, segment_bytes_of(scenario))


def _tables(spec: Producer, bundle: BundleWriter) -> TxnTables:
    return TxnTables(
        transactions=bundle.table("transactions", spec.name),
        offset_commits=bundle.table("offset_commits", f"{spec.name}-txn"),
    )
