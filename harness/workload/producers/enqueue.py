"""Records on their way into a client: many at once, or one by one where they bear headers or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from harness.model.clock import now_ns
from harness.model.scenario.scenario import Producer
from harness.workload.meters import Place
from harness.workload.records.payload import NULL, SELF, WHOLE, Int8s, headers_of

PARTITION_UA: Final = -1
QUEUE_FULL: Final = "_QUEUE_FULL"

Report = Callable[[KafkaError | None, Message], None]
Handed = dict[str, Any]


def messages_of(values: list[bytes], keys: list[bytes] | None, *, headed: bool, forms: Int8s | None) -> list[Handed]:
    """What `hand_over` takes. `forms` None: every value is whole; of others it is the certificate."""
    messages: list[Handed] = [{"value": value} for value in values]
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


def hand_over(
    client: confluent_kafka.Producer, spec: Producer, place: Place, messages: list[Handed], report: Report
) -> int:
    """How many the client took; those that it did not take say why (`error_of`)."""
    topic = place[0]
    partition = PARTITION_UA if spec.partitioner else place[1]  # where the client chooses, it is not told
    if not (spec.headers or spec.backdated_s or spec.tombstones or spec.empty):
        return int(client.produce_batch(topic, messages, partition=partition, on_delivery=report))
    borne: dict[str, Any] = {}
    if spec.backdated_s:
        borne["timestamp"] = now_ns() // 10**6 - spec.backdated_s * 1000
    taken = 0
    for at, message in enumerate(messages):
        reported = report if message["value"] else _certified(message["headers"][0][1], report)
        try:
            client.produce(topic, **message, **borne, partition=partition, on_delivery=reported)
            taken += 1
        except BufferError:
            for left in messages[at:]:
                left["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            break
        except KafkaException as refused:
            message["_error"] = refused.args[0]
    return taken


def _certified(certificate: bytes, report: Report) -> Report:
    """A report of a record without a value says whose it is by the certificate: clients report no headers."""

    def reported(error: KafkaError | None, message: Message) -> None:
        message.set_value(certificate)
        report(error, message)

    return reported


def error_of(message: Handed) -> str | None:
    """Why the client did not take a message; None where it did."""
    error = message.get("_error")
    return None if error is None else str(error.name())
