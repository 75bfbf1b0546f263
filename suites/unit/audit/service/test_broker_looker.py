"""Looks of brokers are put together by partition, with what leaders are asked beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from harness.audit.engine.looker import Asked
from harness.audit.feeds.looks import Look, Target
from harness.audit.look import PartitionLook
from harness.audit.service import broker_looker
from harness.audit.service.broker_looker import LEADERLESS, UNANSWERED, BrokerLooker
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.leader_lookups import EpochEnd
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import HarnessFailure
from harness.model.place import Place

ORDERS = Asked("orders", "T", 0, 1, 5, (1, 2, 3), False)
HERE = Look("orders", 0, 1, 5, 10, None, None, 90, 100, 101, None)


class FakeBrokers:
    """Three brokers; the rows of those that answer."""

    def __init__(self) -> None:
        self.ids: tuple[int, ...] = (1, 2, 3)
        self.rows: dict[int, list[Look]] = {
            1: [HERE],
            2: [Look("orders", 0, 2, 5, None, None, None, None, None, 100, None)],
            3: [Look("orders", 0, 3, 5, None, None, None, None, None, 98, None)],
        }
        self.asked: list[int] = []
        self.targets: dict[int, list[Target]] = {}
        self.refreshed = 0

    def link(self, broker: int) -> SimpleNamespace:
        return SimpleNamespace(silent_since_s=None if broker in self.rows else 1.0)

    def refresh(self, timeout_s: float) -> None:
        self.refreshed += 1

    def close(self) -> None: ...


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> FakeBrokers:
    made = FakeBrokers()

    def look_once(_: Brokers, broker: int, targets: Iterable[Target], timeout_s: float) -> Iterator[Look]:
        made.asked.append(broker)
        made.targets[broker] = list(targets)
        if broker not in made.rows:
            raise Unanswered(f"broker {broker}: connection refused")
        yield from made.rows[broker]

    monkeypatch.setattr(broker_looker, "look_once", look_once)
    for name in ("epochs_before", "first_since", "log_sizes"):
        monkeypatch.setattr(broker_looker, name, lambda *_: {})
    return made


def looker(brokers: FakeBrokers, settings: Mapping[str, str] | None = None) -> BrokerLooker:
    made = BrokerLooker(cast(Brokers, brokers))
    made.setting = lambda _topic, key: (settings or {}).get(key)
    return made


def only(looks: Iterable[PartitionLook]) -> PartitionLook:
    (look,) = looks
    return look


def test_a_look_has_the_leaders_offsets_and_the_log_end_of_every_replica(brokers: FakeBrokers) -> None:
    look = only(looker(brokers).look([ORDERS]))
    assert look.offsets == Offsets(leader_epoch=5, log_start=10, high_watermark=100, log_end=101)
    assert (look.error, look.stable, look.log_ends) == (None, 90, {1: 101, 2: 100, 3: 98})
    assert look.asked_ns <= look.answered_ns
    assert brokers.targets == {
        1: [Target("orders", 0, 5, leads=True)],
        2: [Target("orders", 0, 5, leads=False)],
        3: [Target("orders", 0, 5, leads=False)],
    }


def test_a_silent_follower_is_absent_and_a_silent_leader_is_an_error(brokers: FakeBrokers) -> None:
    del brokers.rows[2]
    look = only(looker(brokers).look([ORDERS]))
    assert (look.error, look.log_ends) == (None, {1: 101, 3: 98})
    assert brokers.asked == [1, 3, 2]  # the silent one comes last
    del brokers.rows[1]
    look = only(looker(brokers).look([ORDERS]))
    assert (look.error, look.offsets, look.log_ends) == (UNANSWERED, Offsets(), {3: 98})


def test_an_error_of_the_leader_is_that_of_the_look(brokers: FakeBrokers) -> None:
    brokers.rows[1] = [Look("orders", 0, 1, None, None, None, None, None, None, None, "FENCED_LEADER_EPOCH")]
    assert only(looker(brokers).look([ORDERS])).error == "FENCED_LEADER_EPOCH"


def test_without_a_leader_only_log_ends_are_read(brokers: FakeBrokers) -> None:
    gone = Asked("orders", "T", 0, -1, 6, (2, 3), False)
    look = only(looker(brokers).look([gone]))
    assert (look.error, look.log_ends) == (LEADERLESS, {2: 100, 3: 98})


def test_no_broker_at_all_is_a_failure(brokers: FakeBrokers) -> None:
    brokers.rows.clear()
    with pytest.raises(HarnessFailure, match="broker 1: connection refused; broker 2"):
        only(looker(brokers).look([ORDERS]))


def test_topics_that_may_not_be_described_are_named_until_they_may(brokers: FakeBrokers) -> None:
    made = looker(brokers)
    forbidden = Look("orders", 0, 1, None, None, None, None, None, None, None, "TOPIC_AUTHORIZATION_FAILED")
    brokers.rows[1] = [forbidden]
    only(made.look([ORDERS]))
    assert made.forbidden == {"orders"}
    brokers.rows[1] = [HERE]
    only(made.look([ORDERS]))
    assert made.forbidden == frozenset()


def test_the_start_of_a_new_epoch_is_asked_for_once(brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[Place, int]] = []

    def epochs_before(_: Brokers, leader: int, epochs: Mapping[Place, int]) -> dict[Place, EpochEnd]:
        asked.append(epochs)
        return {("orders", 0): EpochEnd(3, 80)}

    monkeypatch.setattr(broker_looker, "epochs_before", epochs_before)
    made = looker(brokers)
    assert [only(made.look([ORDERS])).epochs, only(made.look([ORDERS])).epochs] == [[(5, 80)], ()]
    assert asked == [{("orders", 0): 5}]


def test_an_epoch_whose_start_was_not_answered_is_asked_for_again(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def silent(*_: object) -> dict[Place, EpochEnd]:
        tries.append(1)
        raise Unanswered("no answer")

    monkeypatch.setattr(broker_looker, "epochs_before", silent)
    made = looker(brokers)
    assert [only(made.look([ORDERS])).epochs for _ in range(2)] == [(), ()]
    assert len(tries) == 2


def test_what_an_earlier_look_found_to_be_young_comes_with_the_next_one(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_looker, "first_since", lambda *_: {("orders", 0): 40})
    made = looker(brokers, {"retention.ms": "60000", "cleanup.policy": "delete"})
    looks = [only(made.look([ORDERS])) for _ in range(2)]
    assert [(look.young_from, look.young_ms) for look in looks] == [(UNKNOWN, UNKNOWN), (40, 60_000)]
    unlimited = looker(brokers, {"retention.ms": "-1", "cleanup.policy": "delete"})
    compacted = looker(brokers, {"retention.ms": "60000", "cleanup.policy": "compact"})
    for other in (unlimited, compacted):
        assert [only(other.look([ORDERS])).young_from for _ in range(2)] == [UNKNOWN, UNKNOWN]


def test_the_size_comes_with_a_moved_log_start_where_retention_by_size_may_be_the_reason(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[Place]] = []

    def log_sizes(_: Brokers, broker: int, places: Sequence[Place]) -> dict[Place, int]:
        asked.append(places)
        return {("orders", 0): 5000}

    monkeypatch.setattr(broker_looker, "log_sizes", log_sizes)
    made = looker(brokers, {"retention.bytes": "1000", "cleanup.policy": "delete"})
    assert only(made.look([ORDERS])).size_bytes == UNKNOWN
    brokers.rows[1] = [HERE._replace(log_start=50)]
    assert [only(made.look([ORDERS])).size_bytes for _ in range(2)] == [5000, UNKNOWN]
    assert asked == [[("orders", 0)]]


@pytest.mark.parametrize(("partitions", "made_in_all"), [(500, 3), (3_000, 18)])
def test_requests_are_kept_if_they_can_serve_again(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch, partitions: int, made_in_all: int
) -> None:
    """Those of 500 partitions on three brokers are encoded once. Of 3,000 the first would be gone in the next round."""
    made: list[int] = []

    class Encoded:
        def __init__(self, broker: int, targets: Sequence[Target]) -> None:
            made.append(broker)

        def look(self, of: Brokers, timeout_s: float) -> Iterator[Look]:
            return iter(())

    def look_once(_: Brokers, broker: int, targets: Iterable[Target], timeout_s: float) -> Iterator[Look]:
        made.append(broker)
        return iter(())

    monkeypatch.setattr(broker_looker, "Looks", Encoded)
    monkeypatch.setattr(broker_looker, "look_once", look_once)
    looks = looker(brokers)
    orders = [replace(ORDERS, partition=number) for number in range(partitions)]
    for _ in range(2):
        for first in range(0, partitions, 1000):
            assert len(list(looks.look(orders[first : first + 1000]))) == min(1000, partitions)
    assert len(made) == made_in_all
