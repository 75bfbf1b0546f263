"""Reads the remote tier, and what brokers report about it: after the load, after healing, and at the end (KIP-405).

The objects are read directly from the storage; what brokers serve from it is covered by the readers. Objects in a
storage of the user are first fetched with that storage's own plugin, into the folder where other runs have the tier.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.offsets import TieredReplica
from harness.kafka.release.user_tier import fetch_all
from harness.kafka.settings.tier_settings import METADATA_TOPIC
from harness.kafka.storage import local_tier
from harness.kafka.storage.log_directory import (
    DamagedFile,
    PartitionDirectory,
    leader_epochs,
    partition_directories,
    segments,
)
from harness.kafka.storage.remote_log_metadata import SEGMENT, TierRecord, decode
from harness.kafka.storage.segment_scan import REMOTE_TIER, batch_columns
from harness.model.clock import now_ns
from harness.model.documents.run import Settled, TierAtRest
from harness.model.place import Place
from harness.model.scenario.scenario import Scenario, Topic
from harness.model.scenario.tier_rules import COPY_DISABLED, LOCAL_RETENTION, REMOTE, is_tiered
from harness.model.schemas import TIER_METADATA
from harness.model.wait_budget import WaitBudget
from harness.model.waiting import settled, wait_for
from harness.run.stalls import Stalls
from harness.run.tier_lag import Lag, Lags, Replica, documents
from harness.workload.drain.internal_topic_reads import RawRecord, read_all

# Segments are copied within a second of being rolled. The rest is for a busy machine, and for retries after a fault.
REST_DEADLINE_S: Final = 60.0
FILLED_DEADLINE_S: Final = 60.0
FILLED_LEAST_S: Final = 5.0  # when the budget for waits is spent
METADATA_DEADLINE_S: Final = 60.0
SOON_MS: Final = 5_000  # local.retention.ms up to this deletes local segments before the tier comes to rest
SHORT_MS: Final = 3_600_000  # retention.ms up to this may delete segments during a run
END: Final = "end"
_METADATA_COLUMNS: Final = [c for c in TIER_METADATA if c in TierRecord.__slots__ and c not in ("partition", "epochs")]


class TierProbe:
    """Writes the tables `tier_metadata`, `tier_objects` and `tier_replicas`; nothing for a scenario without a tier."""

    def __init__(self, cluster: Cluster, admin: AdminView, scenario: Scenario, bundle: BundleWriter) -> None:
        self._cluster = cluster
        self._admin = admin
        self._bundle = bundle
        self._topics: tuple[Topic, ...] = tuple(t for t in scenario.topics if is_tiered(t))
        self._names = [topic.name for topic in self._topics]
        self._fed = scenario.fed  # the others have only as many segments as steps write

    def lacking(self, segments_n: int) -> str:
        """Partitions with fewer than `segments_n` segments in the tier, as text; empty when there are none."""
        if not self._topics:
            return ""
        configs = self._configs()
        counts, there = self._in_the_tier(configs), self._fed.intersection(_still_tiered(configs))
        places = ((t.name, p) for t in self._topics if t.name in there for p in range(t.partitions))
        few = [(topic, p, counts[topic, p]) for topic, p in places if counts[topic, p] < segments_n]
        return ", ".join(f"{topic}-{p} has {n} of {segments_n} segments in the tier" for topic, p, n in few[:5])

    def filled(self, segments_n: int, budget: WaitBudget | None = None) -> Settled:
        """Waits until every partition has that many segments in the tier."""
        deadline_s = budget.left_s(FILLED_DEADLINE_S, FILLED_LEAST_S) if budget else FILLED_DEADLINE_S
        what = "segments of every partition to be in the remote tier"
        return settled(lambda: self.lacking(segments_n), what=what, deadline_s=deadline_s)

    def copied_all(self) -> bool:
        """Whether every leader says that it has copied each closed segment, so that the load has closed too few."""
        reported, marks = self._admin.tiered_replicas(self._names), self._admin.watermarks(self._names)
        leads = {(s.topic, s.partition): s.leader for s in self._admin.partitions(self._names)}
        ends = {place: reported.get((*place, leader)) for place, leader in leads.items() if place in marks}
        known = {place for place, end in ends.items() if end is not None and end.highest_tiered is not None}
        wanted = {(topic.name, p) for topic in self._topics for p in range(topic.partitions)}
        return wanted <= known and not self._users_own and not self._behind(reported)

    def at_rest(self) -> TierAtRest | None:
        """Waits until every replica has copied and deleted all segments that it may. None without a tier."""
        if not self._topics:
            return None
        lags: Lags = Stalls()

        def underway() -> str:
            reported = self._admin.tiered_replicas(self._names)
            pending = self._underway(reported)
            lags.look(self._behind(reported) if pending else {})
            return pending

        waited = settled(underway, what="the remote tier to come to rest", deadline_s=REST_DEADLINE_S)
        behind = () if waited.ok else documents(lags.stalled(REST_DEADLINE_S))
        return TierAtRest(ok=waited.ok, waited_s=waited.waited_s, last_seen=waited.last_seen, behind=behind)

    def look(self, name: str) -> None:
        """Writes the present state. At the end the metadata is read before and after the rest, to detect changes."""
        if not self._topics:
            return
        known = self._metadata() if name == END or self._users_own else []
        self._look_at_replicas(name)
        if self._users_own:
            self._fetch(known)
        self._look_at_objects(name)
        if name == END:
            self._write_metadata(known, self._metadata())

    def segment_starts(self) -> dict[Place, list[int]]:
        """Offsets by partition at which a copied segment or the local log of a replica begins, in ascending order.

        With a storage of the user, they are those of the last `look`.
        """
        if not self._topics:
            return {}
        found: dict[Place, set[int]] = {}
        for one in self._objects():
            if one.kind == local_tier.LOG:
                found.setdefault((one.topic, one.partition), set()).add(one.base_offset)
        for (topic, partition, _), replica in self._admin.tiered_replicas(self._names).items():
            found.setdefault((topic, partition), set()).add(replica.local_log_start)
        return {place: sorted(offsets) for place, offsets in found.items()}

    # --- waiting ---

    def _configs(self) -> dict[str, dict[str, str]]:
        """The settings of the topics as steps have changed them; those declared where no broker answers."""
        reported = self._admin.topic_configs(self._names)
        return {t.name: t.config | reported.get(t.name, {}) for t in self._topics}

    def _copying(self) -> list[str]:
        """Topics whose leaders copy to the tier: no step has disabled it, nor the copying alone (KIP-950)."""
        configs = self._configs()
        return [name for name in _still_tiered(configs) if configs[name].get(COPY_DISABLED) != "true"]

    def _in_the_tier(self, configs: Mapping[str, Mapping[str, str]]) -> Counter[Place]:
        """Segments by partition. One that was copied twice counts once; those of an earlier topic do not. Where
        retention deletes segments during the run, they count, too."""
        ids = {state.topic_id for state in self._admin.partitions(self._names)}
        if self._users_own or any(map(_is_short, configs.values())):
            logs = set(_finished(record.value for record in self._metadata()))
        else:
            found = (one for one in self._objects() if one.kind == local_tier.LOG)
            logs = {(one.topic_id, one.topic, one.partition, one.base_offset) for one in found}
        return Counter((topic, partition) for topic_id, topic, partition, _ in logs if topic_id in ids)

    @property
    def _users_own(self) -> bool:
        return self._cluster.release.user_storage is not None

    def _fetch(self, known: Iterable[RawRecord]) -> None:
        """Fetches every object of this metadata into an empty folder, so that deleted objects do not remain there."""
        store = self._cluster.tier_store
        assert store is not None
        shutil.rmtree(store / local_tier.ROOT, ignore_errors=True)
        metadata = (record.value for record in known)
        fetch_all(self._cluster.release, metadata, self._cluster.directory, store / local_tier.ROOT)

    def _objects(self) -> list[local_tier.TierObject]:
        assert self._cluster.tier_store is not None
        return local_tier.objects_of(self._cluster.tier_store, self._names)

    def _behind(self, reported: Mapping[Replica, TieredReplica]) -> dict[Place, Lag]:
        """Partitions whose leader may copy a closed segment and has not. A leader copies what is below the last stable
        offset, and no segment that it has deleted itself. A storage of the user may fail by itself: it is left out."""
        if self._users_own:
            return {}
        marks, names = self._admin.watermarks(self._names), self._copying()
        behind: dict[Place, Lag] = {}
        for state in self._admin.partitions(names):
            place = (state.topic, state.partition)
            mine, bases = reported.get((*place, state.leader)), self._bases_of(state.leader, place)
            if mine is None or mine.highest_tiered is None or not bases or place not in marks:
                continue
            tiered_end = max(mine.highest_tiered + 1, bases[0])
            closed_end = max((base for base in bases if base <= marks[place][1]), default=0)
            if tiered_end < closed_end:
                behind[place] = Lag(state.topic_id, state.leader, tiered_end, closed_end)
        return behind

    def _bases_of(self, broker: int, place: Place) -> list[int]:
        """The first offsets of the local segments of one replica; empty if the broker has none."""
        if broker not in self._cluster.brokers:
            return []
        found = partition_directories(self._cluster.log_directories(broker), [place[0]])
        return next((_bases(replica) for replica in found if replica.partition == place[1]), [])

    def _underway(self, reported: Mapping[Replica, TieredReplica]) -> str:
        configs = self._configs()
        names = _still_tiered(configs)
        keeps_one = {name for name, config in configs.items() if _keeps_one(config)}
        wanted = {(t.name, p) for t in self._topics if t.name in names for p in range(t.partitions)}
        silent = wanted - {(topic, partition) for topic, partition, _ in reported}
        pending = [f"no broker reports {topic}-{p}" for topic, p in sorted(silent)]
        leaders = {(state.topic, state.partition): state.leader for state in self._admin.partitions(self._names)}
        for broker in self._cluster.brokers:
            for replica in partition_directories(self._cluster.log_directories(broker), names):
                place, bases = (replica.topic, replica.partition), _bases(replica)
                mine, leader = reported.get((*place, broker)), leaders.get(place, broker)
                where = f"{replica.topic}-{replica.partition} of broker {broker}"
                if mine is None or not bases:
                    pending.append(f"broker {broker} does not report {replica.topic}-{replica.partition}")
                elif leader == broker:
                    pending += _of_leader(where, mine.highest_tiered, bases, keeps_one=replica.topic in keeps_one)
                else:
                    theirs = reported.get((*place, leader))
                    highest = theirs.highest_tiered if theirs else None
                    one = replica.topic in keeps_one
                    pending += _of_follower(where, mine.highest_tiered, highest, bases, keeps_one=one)
        return "; ".join(pending[:5])

    # --- tables ---

    def _metadata(self) -> list[RawRecord]:
        states = wait_for(
            lambda: self._admin.partitions([METADATA_TOPIC]),
            until=bool,
            deadline_s=METADATA_DEADLINE_S,
            what=f"a broker to report the partitions of {METADATA_TOPIC}",
        )
        partitions = {state.partition for state in states}
        return read_all(self._cluster.bootstrap_direct(), METADATA_TOPIC, partitions, METADATA_DEADLINE_S)

    def _write_metadata(self, before: Sequence[RawRecord], after: Sequence[RawRecord]) -> None:
        """Writes the records about this run's topics; the cluster may have had others before."""
        table = self._bundle.table("tier_metadata", END)
        known = {(record.partition, record.offset) for record in before}
        for record in after:
            said = decode(record.value)
            if said.topic is None or said.topic in self._names:
                row = _metadata_columns(said)
                row |= {"partition": record.partition, "offset": record.offset, "timestamp_ms": record.timestamp_ms}
                table.append(row | {"read": [1 if (record.partition, record.offset) in known else 2]})
        table.close()

    def _look_at_replicas(self, look: str) -> None:
        table = self._bundle.table("tier_replicas", look)
        looked_ns, reported = now_ns(), self._admin.tiered_replicas(self._names)
        ids = {(s.topic, s.partition): s.topic_id for s in self._admin.partitions(self._names)}
        lineages = {
            (replica.topic, replica.partition, broker): _lineage(replica.path)
            for broker in self._cluster.brokers
            for replica in partition_directories(self._cluster.log_directories(broker), self._names)
        }
        for (topic, partition, broker), replica in sorted(reported.items()):
            table.append(
                {
                    "look": [look],
                    "looked_ns": looked_ns,
                    "broker": broker,
                    "topic": topic,
                    "topic_id": ids.get((topic, partition), ""),
                    "partition": partition,
                    "log_start": replica.log_start,
                    "local_log_start": replica.local_log_start,
                    "log_end": replica.log_end,
                    "highest_tiered": replica.highest_tiered,
                    "epochs": lineages.get((topic, partition, broker), ""),
                }
            )
        table.close()

    def _look_at_objects(self, look: str) -> None:
        table = self._bundle.table("tier_objects", look)
        batches = self._bundle.table("batches", "tier") if look == END else None
        for one in self._objects():
            content = local_tier.read_object(one)
            if content is None:
                continue
            table.append(_object_columns(one, content) | {"look": look, "looked_ns": now_ns()})
            if batches is not None and content.batches:
                batches.append(_replica_columns(one) | batch_columns(content.batches, one.base_offset))
        table.close()
        if batches is not None:
            batches.close()


