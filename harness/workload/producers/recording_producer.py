"""A producer that writes the ledger: every attempted record with its outcome, its offset and its times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import Producer
from harness.model.secured import producer_name
from harness.workload.access import Access
from harness.workload.client_errors import FATAL, client_error, is_fatal
from harness.workload.java.java_process import JavaClients
from harness.workload.java.java_producer import JavaProducer
from harness.workload.meters import NONE, Meters
from harness.workload.pacing import Cap
from harness.workload.producers.delivery_reports import Times, offsets_of, only_reported
from harness.workload.producers.failed_tries import SETTINGS, FailedTries
from harness.workload.producers.outcomes import NO_REPORT, outcome_of_send
from harness.workload.producers.produce_arguments import Record, backdated
from harness.workload.producers.streams import NO_TXN, Identity, Numbers, Reservations, Stream
from harness.workload.producers.transmissions import transmitted
from harness.workload.records.keys import Keys
from harness.workload.records.payload import NULL, SELF, WHOLE, Int8s, Int64s, Payloads, headers_of, heads_of
from harness.workload.records.value_shapes import Forms
from harness.workload.settings import CLIENT_NAME, is_idempotent, may_retry, producer_settings

CHUNK: Final = 1000
METADATA_S: Final = 1.0
PURGE_S: Final = 2.0
PARTITION_UA: Final = -1
QUEUE_FULL: Final = "_QUEUE_FULL"

Report = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic as it is now on the cluster."""

    topic: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerContext:
    """The context of a producer: what it shares with all producers of the run, and its own tables.

    `java`: the release's own clients, if the producer is one of them; None for librdkafka. `failed_sends`: where failed
    tries are recorded, if they are.
    """

    bootstrap: str
    targets: Mapping[str, Target]
    numbers: Numbers
    meters: Meters
    ledger: TableWriter
    reservations: TableWriter
    run: int
    seed: int
    access: Access = field(default_factory=Access)
    java: JavaClients | None = None
    failed_sends: TableWriter | None = None
    cap: Cap | None = None  # of all producers together


