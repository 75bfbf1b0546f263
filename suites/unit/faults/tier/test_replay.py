"""A consumer that has fallen behind: where its passes end, and what counts as read from the tier."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.tier.replay import Replay as Fault
from harness.kafka.admin.offsets import TieredReplica
from harness.model.errors import HarnessFailure
from harness.workload.consumers.lagging_reader import Replay
from suites.unit.faults.tier.test_storage_orders import FAR

PLACE = ("far", 0)


class Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return PLACE[0]

    def partition(self) -> int:
        return PLACE[1]

    def offset(self) -> int:
        return self._offset


class Consumer:
    """Remembers what it had to read."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.begun: list[tuple[str, int, int]] = []

    def assignment(self) -> list[Any]:
        return self.taken

    def incremental_assign(self, places: list[Any]) -> None:
        self.taken = [*self.taken, *places]
        self.begun += [(p.topic, p.partition, p.offset) for p in places]

    def incremental_unassign(self, places: list[Any]) -> None:
        gone = {(p.topic, p.partition) for p in places}
        self.taken = [p for p in self.taken if (p.topic, p.partition) not in gone]


def test_a_pass_ends_at_the_end_of_the_tier_and_begins_again() -> None:
    replay, consumer = Replay("nowhere:1", {PLACE: 3}), Consumer()
    count: Any = replay._count
    count(consumer, [Message(0), Message(1)])
    assert (replay.read, replay.passes, consumer.begun) == (Counter({PLACE: 2}), Counter(), [])
    count(consumer, [Message(2), Message(3), Message(0)])
    assert (replay.read[PLACE], replay.passes[PLACE]) == (3, 1)
    count(consumer, [Message(0), Message(4)])
    assert [of[:2] for of in consumer.begun] == [PLACE, PLACE]
    assert len(consumer.taken) == 1


class Reading:
    """Stands in for the consumer of the load."""

    def __init__(self, wrong: str | None = None) -> None:
        self.read: Counter[tuple[str, int]] = Counter()
        self.stopped, self.wrong = False, wrong

    def start(self) -> None: ...

    def stop(self) -> None:
        self.stopped = True

    def join(self, deadline_s: float) -> str | None:
        return self.wrong


def context_of(reading: Reading, starts: dict[int, int], asked: list[Any]) -> Any:
    """One partition, led by broker 1; `starts`: where each broker's log begins."""

    def replay(until: Any) -> Reading:
        asked.append(until)
        return reading

    reported = {("far", 0, broker): TieredReplica(0, start, 99, None) for broker, start in starts.items()}
    leader = SimpleNamespace(topic="far", partition=0, leader=1)
    return SimpleNamespace(
        topics=[FAR],
        places=lambda on: [PLACE],
        load=SimpleNamespace(replay=replay),
        admin=SimpleNamespace(tiered_replicas=lambda topics: reported, partitions=lambda topics: [leader]),
    )


def test_records_below_the_local_log_of_the_leader_prove_the_effect() -> None:
    reading, asked = Reading(), []  # type: ignore[var-annotated]
    with Fault(on=("far/0",)).active(context_of(reading, {1: 50, 2: 70}, asked)) as injection:
        assert asked == [{PLACE: 50}]
        assert injection.probe().because == "no tiered record of far/0 was read"
        reading.read[PLACE] = 7
        effect = injection.probe()
        assert (effect.held, effect.because) == (True, "7 records were read from the remote tier")
        assert not reading.stopped
    assert reading.stopped


def test_without_records_only_in_the_tier_there_is_nothing_to_read() -> None:
    with Fault().active(context_of(Reading(), {1: 0, 2: 70}, [])) as injection:
        assert injection.probe().because == "no tiered record of any partition was read"


def test_a_consumer_that_died_is_reported() -> None:
    with (
        pytest.raises(HarnessFailure, match="replay far/0 died"),
        Fault().active(context_of(Reading("replay far/0 died: no"), {1: 5}, [])),
    ):
        pass