def _finished(metadata: Iterable[bytes]) -> Iterator[tuple[str, str, int, int]]:
    """Topic id, topic, partition and base offset of every segment that was copied completely."""
    begun: dict[str | None, TierRecord] = {}
    for said in map(decode, metadata):
        if said.kind == SEGMENT:
            begun[said.segment_id] = said
        copy = begun.get(said.segment_id)
        if said.state == "COPY_SEGMENT_FINISHED" and copy is not None:
            yield str(copy.topic_id), str(copy.topic), int(copy.partition or 0), int(copy.base_offset or 0)


def _metadata_columns(said: TierRecord) -> dict[str, object]:
    row = {name: getattr(said, name) for name in _METADATA_COLUMNS}
    epochs = None if said.epochs is None else _text_of(said.epochs)
    return row | {"topic_partition": said.partition, "epochs": epochs}


def _text_of(epochs: Sequence[tuple[int, int]]) -> str:
    """Leader epochs with their first offsets, as `0:0,3:1500`."""
    return ",".join(f"{epoch}:{start}" for epoch, start in epochs)


def _object_columns(one: local_tier.TierObject, content: local_tier.Content) -> dict[str, object]:
    log = one.kind == local_tier.LOG
    return {
        "topic": [one.topic],
        "topic_id": one.topic_id,
        "partition": one.partition,
        "segment_id": one.segment_id,
        "base_offset": one.base_offset,
        "kind": one.kind,
        "size_bytes": content.size_bytes,
        "sha256": content.sha256,
        "records": content.records if log else None,
        "first_offset": content.first_offset,
        "last_offset": content.last_offset,
        "faulty": content.faulty or None,
    }


