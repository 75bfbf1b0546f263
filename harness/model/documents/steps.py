"""steps.json: what the steps of the scenario did, and what they saw in single partitions.

A verdict knows a step only by its facts and events. An event has a class of its own for each kind, because each kind
says something else; the word in `kind` names the class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar

from harness.model.documents.record import OfPlace, Record, meaning
from harness.model.doubt_names import DoubtOrigin
from harness.model.facts import Fact

_AT = "when it had happened"
_LEADER_EPOCH = "epoch of the new leader"


class Happened(OfPlace, frozen=True, kw_only=True, tag_field="kind"):
    """An event in one partition."""

    at_ns: Annotated[int, meaning(_AT)]


class UncleanElection(Happened, frozen=True, kw_only=True, tag="unclean_election"):
    """A step made a replica the leader that was not in sync."""

    leader_epoch: Annotated[int, meaning(_LEADER_EPOCH)]
    log_end: Annotated[
        int | None, meaning("the surviving log end; acked records at or above it may be lost; null = unknown")
    ] = None
    topic_id: Annotated[str | None, meaning("the id that Kafka gave the topic")] = None
    leader: Annotated[int | None, meaning("the new leader")] = None


class TransactionAborted(Happened, frozen=True, kw_only=True, tag="transaction_aborted"):
    """An operator aborted the open transaction of a producer in this partition.

    The event alone excuses nothing. If a permitted unclean election before `asked_ns` truncated the end of a committed
    transaction, `batches` must show that this abort is the first marker after it.
    """

    topic_id: Annotated[str, meaning("the id that Kafka gave the topic")]
    producer: Annotated[str, meaning("name of the producer")]
    producer_id: Annotated[int, meaning("its producer id")]
    start_offset: Annotated[int, meaning("where the transaction began in this partition")]
    coordinator: Annotated[
        str,
        meaning(
            "the coordinator's state of the producer's last transaction at that time; `CompleteCommit` if it had "
            "finished it"
        ),
    ]
    asked_ns: Annotated[int, meaning("when the operator asked for it")]
    producer_epoch: Annotated[int | None, meaning("its producer epoch; not judged")] = None
    leader: Annotated[int | None, meaning("the broker that was asked; not judged")] = None
    outcome: Annotated[str | None, meaning("of the operation, as in `ledger`; not judged")] = None


class RecordsDeleted(Happened, frozen=True, kw_only=True, tag="delete_records"):
    """DeleteRecords was acknowledged by `at_ns`.

    The records may return if every broker that knew of the deletion was killed before it had written that to disk
    (`start_checkpoint_ms`).
    """

    before_offset: Annotated[int, meaning("records below it were deleted")]


class TierLeft(Happened, frozen=True, kw_only=True, tag="tier_off"):
    """The topic left the remote tier."""

    before_offset: Annotated[
        int, meaning("only the remote tier has the records below it, and they are deleted with it")
    ]


class LeaderSeen(Happened, frozen=True, kw_only=True, tag="leader_change"):
    """A change of leader that was seen at `at_ns`.

    Bundles without history.json have these events; beside history.json they are ignored.
    """

    old_leader: Annotated[int | None, meaning("the leader before; null = none was seen")]
    new_leader: Annotated[int, meaning("the leader now; -1 = none")]
    leader_epoch: Annotated[int, meaning(_LEADER_EPOCH)]
    clean: Annotated[bool | None, meaning("whether the new leader was in the ISR or the ELR; null = unknown")]


class InternalLeaderSeen(Happened, frozen=True, kw_only=True, tag="internal_leader_change"):
    """As `leader_change`, for one of Kafka's own topics. For `__remote_log_metadata`, see below."""

    old_leader: Annotated[int | None, meaning("the leader before; null = none was seen")]
    new_leader: Annotated[int, meaning("the leader now; -1 = none")]
    leader_epoch: Annotated[int, meaning(_LEADER_EPOCH)]
    clean: Annotated[bool | None, meaning("whether the new leader was in the ISR or the ELR; null = unknown")]
    since_ns: Annotated[int, meaning("when the old leader was last seen")]
    in_sync_ns: Annotated[
        int | None,
        meaning("when the new leader was last seen in the ISR; it has what was committed 2 s before that"),
    ] = None


