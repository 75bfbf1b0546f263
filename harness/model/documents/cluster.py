"""cluster.json: what brokers and coordinators reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal

from harness.model.documents.coordinators import CoordinatorLook
from harness.model.documents.reads import Refusal
from harness.model.documents.record import OfPartition, OfPlace, Record, meaning

Phase = Literal["start", "healed", "drained"]
Settings = Mapping[str, str | None]  # null = the broker hides the value


class ReplicaLog(Record, frozen=True, kw_only=True):
    """The log of one replica."""

    broker: Annotated[int, meaning("the broker that has the replica")]
    log_start: Annotated[int, meaning("the first offset of its log")]
    log_end: Annotated[int, meaning("the offset behind its last record")]


class PartitionState(OfPartition, frozen=True, kw_only=True):
    """One partition, as its leader and its replicas reported it."""

    leader: Annotated[int | None, meaning("the broker that leads it; null = none")]
    isr: Annotated[tuple[int, ...], meaning("brokers of the replicas in sync")]
    replicas: Annotated[tuple[int, ...], meaning("brokers of all replicas")]
    logs: Annotated[tuple[ReplicaLog, ...], meaning("one for each replica that reported its log")]
    high_watermark: Annotated[int | None, meaning("the leader's high watermark; null = not reported")]
    last_stable_offset: Annotated[int | None, meaning("the leader's last stable offset; null = not reported")]
    leader_epoch: Annotated[int | None, meaning("epoch of the leader; not judged")] = None
    elr: Annotated[tuple[int, ...] | None, meaning("eligible leader replicas (KIP-966); not judged")] = None


class GroupOffset(OfPlace, frozen=True, kw_only=True):
    """The committed offset of a group in one partition."""

    if_said: ClassVar[Collection[str]] = ("stable",)
    group: Annotated[str, meaning("the consumer group")]
    offset: Annotated[int | None, meaning("the committed offset; null = none")]
    at_ns: Annotated[int | None, meaning("when the coordinator answered, if not `at_ns` of the snapshot")] = None
    stable: Annotated[
        bool | None,
        meaning(
            "false if the coordinator did not answer with stable offsets: then the offset may be older than the "
            "committed one, or is not known (null)"
        ),
    ] = None


class Snapshot(Record, frozen=True, kw_only=True):
    """One report of the whole cluster."""

    phase: Annotated[Phase, meaning("`start`: before the load; `healed`: before the drain; `drained`: after it")]
    at_ns: Annotated[int, meaning("when it was asked for")]
    partitions: Annotated[tuple[PartitionState, ...], meaning("all partitions of the topics of the run")]
    groups: Annotated[tuple[GroupOffset, ...], meaning("answers of coordinators; empty = no group was asked")]
    brokers_up: Annotated[tuple[int, ...] | None, meaning("the brokers that ran; not judged")] = None
    topic_configs: Annotated[Mapping[str, Settings] | None, meaning("settings by topic, as Kafka writes them")] = None
    broker_configs: Annotated[Mapping[str, Settings] | None, meaning("settings by broker id, as Kafka writes them")] = (
        None
    )


class Lineage(OfPlace, frozen=True, kw_only=True):
    """The leader epochs in the log of one replica."""

    if_said: ClassVar[Collection[str]] = ("error",)
    broker: Annotated[int, meaning("the broker that has the replica")]
    epochs: Annotated[tuple[tuple[int, int], ...], meaning("each leader epoch with its start offset")]
    error: Annotated[str | None, meaning("why they could not be read; not judged")] = None


class EmptySegment(OfPlace, frozen=True, kw_only=True):
    """A segment without a byte in the log of one replica, and not its last one."""

    broker: Annotated[int, meaning("the broker that has the replica")]
    base_offset: Annotated[int, meaning("from the name of its file")]
    modified_ms: Annotated[int, meaning("when its file was modified, which Kafka takes for its latest time")]


class GroupReset(OfPlace, frozen=True, kw_only=True):
    """Where a member began by auto.offset.reset, and when that was known."""

    group: Annotated[str, meaning("the consumer group")]
    reader: Annotated[str, meaning("the member")]
    committed: Annotated[int | None, meaning("the offset of the group; null = it had none")]
    began: Annotated[int | None, meaning("where the member began; null = the client stopped with an error")]
    at_ns: Annotated[int, meaning("when that was known")]


class ShareGroupOffset(OfPlace, frozen=True, kw_only=True):
    """How far a share group had come in one partition, after the load, when members had continued."""

    group: Annotated[str, meaning("the share group")]
    start: Annotated[int | None, meaning("it is done with all records below (KIP-1226); null = not reported")]
    lag: Annotated[int | None, meaning("0 = it is done with the partition; null = not reported")]
    asked_ns: Annotated[int, meaning("before the question")]
    at_ns: Annotated[int, meaning("after the answer")]
    unchanged_ns: Annotated[
        int | None, meaning("after the first of the last answers, which all had this start and lag; null = not known")
    ] = None


class OwnedTwice(OfPlace, frozen=True, kw_only=True):
    """Two members of a group with the consumer protocol had one partition, by what their clients told them."""

    group: Annotated[str, meaning("the group")]
    member: Annotated[str, meaning("the member that was asked to give it up later")]
    next_member: Annotated[str, meaning("the member that got it before that")]
    from_ns: Annotated[int, meaning("when that one got it")]
    until_ns: Annotated[int, meaning("when the former one gave it up")]
    held_ns: Annotated[
        int | None,
        meaning("when the former one had begun to read it, so that its client reports it; null = not known"),
    ] = None


class ReadRefused(OfPartition, frozen=True, kw_only=True):
    """A probe, or a live reader at the end of the load, that was given nothing. Then the leader gave nothing either."""

    reader: Annotated[str, meaning("the reader")]
    min_bytes: Annotated[int, meaning("how much the reader, and then the harness, asked for at least")]
    max_bytes: Annotated[int, meaning("how much they asked for at most")]
    refused: Annotated[Refusal, meaning("what the leader answered at that offset")]


class MemberRefused(Record, frozen=True, kw_only=True):
    """A member whose client gave up for good, because its coordinator refused it. The reader started another one."""

    group: Annotated[str, meaning("the group")]
    member: Annotated[str, meaning("the reader")]
    error: Annotated[str, meaning("the error that the client reported")]
    static: Annotated[bool, meaning("whether it has a group.instance.id, by which a coordinator replaces members")]
    since_ns: Annotated[int, meaning("before its client was started")]
    at_ns: Annotated[int, meaning("when its client gave up")]


class GroupAnswer(OfPlace, frozen=True, kw_only=True):
    """A stable offset that a coordinator reported during the run, if not that of the last acknowledged commit."""

    group: Annotated[str, meaning("the consumer group")]
    offset: Annotated[int | None, meaning("the committed offset; null = none")]
    asked_ns: Annotated[int, meaning("before the question")]
    at_ns: Annotated[int, meaning("after the answer")]


class ServedPartition(OfPartition, frozen=True, kw_only=True):
    """One partition, as one broker reports it to clients."""

    leader: Annotated[int, meaning("the broker that leads it; -1 = none that the broker knows of")]
    leader_epoch: Annotated[int, meaning("epoch of the leader")]
    isr: Annotated[tuple[int, ...], meaning("brokers of the replicas in sync")]
    replicas: Annotated[tuple[int, ...], meaning("brokers of all replicas")]
    elr: Annotated[
        tuple[int, ...] | None, meaning("eligible leader replicas; absent = the request was one without them")
    ] = None
    last_known_elr: Annotated[tuple[int, ...] | None, meaning("the last replicas that were eligible, likewise")] = None


class BrokerView(Record, frozen=True, kw_only=True):
    """The metadata that one broker serves to clients, after all reads of the drain."""

    broker: Annotated[int, meaning("the broker that answered")]
    asked_ns: Annotated[int, meaning("before the question")]
    at_ns: Annotated[int, meaning("after the answers")]
    metadata_offset: Annotated[int, meaning("it had applied the metadata log up to there, before it answered the rest")]
    partitions: Annotated[tuple[ServedPartition, ...], meaning("partitions of the topics of the run")]
    settings: Annotated[
        Mapping[str, Settings], meaning("by topic, the settings that the topic itself has; null = a hidden value")
    ]
    described: Annotated[
        tuple[ServedPartition, ...] | None,
        meaning("the same with their ELR, asked for in pages of a few; absent = not asked, or a release before 3.8"),
    ] = None
    dynamic: Annotated[
        Mapping[str, Settings] | None,
        meaning(
            "dynamic settings that the broker applies: by its id its own, and by the empty name those of all brokers; "
            "null = a hidden value; absent = not asked"
        ),
    ] = None
    features: Annotated[
        Mapping[str, int] | None, meaning("levels of the finalized features at that offset; absent = not asked")
    ] = None
    waited_s: Annotated[
        float | None,
        meaning(
            "how long the run had waited before for every broker to apply what one of them had; absent = not at all"
        ),
    ] = None


class ClusterReports(Record, frozen=True, kw_only=True):
    """The whole document."""

    snapshots: Annotated[tuple[Snapshot, ...], meaning("reports of the cluster, in the order of time")]
    lineages: Annotated[tuple[Lineage, ...], meaning("from the logs of all replicas")]
    owned_twice: Annotated[
        tuple[OwnedTwice, ...], meaning("partitions that two members of a group had at once: `group_unsettled`")
    ] = ()
    reads_refused: Annotated[
        tuple[ReadRefused, ...] | None,
        meaning("of the first ones that were given nothing; absent = their leaders were not asked"),
    ] = None
    members_refused: Annotated[
        tuple[MemberRefused, ...] | None, meaning("members of groups that were refused; absent = not recorded")
    ] = None
    group_resets: Annotated[
        tuple[GroupReset, ...] | None,
        meaning(
            "starts by auto.offset.reset: with `latest` a member may skip records that its group had not committed. If "
            "the group had committed, only where the offset may be lost: `group_away`, `group_deleted`, or a permitted "
            "unclean election"
        ),
    ] = None
    share_groups: Annotated[tuple[ShareGroupOffset, ...] | None, meaning("the coordinators of share groups")] = None
    brokers: Annotated[
        tuple[BrokerView, ...] | None,
        meaning("what each broker serves; other metadata than history.json has at or after that is `stale_metadata`"),
    ] = None
    group_answers: Annotated[tuple[GroupAnswer, ...] | None, meaning("answers of coordinators while the load ran")] = (
        None
    )
    coordinators: Annotated[
        CoordinatorLook | None, meaning("coordinators beside their logs at the end; absent = they were not compared")
    ] = None
    coordinators_under_load: Annotated[
        CoordinatorLook | None,
        meaning("the same after healing, while groups have members: states of which the log did not change meanwhile"),
    ] = None
    empty_segments: Annotated[
        tuple[EmptySegment, ...] | None,
        meaning("left by cleaners on the disks of all replicas; absent = disks were not searched for them"),
    ] = None