@dataclass(slots=True)
class Tally:
    """Counts outcomes of the sends that were queued with it."""

    queued: int = 0
    acked: int = 0
    refused: int = 0
    unknown: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_seqs: dict[int, int] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether everything that was queued has been reported."""
        return self.acked + self.refused + self.unknown >= self.queued

    def add(self, outcome: Outcome, count: int, offsets: Int64s) -> None:
        """Counts reports of one outcome."""
        setattr(self, outcome.value, getattr(self, outcome.value) + count)
        if outcome is Outcome.ACKED and len(reported := offsets[offsets >= 0]):
            lowest, highest = int(reported.min()), int(reported.max())
            self.first_offset = lowest if self.first_offset is None else min(self.first_offset, lowest)
            self.last_offset = highest if self.last_offset is None else max(self.last_offset, highest)


class RecordingProducer:
    """One producer of a scenario through all its incarnations, each with a new client. Belongs to one thread.

    One callback takes all delivery reports and only stores the messages; after each poll they are decoded together. The
    prefix of a value contains its stream and sequence, so nothing depends on the order of reports.
    """

    def __init__(self, spec: Producer, context: ProducerContext) -> None:
        self.spec = spec
        self.context = context
        self.incarnations = 0
        self.failed_sends = 0
        self.fatal: str | None = None
        self.tries: list[FailedTries] = []  # of each incarnation, if they are recorded
        self._payloads = Payloads(
            context.run, max(spec.sizes or (spec.value_bytes,)), context.seed, headed=spec.headers
        )
        self._forms = Forms(spec)
        self._partitions = {t: context.targets[t].partitions for t in spec.topics}
        self._keys = {t: self._keys_of(n) for t, n in self._partitions.items()} if spec.keyed else {}
        self._tally: Tally | None = None
        self._acked: list[Message] = []
        self._failed: list[tuple[KafkaError, Message]] = []
        own = producer_settings(spec, context.bootstrap, f"{spec.name}-{context.run:x}")
        self._settings = {**context.access.settings, **own}
        self._reservations = Reservations(context.reservations, self._identity())
        self.open()

    def open(self) -> None:
        """Starts a new incarnation: a new client, and new streams when they are needed."""
        self.incarnations += 1
        self.fatal = None
        self._topic_ids = self._current_ids()
        self._streams: dict[Place, Stream] = {}
        self._by_number: dict[int, Stream] = {}
        self.client = self._client()

    def _client(self) -> confluent_kafka.Producer:
        """A new client: librdkafka's, or a Java client with those of its methods that are called here."""
        if self.context.java is not None:
            name, meters = f"{self.spec.name}/{self.incarnations}", self.context.meters
            java = JavaProducer(self.context.java, self._settings, lambda total: meters.retried(name, total))
            return cast(confluent_kafka.Producer, java)
        own = {"error_cb": self._on_error, "stats_cb": self._statistics_of(self.incarnations)}
        if self.context.failed_sends is None:
            return confluent_kafka.Producer(self._settings | own)
        self.tries.append(FailedTries(self.context.failed_sends, self.spec.name, self._topic_ids))
        return confluent_kafka.Producer({**self._settings, **own, **SETTINGS, "logger": self.tries[-1]})

    def _current_ids(self) -> dict[str, str]:
        return {topic: self.context.targets[topic].topic_id for topic in self.spec.topics}

    def renew_if_recreated(self) -> None:
        """Starts a new incarnation when one of its topics was deleted and recreated.

        Produce requests name topics by their names, so records in flight may reach either topic. Their streams stay
        streams of the old topic, and none of them is sent again.
        """
        if self._current_ids() != self._topic_ids:
            self.client.purge()
            self.close(PURGE_S)
            self.open()

    @property
    def transaction_timeout_ms(self) -> int | None:
        """transaction.timeout.ms of its clients; None if the setting is left to the client."""
        declared = self._settings.get("transaction.timeout.ms")
        return None if declared is None else int(str(declared))

    @property
    def places(self) -> list[Place]:
        """All partitions that this producer writes to."""
        return [(t, p) for t, partitions in self._partitions.items() for p in range(partitions)]

    def add_partitions(self) -> None:
        """Also writes to partitions that were added to a topic, as soon as the metadata of this client has them.

        Before that the client would reject records for them. The keys of every partition change with the partition
        count.
        """
        for topic, known in self._partitions.items():
            wanted = self.context.targets[topic].partitions
            if wanted == known or self._partitions_in_metadata(topic) < wanted:
                continue
            self._partitions[topic] = wanted
            if self.spec.keyed:
                self._keys[topic] = self._keys_of(wanted)

    def _keys_of(self, partitions: int) -> Keys:
        return Keys(partitions, self.spec.partitioner, self.spec.name)

    def _partitions_in_metadata(self, topic: str) -> int:
        try:
            return len(self.client.list_topics(topic, timeout=METADATA_S).topics[topic].partitions)
        except KafkaException:
            return 0  # the next call of `add_partitions` asks again

    def queue(self, place: Place, count: int, *, txn_id: int = NO_TXN, tally: Tally | None = None) -> int:
        """Puts up to `count` records into the client's queue and returns how many. No sequence is ever queued twice."""
        if place[1] >= self._partitions[place[0]]:
            self.add_partitions()
            if place[1] >= self._partitions[place[0]]:
                return 0
        stream = self._streams.get(place) or self._new_stream(place)
        count = stream.room(min(count, CHUNK))
        if count and self.context.cap is not None:
            count = self.context.cap.take(count)
        if count == 0:
            return 0
        first = stream.next_seq
        self._reservations.cover(stream, first + count)
        messages, hashes = self._records(stream, first, count)
        if tally is not None:
            tally.first_seqs.setdefault(stream.number, first)
        self._tally = tally
        called_ns = now_ns()
        stream.opened(first, count, called_ns, txn_id, hashes)
        stream.next_seq += count
        taken = enqueue(self.client, self.spec, place, messages, self._delivered)
        if taken < count:
            self._not_queued(stream, first, messages)
        if tally is not None:
            tally.queued += stream.next_seq - first
        return taken

    def poll(self, timeout_s: float) -> None:
        """Waits up to `timeout_s` for delivery reports and records them."""
        self._serve(self.client.poll, timeout_s)

    def flush(self, deadline_s: float) -> bool:
        """Waits until everything queued is reported; False after `deadline_s` without that, or on a fatal error."""
        return self._serve(self.client.flush, deadline_s) == 0

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int | None:
        """A call that runs callbacks. The client raises a fatal error from it and does not call `error_cb`."""
        try:
            return call(timeout_s)
        except (KafkaException, SystemError) as failure:
            if (error := client_error(failure)) is not None:
                self._note_fatal(error)
            self.record()  # a report may contain a fatal error, too
            if isinstance(failure, SystemError) and failure.__cause__ is None:
                # The call has set a fatal error, and a callback that it ran afterwards has cleared it.
                self.fatal = self.fatal or FATAL
            if self.fatal is None:
                raise
            return None
        finally:
            self.record()

    def record(self) -> None:
        """Writes the reports that the callback has stored. The time of a report is that of the poll that brought it."""
        returned_ns = now_ns()
        if self._acked:
            messages, self._acked = self._acked, []
            for tries in self.tries[-1:]:
                tries.acked = True
            self._write(messages, None, returned_ns)
        if self._failed:
            failed, self._failed = self._failed, []
            self.failed_sends += len(failed)
            by_error: dict[str, list[Message]] = defaultdict(list)
            for error, message in failed:
                self._note_fatal(error)
                by_error[error.name()].append(message)
            for name, messages in by_error.items():
                self._write(messages, name, returned_ns)

    def close(self, deadline_s: float) -> None:
        """Ends this incarnation within `deadline_s` and 2 s for a purge; sends without a report are unknown."""
        if not self.flush(deadline_s):
            self.client.purge()
            self.flush(2.0)
        self.abandon()

    def abandon(self) -> None:
        """Ends this incarnation without any further call of its client, which may hang."""
        returned_ns = now_ns()
        for stream in self._by_number.values():
            sequences = stream.unreported()
            if len(sequences):
                self._write_rows(stream, sequences, NO_REPORT, np.full(len(sequences), NONE), returned_ns)
        if isinstance(self.client, JavaProducer):
            self.client.discard()

    def release(self) -> None:
        """Drops the client of an incarnation that has ended, which ends it: one that lives on asks for metadata of its
        topics, and a broker may create them again after they were deleted."""
        del self.client

    def return_to(self, client: confluent_kafka.Producer) -> None:
        """Continues with its own client after another one (a zombie's) was used; new records get new streams."""
        self.client, self.fatal = client, None
        self._streams = {}

    def _records(self, stream: Stream, first: int, count: int) -> tuple[list[Record], Int64s | None]:
        topic, partition = stream.topic, stream.partition
        keys, hashes = self._keys[topic].of(partition, first, count) if topic in self._keys else (None, None)
        sequences = np.arange(first, first + count)
        forms, sizes = self._forms.of(stream.number, sequences), self._forms.sizes(stream.number, sequences)
        values = self._payloads.build(stream.number, first, count, topic, partition, hashes, forms, sizes)
        return records_of(values, keys, headed=self.spec.headers, forms=forms), hashes

    def _new_stream(self, place: Place) -> Stream:
        topic, partition = place
        stream = Stream(
            number=self.context.numbers.stream(),
            topic=topic,
            topic_id=self.context.targets[topic].topic_id,
            partition=partition,
        )
        self._streams[place] = self._by_number[stream.number] = stream
        return stream

    def _not_queued(self, stream: Stream, first: int, messages: Sequence[Record]) -> None:
        """Handles records that the client rejected: refused, or, after the queue was full, not attempted yet."""
        end = len(messages)
        while end and error_of(messages[end - 1]) == QUEUE_FULL:
            end -= 1
        stream.pending[stream.slots(first + end, len(messages) - end)] = False
        stream.next_seq = first + end
        refused: dict[str, list[int]] = defaultdict(list)
        for at, message in enumerate(messages[:end]):
            if error := error_of(message):
                refused[error].append(first + at)
                self._note_fatal(message["_error"])
        for error, sequences in refused.items():
            numbers = np.array(sequences, np.int64)
            self._write_rows(stream, numbers, error, np.full(len(numbers), NONE), now_ns(), Outcome.REFUSED)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acked.append(message)
        else:
            self._failed.append((error, message))

    def _write(self, messages: list[Message], error: str | None, returned_ns: int) -> None:
        heads = heads_of(map(type(messages[0]).value, messages))
        streams = heads["stream"]
        sequences = heads["seq"].astype(np.int64)
        offsets = offsets_of(messages)
        times = Times.of(messages) if error is None and self.context.java is None else None
        for number in np.unique(streams).tolist():
            mine = streams == number
            reported = only_reported(offsets[mine])
            self._write_rows(
                self._by_number[number],
                sequences[mine],
                error,
                reported,
                returned_ns,
                times=times and times.among(mine),
            )

    def _write_rows(
        self,
        stream: Stream,
        sequences: Int64s,
        error: str | None,
        offsets: Int64s,
        returned_ns: int,
        outcome: Outcome | None = None,
        times: Times | None = None,
    ) -> None:
        outcome = outcome or outcome_of_send(error, retries=may_retry(self._settings))
        at = sequences % len(stream.pending)
        stream.pending[at] = False
        txns = stream.txn_id[at]
        self.context.ledger.append(
            {
                "stream": stream.number,
                "seq": sequences,
                "topic": stream.topic,
                "topic_id": stream.topic_id,
                "partition": stream.partition,
                "key_hash": stream.key_hash[at] if self.spec.keyed else None,
                "txn_id": np.ma.masked_equal(txns, NO_TXN) if self.spec.transactions else None,
                "outcome": outcome.value,
                "offset": np.ma.masked_less(offsets, 0),
                "called_ns": stream.called_ns[at],
                "returned_ns": returned_ns,
                "error": error,
                "value": self._forms.words(stream.number, sequences),
                "timestamp_ms": times and times.at_ms,
                "timestamp_type": times and times.types,
            }
        )
        self._count(stream, sequences, error, offsets, returned_ns, outcome)

    def _count(
        self, stream: Stream, sequences: Int64s, error: str | None, offsets: Int64s, at_ns: int, outcome: Outcome
    ) -> None:
        place = (stream.topic, stream.partition)
        if outcome is Outcome.ACKED:
            current = stream.topic_id == self.context.targets[stream.topic].topic_id
            highest = max(int(offsets.max()), NONE) if current else NONE
            called_ns = stream.called_ns[sequences % len(stream.pending)]
            self.context.meters.acked(place, called_ns, len(sequences) * self.spec.mean_bytes, highest, at_ns)
        elif error is not None:
            self.context.meters.failed(error, len(sequences), unknown=outcome is Outcome.UNKNOWN)
        tally = self._tally
        if tally is not None and stream.number in tally.first_seqs:
            mine = sequences >= tally.first_seqs[stream.number]
            tally.add(outcome, int(mine.sum()), offsets[mine])

    def _on_error(self, error: KafkaError) -> None:
        self._note_fatal(error)

    def _note_fatal(self, error: KafkaError) -> None:
        if is_fatal(error):
            self.fatal = self.fatal or error.name()

    def _statistics_of(self, incarnation: int) -> Callable[[str], None]:
        def take(text: str) -> None:
            self.context.access.note(producer_name(self.spec.name), text)
            self.context.meters.retried(f"{self.spec.name}/{incarnation}", self._sent_again(transmitted(text)))

        return take

    def _sent_again(self, sent: Mapping[Place, int]) -> int:
        """Transmissions minus queued records: a lower bound of retries, since some records may never have been sent.

        librdkafka's own `txretries` does not count produce requests: their records return to the partition's queue.
        """
        return sum(max(0, sent.get(place, 0) - stream.next_seq) for place, stream in list(self._streams.items()))

    def _identity(self) -> Identity:
        spec = self.spec
        return Identity(
            producer=spec.name,
            acks="all" if str(self._settings["acks"]) == "-1" else str(self._settings["acks"]),
            idempotent=is_idempotent(self._settings),
            transactional=spec.transactions is not None,
            client=CLIENT_NAME if self.context.java is None else self.context.java.name,
            tries_recorded=self.context.java is None and self.context.failed_sends is not None,
        )