class GroupAway(Record, frozen=True, kw_only=True, tag_field="kind", tag="group_away"):
    """All members of a group left it."""

    group: Annotated[str, meaning("the consumer group")]
    from_ns: Annotated[int, meaning("when its members began to leave")]
    left_ns: Annotated[int, meaning("when all had left")]
    to_ns: Annotated[int, meaning("until when they stayed away")]
    at_ns: Annotated[int | None, meaning("when it was recorded; not judged")] = None


class GroupDeleted(Record, frozen=True, kw_only=True, tag_field="kind", tag="group_deleted"):
    """A group was deleted.

    If `group_deletions` of the contract names the step, it counts as a commit of no offset for every partition.
    """

    group: Annotated[str, meaning("the consumer group")]
    outcome: Annotated[str, meaning("of the operation, as in `ledger`")]
    asked_ns: Annotated[int, meaning("when it began")]
    at_ns: Annotated[int, meaning("when it ended")]


class AskedFromOutside(Record, frozen=True, kw_only=True, tag_field="kind", tag="asked_from_outside"):
    """A client outside a group asked for what its coordinator must refuse while the group has members."""

    group: Annotated[str, meaning("the consumer group")]
    api: Annotated[str, meaning("name of the request")]
    members: Annotated[tuple[str, ...], meaning("client ids of its members, before the request and after its answer")]
    error: Annotated[str | None, meaning("Kafka's error in the answer; null = it was accepted")]
    asked_ns: Annotated[int, meaning("when it was sent")]
    at_ns: Annotated[int, meaning("when it was answered")]


class ElectionInVain(Happened, frozen=True, kw_only=True, tag="election_in_vain"):
    """An operator asked for the election of the preferred replica, which did not lead when the wait for it was over."""

    error: Annotated[str | None, meaning("Kafka's answer for the partition; null = the election was held")]
    leader: Annotated[int, meaning("the broker that led then; -1 = none")]
    preferred: Annotated[int, meaning("the first of the replicas")]
    isr: Annotated[tuple[int, ...], meaning("brokers of the replicas in sync")]
    waited_s: Annotated[int | float, meaning("how long the wait was")]


class PartitionsAdded(Happened, frozen=True, kw_only=True, tag="partitions_added"):
    """A topic got more partitions, of which `partition` is the first.

    The floors `before` and `during` do not apply to new partitions.
    """

    partitions: Annotated[int, meaning("the number of partitions afterwards")]


class TopicDeleted(Record, frozen=True, kw_only=True, tag_field="kind", tag="topic_deleted"):
    """A topic was deleted.

    If `deletions` of the contract names the step, records of that id are not promised any more. Records acked before
    `at_ns` may be read in no other topic; records without an answer by then may be in the topic that has the name now.
    """

    topic: Annotated[str, meaning("name of the topic")]
    topic_id: Annotated[str, meaning("the id that it had")]
    at_ns: Annotated[int, meaning("when the deletion was requested")]


class PowerLost(Happened, frozen=True, kw_only=True, tag="power_loss"):
    """The machine of a broker lost its power: one event for each replica on it.

    `at_ns` is when the broker was dead, and `healed_ns` of the step when it was up again.
    """

    broker: Annotated[int, meaning("the broker")]
    isr: Annotated[
        tuple[int, ...],
        meaning(
            "the replicas that had every acknowledged record just before, eligible leader replicas (KIP-966) included"
        ),
    ]
    log_end: Annotated[int, meaning("log end of this replica just before")]
    recovery_point: Annotated[int, meaning("up to where its disk says that it was flushed")]
    sound_end: Annotated[
        int | None,
        meaning(
            "up to where the log on the disk is complete, so records below it on every one of them have to survive"
        ),
    ] = None
    pretended: Annotated[bool | None, meaning("true if the disk only pretended to flush, which excuses nothing")] = None


class LostTail(Happened, frozen=True, kw_only=True, tag="lost_tail"):
    """The leader was killed while it was alone in the ISR, and its log was cut off."""

    broker: Annotated[int, meaning("the leader")]
    leader_epoch: Annotated[int, meaning("its epoch")]
    isr: Annotated[tuple[int, ...], meaning("the replicas in sync")]
    elr_level: Annotated[int | None, meaning("the feature level of eligible leader replicas; 0 = off, null = unknown")]
    log_end: Annotated[int, meaning("where its log was cut off")]
    ended_at: Annotated[int | None, meaning("where its log ended before; not judged")] = None


