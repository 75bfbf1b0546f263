"""The state of the cluster as brokers describe it, where no metadata log can be read: snapshots without a log.

Changes between two questions are not seen, and the order of changes is not known. So every portion is a snapshot, from
which rules draw no conclusions about elections. Only DESCRIBE and DESCRIBE_CONFIGS are needed. A broker that is cut off
describes an old state; the next one is asked for the next time, and the highest leader epoch of a topic id counts.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, TextIO

from harness.audit.feeds.feed import FeedSilent, Portion
from harness.audit.feeds.settings import SettingSource, broker_settings, topic_settings
from harness.audit.feeds.states import PartitionSeen, partition_states
from harness.audit.service.per_partition import PerPartition
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import ANSWER_S, Unanswered, finalized_levels, versions_call
from harness.model.history.log import Entry, Fields, Record, Snapshot

EPOCH: Final = 0  # of the snapshots: there is no quorum leader that wrote them
_TOPIC: Final = 2  # ConfigResource.Type
_BROKER: Final = 4
_EVERY_S_MIN: Final = 2.0
_PARTITIONS_S: Final = 500  # at most so many are described a second, over time
_TOPICS_S: Final = 25  # the same for settings of topics


class DescribedFeed:
    """A `Feed`. A poll gives a snapshot when something has changed since the last one, and else None."""

    def __init__(self, brokers: Brokers) -> None:
        self.name = "the brokers' descriptions of their state, without the metadata log"
        self._brokers = brokers
        self._turn = 0
        self._made = 0  # snapshots
        self._digest = ""
        self._due_s = 0.0
        self._settings_due_s = 0.0
        self._settings: list[tuple[int, str, str, str]] = []  # (kind, name, key, value)
        self._epochs = PerPartition("i", -1)  # the highest leader epochs
        self._spool: TextIO | None = None

    def poll(self, wait_s: float) -> Portion | None:
        """FeedSilent when no broker describes the cluster."""
        left_s = self._due_s - time.monotonic()
        if left_s > 0:
            time.sleep(min(left_s, wait_s))
            return None
        try:
            return self._describe()
        except Unanswered as silent:
            raise FeedSilent(f"{self.name}: {silent}") from silent

    def close(self) -> None:
        self._brokers.close()
        self._drop()

    def _describe(self) -> Portion | None:
        self._brokers.refresh(ANSWER_S)
        spool = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - the snapshot reads it later
        digest, topics, partitions = hashlib.sha256(), set[str](), 0
        try:
            for seen in partition_states(self._brokers, self._next_broker()):
                if self._is_old(seen):
                    raise Unanswered(f"broker {self._turn} describes an old state of {seen.topic}/{seen.partition}")
                topics.add(seen.topic)
                partitions += 1
                text = json.dumps(seen)
                digest.update(text.encode())
                spool.write(f"{text}\n")
            self._read_settings(sorted(topics))
            digest.update(json.dumps(sorted(self._settings)).encode())
        except BaseException:
            spool.close()
            raise
        self._due_s = time.monotonic() + max(_EVERY_S_MIN, partitions / _PARTITIONS_S)
        if digest.hexdigest() == self._digest:
            spool.close()
            return None
        self._drop()
        self._digest, self._spool = digest.hexdigest(), spool
        self._made += 1
        now_ms = int(time.time() * 1000)
        snapshot = Snapshot(
            self._made, EPOCH, now_ms, _Entries(spool, self._made - 1, now_ms, self._settings, self._levels())
        )
        return Portion(snapshot, (), self._made, self._made, time.monotonic())

    def _next_broker(self) -> int:
        brokers = self._brokers.ids
        if not brokers:
            raise Unanswered("no broker is known")
        self._turn += 1
        return brokers[self._turn % len(brokers)]

    def _is_old(self, seen: PartitionSeen) -> bool:
        highest = self._epochs.get(seen)
        self._epochs.put(seen, max(highest, seen.leader_epoch))
        return seen.leader_epoch < highest

    def _read_settings(self, topics: list[str]) -> None:
        """The dynamic settings of topics and the dynamic defaults of brokers, when they are due."""
        if time.monotonic() < self._settings_due_s:
            return
        found: list[tuple[int, str, str, str]] = []
        for of in topic_settings(self._brokers, topics):
            own = ((key, one.value) for key, one in of.settings.items() if one.source is SettingSource.TOPIC)
            found += [(_TOPIC, of.name, key, value) for key, value in own if value is not None]
        defaults = broker_settings(self._brokers, self._brokers.ids[0]).settings
        dynamic = ((key, one.value) for key, one in defaults.items() if one.source is SettingSource.DYNAMIC_CLUSTER)
        found += [(_BROKER, "", key, value) for key, value in dynamic if value is not None]
        self._settings = found
        self._settings_due_s = time.monotonic() + max(_EVERY_S_MIN, len(topics) / _TOPICS_S)

    def _levels(self) -> dict[str, int]:
        with suppress(Unanswered):
            answer = self._brokers.ask_any(versions_call())
            return finalized_levels(answer)
        return {}

    def _drop(self) -> None:
        if self._spool is not None:
            self._spool.close()
        self._spool = None


class _Entries(Iterable[Entry]):
    """The records of a snapshot, in the order of Kafka's own. They are made while they are iterated, because those of a
    large cluster fit into no budget."""

    def __init__(
        self,
        spool: TextIO,
        offset: int,
        time_ms: int,
        settings: list[tuple[int, str, str, str]],
        levels: dict[str, int],
    ) -> None:
        self._spool = spool
        self._offset = offset
        self._time_ms = time_ms
        self._settings = settings
        self._levels = levels

    def __iter__(self) -> Iterator[Entry]:
        for name, level in self._levels.items():
            yield self._record("FeatureLevelRecord", {"Name": name, "FeatureLevel": level})
        self._spool.seek(0)
        topic_id = ""
        for line in self._spool:
            seen = PartitionSeen(*json.loads(line))
            if seen.topic_id != topic_id:
                topic_id = seen.topic_id
                yield self._record("TopicRecord", {"Name": seen.topic, "TopicId": topic_id})
            yield self._record("PartitionRecord", _fields(seen))
        for kind, of, key, value in self._settings:
            yield self._record("ConfigRecord", {"ResourceType": kind, "ResourceName": of, "Name": key, "Value": value})

    def _record(self, kind: str, fields: Fields) -> Record:
        return Record(self._offset, EPOCH, self._time_ms, kind, 0, fields)


def _fields(seen: PartitionSeen) -> Fields:
    return {
        "TopicId": seen.topic_id,
        "PartitionId": seen.partition,
        "Leader": seen.leader,
        "LeaderEpoch": seen.leader_epoch,
        "PartitionEpoch": 0,
        "Isr": tuple(seen.isr),
        "EligibleLeaderReplicas": tuple(seen.elr or ()),
        "LastKnownElr": tuple(seen.last_known_elr or ()),
        "LeaderRecoveryState": 0,
        "Replicas": tuple(seen.replicas),
        "AddingReplicas": (),
        "RemovingReplicas": (),
        "Directories": None,
    }
