"""The release's own member of a share group (KIP-932): what it is given, it answers, record by record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from harness.workload.java.java_consumer import Given, records
from harness.workload.java.java_process import JavaClients, JavaError, JavaProcess, content, long, number
from harness.workload.meters import Place

ACCEPT: Final = "accept"
RELEASE: Final = "release"
REJECT: Final = "reject"
_IDS: Final = {ACCEPT: b"\1", RELEASE: b"\2", REJECT: b"\3"}  # AcknowledgeType
_CALL_S: Final = 30.0
_ANSWER_S: Final = 10.0
_CLOSE_S: Final = 5.0

Answers = Sequence[tuple[int, str]]  # an offset, and what is answered to it


class JavaShareConsumer(JavaProcess):
    """Belongs to one thread. Every record of a poll has to be answered before the next one."""

    def __init__(self, clients: JavaClients, settings: Mapping[str, Any]) -> None:
        self.counts: list[int] = []  # of the last poll, for each record how often brokers say that it was given
        super().__init__(clients, "ClientShare", settings)

    def subscribe(self, topics: Sequence[str]) -> None:
        self.ask("subscribe", number(len(topics)), *map(content, topics), timeout_s=_CALL_S)

    def consume(self, _: int, timeout_s: float) -> list[Given]:
        """Records of one poll, or the error of it as a message; `max.poll.records` bounds them."""
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
        """The error of each partition that has one, or of which nothing was said. KafkaException: of all of them."""
        packed = [
            content(topic) + number(partition) + number(len(each)) + b"".join(long(at) + _IDS[how] for at, how in each)
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