class HeldFrame(Record, frozen=True, kw_only=True, tag_field="kind", tag="held_frame"):
    """A request was held back and delivered later."""

    at_ns: Annotated[int, meaning(_AT)]
    link: Annotated[str, meaning("the connection")]
    api: Annotated[str, meaning("name of the request")]
    version: Annotated[int, meaning("its version")]
    client: Annotated[str, meaning("the client id, which begins with its producer's name and a dash")]
    held_ns: Annotated[int | None, meaning("when it was held")] = None
    answered_ns: Annotated[int | None, meaning("when it was answered")] = None
    errors: Annotated[tuple[str, ...] | None, meaning("the errors in the answer")] = None
    left_ns: Annotated[int | None, meaning("when the client closed its connection; not judged")] = None
    again_ns: Annotated[
        int | None, meaning("when the client sent such a request over another connection; not judged")
    ] = None
    released_ns: Annotated[int | None, meaning("when it was delivered")] = None
    cut_off: Annotated[
        bool | None, meaning("whether the connection to the broker ended before its answer; not judged")
    ] = None
    group: Annotated[str | None, meaning("the group that it names")] = None
    group_type: Annotated[
        str | None, meaning("protocol of the group before the delivery; generations of `classic` ones are judged")
    ] = None
    generation: Annotated[int | None, meaning("the generation of the group that it names")] = None
    newer_ns: Annotated[
        int | None, meaning("when a broker had answered a heartbeat of a newer generation without an error")
    ] = None


class NoAcks(Happened, frozen=True, kw_only=True, tag="no_acks"):
    """A step waited for acks from `since_ns` to `at_ns`, and none came, although leader and ISR did not change.

    The finding is `unavailable` if the `isr` has at least `min_insync_replicas` members, the ledger too shows 25 s or
    more without acks, and `beside` is not empty; else it is a doubt.
    """

    since_ns: Annotated[int, meaning("when the wait began")]
    leader: Annotated[int, meaning("the leader throughout")]
    isr: Annotated[tuple[int, ...], meaning("the replicas in sync throughout")]
    beside: Annotated[
        Mapping[str, int],
        meaning("by `topic/partition`: acks of other partitions with the same leader and ISR that did acknowledge"),
    ]


class OnlyDiskLost(Happened, frozen=True, kw_only=True, tag="only_disk_lost"):
    """The disk with the only replica of the partition, or with the only one in sync, is lost.

    Excuses the loss of records that were acked before `at_ns` if the contract has `replicas` = 1; or if it has
    `min_insync_replicas` = 1, `isr` was this broker alone, and it is the next leader.
    """

    broker: Annotated[int, meaning("the broker")]
    log_end: Annotated[int, meaning("log end of its replica just before")]
    isr: Annotated[tuple[int, ...] | None, meaning("the replicas in sync just before")] = None
    leader_epoch: Annotated[int | None, meaning("the leader's epoch just before")] = None


class ReaderDied(Happened, frozen=True, kw_only=True, tag="reader_died"):
    """A member died after it had committed these offsets and before it processed them, or the other way round.

    `commits` of its reader says which; a member of a share group died before it acknowledged them.
    """

    group: Annotated[str, meaning("its group")]
    from_offset: Annotated[int, meaning("the first of these offsets")]
    before_offset: Annotated[int, meaning("the first offset behind them")]


class MemberDied(Record, frozen=True, kw_only=True, tag_field="kind", tag="member_died"):
    """The process of a member ended, and it did not leave its group. Only the end of its session shows that."""

    group: Annotated[str, meaning("its group")]
    member: Annotated[str, meaning("name of the reader")]
    at_ns: Annotated[int, meaning(_AT)]
    taken_ns: Annotated[int | None, meaning("when others had been assigned all of its partitions; null = never")]
    until_ns: Annotated[int, meaning("until when they were asked")]
    session_ms: Annotated[
        int | None,
        meaning("session.timeout.ms of its client; null = group.consumer.session.timeout.ms of the brokers"),
    ]