def _replica_columns(one: local_tier.TierObject) -> dict[str, object]:
    return {"broker": REMOTE_TIER, "topic": one.topic, "topic_id": one.topic_id, "partition": one.partition}


def _of_leader(where: str, highest: int | None, bases: list[int], *, keeps_one: bool) -> Iterator[str]:
    """Why a leader's replica is not at rest: closed segments are not in the tier, or not yet deleted locally."""
    # Segments that the leader itself has deleted are not copied any more.
    if highest is not None and max(highest + 1, bases[0]) < bases[-1]:
        yield f"{where}: in the tier up to {highest}, rolled up to {bases[-1] - 1}"
    elif len(bases) > 1 and keeps_one:
        yield f"{where}: segments {bases} are still there"


def _of_follower(
    where: str, highest: int | None, leaders: int | None, bases: list[int], *, keeps_one: bool
) -> Iterator[str]:
    """Why the replica of a follower is not at rest.

    After a truncation its segments begin at other offsets than the leader's. Then a closed segment may be only partly
    in the tier, and is kept.
    """
    if highest is not None and leaders is not None and highest < leaders:
        yield f"{where}: in the tier up to {highest}, and the leader says {leaders}"
    elif keeps_one and len(bases) > 1 and (highest is None or bases[1] <= highest + 1):
        yield f"{where}: segments {bases} are still there"


def _still_tiered(configs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Topics that still have remote storage: no step has disabled it."""
    return [name for name, config in configs.items() if config.get(REMOTE) != "false"]


def _is_short(config: Mapping[str, str]) -> bool:
    """Whether retention may delete segments of the tier during a run."""
    return int(config.get("retention.bytes", -1)) >= 0 or 0 <= int(config.get("retention.ms", -1)) <= SHORT_MS


def _keeps_one(config: Mapping[str, str]) -> bool:
    """Whether a broker soon deletes every local segment but the active one."""
    by_size, by_time = (int(config.get(key, -2)) for key in LOCAL_RETENTION)
    return by_size == 1 or 0 <= by_time <= SOON_MS


def _bases(replica: PartitionDirectory) -> list[int]:
    try:
        return [segment.base_offset for segment in segments(replica.path)]
    except FileNotFoundError:  # the replica was removed meanwhile
        return []


def _lineage(replica: Path) -> str:
    """Leader epochs with their first offsets, as `0:0,3:1500`."""
    try:
        return _text_of(leader_epochs(replica))
    except DamagedFile as damaged:
        return f"unreadable: {damaged}"
