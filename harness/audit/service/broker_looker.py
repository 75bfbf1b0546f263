"""Looks at partitions by asking their brokers, and puts the answers of all replicas of a partition together.

A look binds the offsets to the leader epoch that the metadata log has. When that epoch is new, the look also has its
first offset. For partitions with retention by time it has the first record that retention may not delete yet, and when
a log start moved, the size of the log.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from harness.audit.engine.looker import Asked
from harness.audit.feeds.looks import Look, Looks, Target, look_once
from harness.audit.look import PartitionLook
from harness.audit.service.per_partition import PerPartition
from harness.audit.service.young_records import YoungRecords, young_time_ms
from harness.audit.store.partitions import UNKNOWN, Offsets
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.leader_lookups import epochs_before, first_since, log_sizes
from harness.kafka.admin.wire import ANSWER_S, Unanswered
from harness.model.errors import HarnessFailure
from harness.model.history.changes import NO_LEADER
from harness.model.place import Place

UNANSWERED: Final = "UNANSWERED"  # in the place of Kafka's error where the broker was silent
LEADERLESS: Final = "LEADER_NOT_AVAILABLE"
_KEPT: Final = 6_000  # replicas with requests that are kept encoded, at about 500 bytes each
_KEPT_FROM: Final = 100  # replicas of a request that is worth to be kept
_SUSPECT_S: Final = 0.3  # for a broker that did not answer the last request
_REFRESH_S: Final = 2.0  # at most so often the addresses of brokers are read again
_SWEEP_S: Final = 600.0
_FORBIDDEN: Final = "TOPIC_AUTHORIZATION_FAILED"
_LOOKUPS: Final = 100  # by time, for each order of looks: a leader may have to read its disk for each
Setting = Callable[[str, str], str | None]  # topic, key
_Answer = TypeVar("_Answer")


class BrokerLooker:
    """A `Looker`. setting: the effective settings of topics. exists: whether a topic id does. Its thread asks both.

    forbidden: the topics that this client may not describe, as the last looks at them showed.
    """

    def __init__(self, brokers: Brokers) -> None:
        self.setting: Setting = lambda _topic, _key: None
        self.exists: Callable[[str], bool] = lambda _topic_id: True
        self.forbidden: frozenset[str] = frozenset()
        self._brokers = brokers
        self._kept: dict[tuple[int, tuple[Target, ...]], Looks] = {}
        self._served: set[tuple[int, tuple[Target, ...]]] = set()  # those of them that were used again
        self._keep_from_s = 0.0  # monotonic
        self._refreshed_s = -_REFRESH_S
        self._swept_s = time.monotonic()
        self._epochs = PerPartition("i", UNKNOWN)  # the newest one with a known start
        self._starts = PerPartition("q", UNKNOWN)  # log start offsets of the last looks
        self._young = YoungRecords()

    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]:
        """HarnessFailure if no broker could be asked at all."""
        self._learn_addresses(asked)
        self._forget_deleted()
        epochs = self._new_epochs(asked)
        asked_ns = time.time_ns()
        rows, silent = self._ask(asked)
        if not rows and silent:
            raise HarnessFailure("; ".join(sorted(silent.values())))
        answered_ns = time.time_ns()
        led = _led(asked, rows)
        self._note_forbidden(rows)
        young = self._young_from(led)
        sizes = self._sizes(led)
        for of in asked:
            place = of.topic, of.partition
            seen = rows.get(place, {})
            young_from, young_ms = young.get(place, (UNKNOWN, UNKNOWN))
            yield PartitionLook(
                topic=of.topic,
                topic_id=of.topic_id,
                partition=of.partition,
                asked_ns=asked_ns,
                answered_ns=answered_ns,
                offsets=_offsets(led[place][1]) if place in led else Offsets(),
                stable=_or_unknown(led[place][1].stable) if place in led else UNKNOWN,
                log_ends={broker: look.log_end for broker, look in seen.items() if look.log_end is not None},
                error=None if place in led else _error(of, seen),
                epochs=epochs.get(place, ()) if place in led else (),
                young_from=young_from,
                young_ms=young_ms,
                size_bytes=sizes.get(place, UNKNOWN),
            )

    @property
    def received_bytes(self) -> int:
        """All bytes that brokers have answered."""
        return self._brokers.received_bytes

    def close(self) -> None:
        self._brokers.close()

    def _learn_addresses(self, asked: Sequence[Asked]) -> None:
        """Reads the addresses of brokers again when one is asked for that is not known, or that is silent."""
        now_s = time.monotonic()
        known = set(self._brokers.ids)
        wanted = {broker for of in asked for broker in of.replicas}
        if now_s - self._refreshed_s < _REFRESH_S or not (wanted - known or self._silent(wanted & known)):
            return
        self._refreshed_s = now_s
        try:
            self._brokers.refresh(ANSWER_S)
        except Unanswered:
            return  # the brokers that are known are asked

    def _forget_deleted(self) -> None:
        now_s = time.monotonic()
        if now_s - self._swept_s > _SWEEP_S:
            self._swept_s = now_s
            for kept in (self._epochs, self._starts, self._young):
                kept.keep(self.exists)

    def _note_forbidden(self, rows: Mapping[Place, Mapping[int, Look]]) -> None:
        seen = {topic for topic, _ in rows}
        now = {topic for (topic, _), of in rows.items() if any(look.error == _FORBIDDEN for look in of.values())}
        if now or seen & self.forbidden:
            self.forbidden = (self.forbidden - seen) | now

    def _silent(self, brokers: Iterable[int]) -> set[int]:
        return {broker for broker in brokers if self._brokers.link(broker).silent_since_s is not None}

    def _ask(self, asked: Sequence[Asked]) -> tuple[dict[Place, dict[int, Look]], dict[int, str]]:
        """The rows by partition and broker, and why brokers were silent. Those come last, in less time."""
        by_broker: dict[int, list[Target]] = defaultdict(list)
        for of in asked:
            for broker in of.replicas:
                leads = broker == of.leader
                by_broker[broker].append(Target(of.topic, of.partition, of.leader_epoch, leads, of.tiered and leads))
        known = set(self._brokers.ids)
        suspects = self._silent(by_broker.keys() & known)
        rows: dict[Place, dict[int, Look]] = defaultdict(dict)
        silent: dict[int, str] = {}
        for broker in sorted(by_broker, key=lambda broker: (broker in suspects, broker)):
            try:
                for look in self._looks(broker, by_broker[broker], _SUSPECT_S if broker in suspects else ANSWER_S):
                    rows[look.topic, look.partition][broker] = look
            except Unanswered as why:
                silent[broker] = str(why)
        return rows, silent

    def _looks(self, broker: int, targets: list[Target], timeout_s: float) -> Iterator[Look]:
        key = broker, tuple(targets)
        looks = self._kept.pop(key, None)
        worth = _KEPT_FROM <= len(targets) <= _KEPT // 4 and time.monotonic() >= self._keep_from_s
        if looks is not None:
            self._served.add(key)
        elif not worth:
            yield from look_once(self._brokers, broker, targets, timeout_s)
            return
        looks = self._kept[key] = looks or Looks(broker, targets)
        while sum(len(of[1]) for of in self._kept) > _KEPT:
            self._drop(next(iter(self._kept)))
        yield from looks.look(self._brokers, timeout_s)

    def _drop(self, oldest: tuple[int, tuple[Target, ...]]) -> None:
        """Makes room. In a large cluster no request would be there when its turn comes again, so none is kept then."""
        del self._kept[oldest]
        if oldest not in self._served:
            self._kept.clear()
            self._served.clear()
            self._keep_from_s = time.monotonic() + _SWEEP_S
        self._served.discard(oldest)

    # Questions to leaders alone, and only now and then

    def _new_epochs(self, asked: Sequence[Asked]) -> dict[Place, Sequence[tuple[int, int]]]:
        """The first offset of each present leader epoch that is new to this looker.

        It is asked before the log start offset, because a deletion in between moves the starts of epochs, too.
        """
        known = set(self._brokers.ids)
        ready = known - self._silent(known)
        wanted: dict[int, dict[Place, Asked]] = defaultdict(dict)
        for of in asked:
            if of.leader in ready and self._epochs.get(of) != of.leader_epoch:
                wanted[of.leader][of.topic, of.partition] = of
        found: dict[Place, Sequence[tuple[int, int]]] = {}
        for leader, places in wanted.items():
            epochs = {place: of.leader_epoch for place, of in places.items()}
            for place, end in _answer(partial(epochs_before, self._brokers, leader, epochs)).items():
                found[place] = [(places[place].leader_epoch, end.next_start)]
            for place, of in places.items():
                if place in found or of.leader_epoch == 0:
                    self._epochs.put(of, of.leader_epoch)
        return found

    def _young_from(self, led: Mapping[Place, tuple[Asked, Look]]) -> dict[Place, tuple[int, int]]:
        """The answers of earlier looks, as far as they hold until now, and the retention.ms that they are about. Asks
        leaders again where that is due."""
        now_s, known = time.monotonic(), dict[Place, tuple[int, int]]()
        due: dict[int, dict[Place, tuple[int, int]]] = defaultdict(dict)
        left = _LOOKUPS
        for place, (of, _) in led.items():
            retention_ms = _limit(self.setting, of.topic, "retention.ms")
            self._young.saw(of, retention_ms, now_s)
            if retention_ms is None:
                continue
            if (offset := self._young.get(of, now_s)) is not None:
                known[place] = offset, retention_ms
            if left and self._young.due(of, now_s):
                left -= 1
                due[of.leader][place] = of.leader_epoch, young_time_ms(retention_ms)
        for leader, times in due.items():
            answered = _answer(partial(first_since, self._brokers, leader, times))
            for place in times:
                self._young.put(led[place][0], answered.get(place, UNKNOWN), now_s)
        return known

    def _sizes(self, led: Mapping[Place, tuple[Asked, Look]]) -> dict[Place, int]:
        """The sizes of logs with a start that has moved, where retention by size may be the reason."""
        moved: dict[int, list[Place]] = defaultdict(list)
        for place, (of, look) in led.items():
            before, now = self._starts.get(of), _or_unknown(look.log_start)
            self._starts.put(of, now)
            if before not in (UNKNOWN, now) and _limit(self.setting, of.topic, "retention.bytes") is not None:
                moved[of.leader].append(place)
        found: dict[Place, int] = {}
        for leader, places in moved.items():
            found.update(_answer(partial(log_sizes, self._brokers, leader, places)))
        return found


def _led(asked: Sequence[Asked], rows: Mapping[Place, Mapping[int, Look]]) -> dict[Place, tuple[Asked, Look]]:
    """The partitions with a leader that answered without an error, and its row."""
    found = {}
    for of in asked:
        look = rows.get((of.topic, of.partition), {}).get(of.leader)
        if look is not None and look.error is None and look.leader_epoch is not None:
            found[of.topic, of.partition] = of, look
    return found


def _offsets(of: Look) -> Offsets:
    assert of.leader_epoch is not None  # see _led
    return Offsets(
        leader_epoch=of.leader_epoch,
        log_start=_or_unknown(of.log_start),
        high_watermark=_or_unknown(of.high_watermark),
        log_end=_or_unknown(of.log_end),
        local_log_start=_or_unknown(of.local_log_start),
        highest_tiered=_or_unknown(of.tiered),
    )


def _error(of: Asked, seen: Mapping[int, Look]) -> str:
    if of.leader == NO_LEADER:
        return LEADERLESS
    look = seen.get(of.leader)
    return UNANSWERED if look is None or look.error is None else look.error


def _or_unknown(offset: int | None) -> int:
    return UNKNOWN if offset is None else offset


def _limit(setting: Setting, topic: str, key: str) -> int | None:
    """A limit of retention; None if there is none, or if it is not known."""
    value = setting(topic, key)
    if value is None or "delete" not in (setting(topic, "cleanup.policy") or ""):
        return None
    return int(value) if value.isdigit() else None


def _answer(ask: Callable[[], dict[Place, _Answer]]) -> dict[Place, _Answer]:
    """Nothing where the leader does not answer: the look is without this then."""
    try:
        return ask()
    except Unanswered:
        return {}
