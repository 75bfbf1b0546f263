"""Members of share groups (KIP-932): the records that each got, how it acknowledged them, and the broker's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final, cast

from confluent_kafka import Consumer, KafkaException, Message

from harness.evidence.writer import TableWriter
from harness.model.clock import now_ns
from harness.model.outcome import Outcome
from harness.model.place import Place
from harness.model.scenario.scenario import Reader
from harness.workload.consumers.crashing_consumer import Death, spans
from harness.workload.consumers.live_readers import POLL_S, LiveReader, ReadContext, split
from harness.workload.java.java_process import JavaError
from harness.workload.java.java_settings import share_settings
from harness.workload.java.java_share import ACCEPT, REJECT, RELEASE, JavaShareConsumer
from harness.workload.records.observations import POLL_RECORDS

_LOOK_S: Final = 0.05

Acked = Callable[[], Mapping[Place, int]]
Counts = Mapping[tuple[str, int, int], int]  # by topic, partition and offset: how often the broker delivered it


class ShareReader(LiveReader):
    """Accepts each record after it has observed it, or releases or rejects some, as its scenario says.

    It can die with records that it has not acknowledged: its process is killed or frozen, and a new member replaces it.
    `acked`: returns the highest acked offset of each partition so far. `alone`: it is the only member of its group.
    """

    def __init__(
        self,
        spec: Reader,
        context: ReadContext,
        observations: TableWriter,
        deliveries: TableWriter,
        acked: Acked,
        *,
        alone: bool,
    ) -> None:
        super().__init__(spec, context, observations)
        self._deliveries = deliveries
        self._acked = acked
        self._alone = alone
        self._positions: dict[Place, int] = {}
        self._accepted: dict[Place, int] = {}
        self._death: Death | None = None
        self._frozen: dict[JavaShareConsumer, Death] = {}

    @property
    def positions(self) -> dict[Place, int]:
        """The offset after the highest one that it got, by partition."""
        return self._positions

    @property
    def committed(self) -> dict[Place, int]:
        """The offset after the highest one that the broker confirmed as acknowledged, by partition."""
        return self._accepted

    def reads(self, topic: str) -> bool:
        """Whether it reads a topic."""
        return topic in self.spec.topics

    def die(self, records: int, *, frozen: bool = False) -> Death:
        """From another thread: the member dies with the unacknowledged records of the next poll of at least so many.

        Smaller polls it acknowledges as usual. The only member of a group polls only when so many records are there.
        """
        self._death = Death(records, frozen=frozen)
        return self._death

    def _consumer(self) -> Consumer:
        assert self.context.java is not None
        client_id = f"{self.spec.name}-{self.context.run:x}"
        java = JavaShareConsumer(self.context.java, share_settings(self.spec, self.context.bootstrap, client_id))
        return cast(Consumer, java)

    def _begin(self, consumer: Consumer) -> None:
        consumer.subscribe(list(self.spec.topics))

    def _current(self, consumer: Consumer) -> Consumer:
        death = self._death
        if death is None or death.between is None:
            return consumer
        self._death = None
        return self._another()

    def _close_consumer(self, consumer: Consumer) -> None:
        self._kill_frozen(list(self._frozen))
        super()._close_consumer(consumer)

    def _kill_frozen(self, consumers: Sequence[JavaShareConsumer]) -> None:
        for consumer in consumers:
            consumer.kill()
            del self._frozen[consumer]

    def _turn(self, consumer: Consumer) -> None:
        self._kill_frozen([frozen for frozen, death in self._frozen.items() if death.called_off])
        death = self._death
        if death is not None and death.called_off:
            death = self._death = None
        self.last_turn_ns = now_ns()
        if death is not None and self._alone and self._waiting() < death.records:
            self._stopping.wait(_LOOK_S)
            return
        records, errors = split(consumer.consume(POLL_RECORDS, POLL_S))
        given_ns = self.last_turn_ns = now_ns()
        if records:
            self._handle(cast(JavaShareConsumer, consumer), records, given_ns, self._death)
        for message in errors:
            self._on_error(consumer, message)

    def _waiting(self) -> int:
        """How many offsets up to the highest acked ones it has not got yet."""
        acked = {place: offset for place, offset in self._acked().items() if place[0] in self.spec.topics}
        return sum(max(0, offset + 1 - self._positions.get(place, 0)) for place, offset in acked.items())

    def _handle(
        self, consumer: JavaShareConsumer, records: Sequence[Message], given_ns: int, death: Death | None
    ) -> None:
        counts = dict(zip(map(_key, records), consumer.counts, strict=True))
        by_place: dict[Place, list[int]] = {}
        for run in _runs(records):
            place = _key(run[0])[:2]
            self._observer.new_session([place])
            self._observer.observe(run)
            offsets = [_key(record)[2] for record in run]
            by_place.setdefault(place, []).extend(offsets)
            self._positions = self._positions | {place: max(self._positions.get(place, 0), offsets[-1] + 1)}
        if death is not None and len(records) >= death.records:
            if death.frozen:
                consumer.freeze()
                self._frozen[consumer] = death
            else:
                consumer.kill()
            for place, offsets in by_place.items():
                self._write(place, offsets, counts, None, None, given_ns)
            death.between = spans(records)
            return
        if death is not None:
            death.held = list(records)  # of the last poll, for the report of the step
        self._acknowledge(consumer, by_place, counts, given_ns)

    def _acknowledge(
        self, consumer: JavaShareConsumer, by_place: Mapping[Place, list[int]], counts: Counts, given_ns: int
    ) -> None:
        answers = {
            place: [(offset, self._answer(offset, counts[*place, offset])) for offset in offsets]
            for place, offsets in by_place.items()
        }
        try:
            errors = consumer.acknowledge(answers)
        except KafkaException as failure:
            error: JavaError = failure.args[0]
            errors = dict.fromkeys(answers, error.name())
            if error.fatal():
                self._reported(by_place, counts, errors, given_ns)
                raise
        self._reported(by_place, counts, errors, given_ns)

    def _reported(
        self, by_place: Mapping[Place, list[int]], counts: Counts, errors: Mapping[Place, str], given_ns: int
    ) -> None:
        for place, offsets in by_place.items():
            error = errors.get(place)
            if error is None:
                self.acked_commits += 1
                self._accepted = self._accepted | {place: max(self._accepted.get(place, 0), offsets[-1] + 1)}
            self._write(place, offsets, counts, Outcome.UNKNOWN if error else Outcome.ACKED, error, given_ns)

    def _answer(self, offset: int, count: int) -> str:
        """The answer to a delivery of an offset, the same for every member. count: its delivery count."""
        if self._fails(offset, self.spec.releases_every) and (not self.spec.releases or count <= self.spec.releases):
            return RELEASE
        return REJECT if self._fails(offset, self.spec.rejects_every) else ACCEPT

    @staticmethod
    def _fails(offset: int, every: int) -> bool:
        return bool(every) and offset % every == every - 1

    def _write(
        self,
        place: Place,
        offsets: Sequence[int],
        counts: Counts,
        outcome: Outcome | None,
        error: str | None,
        given_ns: int,
    ) -> None:
        self._deliveries.append(
            {
                "group": self.spec.group,
                "reader": self.spec.name,
                "topic": place[0],
                "topic_id": self.context.targets[place[0]].topic_id,
                "partition": place[1],
                "offset": offsets,
                "count": [counts[*place, offset] for offset in offsets],
                "answer": [self._answer(o, counts[*place, o]) for o in offsets] if outcome else None,
                "outcome": outcome.value if outcome else None,
                "error": error,
                "given_ns": given_ns,
                "returned_ns": now_ns() if outcome else None,
            }
        )


def _runs(records: Sequence[Message]) -> list[list[Message]]:
    """Splits records into runs of one partition with consecutive offsets; other members may have got those between."""
    steps = enumerate(records)
    return [
        [record for _, record in run]
        for _, run in groupby(steps, lambda at: (*_key(at[1])[:2], _key(at[1])[2] - at[0]))
    ]


def _key(record: Message) -> tuple[str, int, int]:
    return str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)