def records_of(values: list[bytes], keys: list[bytes] | None, *, headed: bool, forms: Int8s | None) -> list[Record]:
    """Records for `enqueue`. Where `forms` says null or empty, `values` has the certificate; None: all are whole."""
    messages: list[Record] = [{"value": value} for value in values]
    for message, key in zip(messages, keys or (), strict=False):
        message["key"] = key
    if headed:
        for message in messages:
            message["headers"] = headers_of(message["value"])
    if forms is not None:
        for at in (forms != WHOLE).nonzero()[0].tolist():
            bare = None if forms[at] == NULL else b""
            messages[at] |= {"value": bare, "headers": [(SELF, values[at])]}
    return messages


def enqueue(
    client: confluent_kafka.Producer, spec: Producer, place: Place, messages: list[Record], report: Report
) -> int:
    """Puts records into the client's queue: as one batch, or one by one if they have headers or timestamps.

    Returns how many the client took; `error_of` says why it rejected a record.
    """
    topic = place[0]
    partition = PARTITION_UA if spec.partitioner else place[1]  # unassigned: the client's own partitioner chooses
    if not (spec.headers or spec.backdated_s or spec.tombstones or spec.empty):
        return int(client.produce_batch(topic, messages, partition=partition, on_delivery=report))
    taken = 0
    for at, message in enumerate(messages):
        reported = report if message["value"] else _certified(message["headers"][0][1], report)
        try:
            client.produce(
                topic,
                value=message["value"],
                key=message.get("key"),
                headers=message.get("headers"),
                partition=partition,
                on_delivery=reported,
                **backdated(spec.backdated_s),
            )
            taken += 1
        except BufferError:
            for waiting in messages[at:]:
                waiting["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            break
        except KafkaException as refused:
            message["_error"] = refused.args[0]
    return taken


def _certified(certificate: bytes, report: Report) -> Report:
    """Puts the certificate in place of the missing value of a report, since clients report no headers."""

    def reported(error: KafkaError | None, message: Message) -> None:
        message.set_value(certificate)
        report(error, message)

    return reported


def error_of(message: Record) -> str | None:
    """The error with which the client rejected a record; None if it took it."""
    error = message.get("_error")
    return None if error is None else str(error.name())