class ProcessorDied(Happened, frozen=True, kw_only=True, tag="processor_died"):
    """The processor of a group died while it worked on these offsets."""

    group: Annotated[str, meaning("its group")]
    at: Annotated[
        str,
        meaning(
            "it had `read` them, `produced` its output, committed its `offsets` (or added them to its transaction), or "
            "sent the `commit` of its transaction"
        ),
    ]
    from_offset: Annotated[int, meaning("the first of these offsets")]
    before_offset: Annotated[int, meaning("the first offset behind them")]


class LogStartSeen(Happened, frozen=True, kw_only=True, tag="log_start_seen"):
    """A step saw the log start during the run."""

    log_start: Annotated[int, meaning("the log start offset")]


class TieredSeen(Happened, frozen=True, kw_only=True, tag="tiered_seen"):
    """Brokers said by `at_ns` how far the partition is in the remote tier."""

    below: Annotated[int, meaning("everything below it is in the remote tier")]


class ObjectsDeleted(Happened, frozen=True, kw_only=True, tag="objects_deleted"):
    """A step deleted every object of one copy in the remote tier, past the brokers.

    If `object_deletions` of the contract names the step, this excuses that the objects are missing at the end, and the
    loss of records acked before `at_ns` in these offsets below `local_start` if no other existing copy has them.
    """

    segment_id: Annotated[str, meaning("id of the copy")]
    base_offset: Annotated[int, meaning("its first offset")]
    last_offset: Annotated[int, meaning("its last offset")]
    local_start: Annotated[int, meaning("just before, each replica had the records below it only in the remote tier")]


class ClockSet(Record, frozen=True, kw_only=True, tag_field="kind", tag="clock"):
    """The clocks of nodes were set wrong."""

    nodes: Annotated[tuple[int, ...], meaning("the nodes")]
    jump_ms: Annotated[int, meaning("how far ahead they were set; behind if negative")]
    rate: Annotated[int | float, meaning("the rate by which they gain until `healed_ns` of the step")]
    at_ns: Annotated[int, meaning(_AT)]


Event = (
    UncleanElection
    | TransactionAborted
    | RecordsDeleted
    | TierLeft
    | LeaderSeen
    | InternalLeaderSeen
    | GroupAway
    | GroupDeleted
    | AskedFromOutside
    | ElectionInVain
    | PartitionsAdded
    | TopicDeleted
    | PowerLost
    | LostTail
    | HeldFrame
    | NoAcks
    | OnlyDiskLost
    | ReaderDied
    | MemberDied
    | ProcessorDied
    | LogStartSeen
    | TieredSeen
    | ObjectsDeleted
    | ClockSet
)


class Effect(Record, frozen=True, kw_only=True):
    """Whether a fault had an effect on the data path."""

    held: Annotated[bool | None, meaning("true = proved")] = None
    because: Annotated[str | None, meaning("the proof, or why there is none")] = None
    seen: Annotated[object, meaning("observations behind it; not judged")] = None


class Step(Record, frozen=True, kw_only=True):
    """One step of the scenario."""

    if_said: ClassVar[Collection[str]] = ("error", "error_origin")
    name: Annotated[str, meaning("its name, unique in the scenario")]
    do: Annotated[str, meaning("the word of its class; not judged")]
    started_ns: Annotated[int | None, meaning("when it began; null = it did not")]
    ended_ns: Annotated[int | None, meaning("when it ended; null = it did not")]
    healed_ns: Annotated[int | None, meaning("when its fault was healed; null = it was not, or there was none")]
    is_fault: Annotated[bool, meaning("whether it was a fault, which needs an effect")]
    facts: Annotated[tuple[Fact, ...], meaning("its effects on the cluster, its disks, clients and remote tier")]
    events: Annotated[tuple[Event, ...], meaning("events in single partitions and groups")]
    effect: Annotated[Effect | None, meaning("the proof of its effect; null = none")] = None
    error: Annotated[str | None, meaning("why it failed")] = None
    error_origin: Annotated[DoubtOrigin | None, meaning("its cause, as in the doubt about it; null = `release`")] = None
    args: Annotated[object, meaning("its arguments; not judged")] = None
    resolved: Annotated[object, meaning("its choices, for example nodes; not judged")] = None


Steps = tuple[Step, ...]
