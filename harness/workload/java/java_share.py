"""The release's own share consumer (KIP-932), which acknowledges each record that it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException

from harness.model.place import Place
from harness.workload.java.java_consumer import Given, records
from harness.workload.java.java_process import JavaClients, JavaError, JavaProcess, content, long, number

ACCEPT: Final = "accept"
RELEASE: Final = "release"
REJECT: Final = "reject"
_IDS: Final = {ACCEPT: b"\1", RELEASE: b"\2", REJECT: b"\3"}  # AcknowledgeType
_CALL_S: Final = 30.0
_ANSWER_S: Final = 10.0
_CLOSE_S: Final = 5.0

Answers = Sequence[tuple[int, str]]  # an offset, and ACCEPT, RELEASE or REJECT


class JavaShareConsumer(JavaProcess):
    """Belongs to one thread. Every record of a poll must be acknowledged before the next poll."""

    def __init__(self, clients: JavaClients, settings: Mapping[str, object]) -> None:
        self.counts: list[int] = []  # delivery counts of the records of the last poll, as the broker reports them
        super().__init__(clients, "ClientShare", settings)

    def subscribe(self, topics: Sequence[str]) -> None:
        self.ask("subscribe", number(len(topics)), *map(content, topics), timeout_s=_CALL_S)

    def consume(self, _: int, timeout_s: float) -> list[Given]:
        """The records of one poll, or its error as a message; `max.poll.records` limits them."""
        self.counts = []
        try:
            fields = self.ask("poll", number(int(timeout_s * 1000)), timeout_s=_CALL_S)
        except KafkaException as failure:
            error: JavaError = failure.args[0]
            return [Given(None, None, error)]
        found = records(fields)
        self.counts = [fields.i32() for _ in found]
        return found

    def acknowledge(self, answers: Mapping[Place, Answers]) -> dict[Place, str]:
        """Acknowledges records and commits that. Returns errors by partition; KafkaException if all of it failed."""
        packed = [
            content(topic)
            + number(partition)
            + number(len(each))
            + b"".join(long(offset) + _IDS[answer] for offset, answer in each)
            for (topic, partition), each in answers.items()
        ]
        fields = self.ask(
            "acknowledge",
            number(int(_ANSWER_S * 1000)),
            number(len(packed)),
            *packed,
            timeout_s=_ANSWER_S + _CALL_S,
        )
        reported = {(fields.text(), fields.i32()): fields.text() for _ in range(fields.i32())}
        return {place: reported.get(place, "_NO_ANSWER") for place in answers if reported.get(place, "_NO_ANSWER")}

    def close(self, within_s: float = _CLOSE_S) -> None:
        super().close(within_s)
