"""Records on their way into a client: many at once, or one by one with what it takes in no other way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from harness.model.clock import now_ns
from harness.model.scenario import Producer
from harness.workload.meters import Place
from harness.workload.payload import headers_of

QUEUE_FULL: Final = "_QUEUE_FULL"

Report = Callable[[KafkaError | None, Message], None]


def hand_over(
    client: confluent_kafka.Producer, spec: Producer, place: Place, messages: list[dict[str, Any]], report: Report
) -> int:
    """How many the client took; those that it did not take say why (`error_of`)."""
    topic, partition = place
    if not (spec.headers or spec.backdated_s):
        return int(client.produce_batch(topic, messages, partition=partition, on_delivery=report))
    borne: dict[str, Any] = {}
    if spec.backdated_s:
        borne["timestamp"] = now_ns() // 10**6 - spec.backdated_s * 1000
    taken = 0
    for at, message in enumerate(messages):
        if spec.headers:
            borne["headers"] = headers_of(message["value"])
        try:
            client.produce(topic, **message, **borne, partition=partition, on_delivery=report)
            taken += 1
        except BufferError:
            for left in messages[at:]:
                left["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            break
        except KafkaException as refused:
            message["_error"] = refused.args[0]
    return taken


def error_of(message: dict[str, Any]) -> str | None:
    """Why the client did not take a message; None where it did."""
    error = message.get("_error")
    return None if error is None else str(error.name())
