"""Promises about the offsets that groups commit: records of __consumer_offsets, under that topic's settings."""

from __future__ import annotations

from harness.model.contract.broker_rules import CLEAN, eligible
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, away, kept


def leader_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A coordinator acknowledges a commit once the ISR has it, whatever acks the clients use. An ISR of one may lose
    it.
    """
    del client
    if not topic.keeps_offsets or topic.replicas == 1:
        return None
    if topic.unclean:
        which = "records read after the last commit that the elected replica has: the group continues from there"
        why = "the elected replica was not in sync and lacks the commits that only the leader had"
        if topic.remembers:
            which += "; only if no eligible leader replica is up"
            why = "without an eligible leader replica, one that may lack commits is elected (KIP-966)"
        return Promise(
            event=event,
            effects=(Effect.DUPLICATED,),
            which=which,
            why=why,
            source=f"KIP-106; {REFERENCE}, min.insync.replicas",
            fix=(CLEAN, *eligible(topic)),
        )
    if topic.remembers:
        why = (
            "a leader below min.insync.replicas acknowledges no commit, and the replicas that left the ISR stay "
            "eligible"
        )
        return kept(event, why, "KIP-966", "every acknowledged commit")
    which = "commits and lookups of offsets until the leader is back; no acknowledged commit is lost"
    return away(event, which, "a replica that may lack a commit is not elected", "KIP-106; KIP-966", *eligible(topic))


def expire(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    """Since KIP-211 the offsets of a group with members do not expire. auto.offset.reset says where a group without an
    offset begins. A share group keeps its state in another topic, where it does not expire."""
    del topic
    if client.commits == "share":
        why = "the state of a share group is in __share_group_state and does not expire"
        return kept(event, why, "KIP-932", "the position of the group")
    if client.group_never_empty:
        return kept(event, "offsets of a group with members do not expire", "KIP-211", "every offset of the group")
    effect, which = {
        "earliest": (Effect.DUPLICATED, "all records in the log: the group reads from the start again"),
        "latest": (Effect.SKIPPED, "records that were not committed by then, up to the log end when a member returns"),
        "none": (Effect.STOPPED, "the group reads nothing until an operator sets its offsets"),
    }[client.reset]
    return Promise(
        event=event,
        effects=(effect,),
        which=which,
        why=f"the offsets of the group have expired, and auto.offset.reset={client.reset}",
        source=f"KIP-211; {REFERENCE}, offsets.retention.minutes, auto.offset.reset",
        fix=("offsets.retention.minutes above the longest time without a member", "a member that stays"),
    )


def falls_behind(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Retention does not depend on readers. A share group continues at the log start offset: share.auto.offset.reset is
    only for groups that have not begun."""
    if not topic.deletes:
        return None
    limits = f"{REFERENCE}, retention.ms, retention.bytes"
    if (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        not_read = kept(event, "the topic has no retention limit", limits, "every record that was not read yet")
        return None if topic.compacted else not_read
    deleted = "records that were deleted before they were read"
    if client.commits == "share":
        return Promise(
            event=event,
            effects=(Effect.DELETED,),
            which="records that were deleted before a member accepted them",
            why="a share group that starts below the log start offset continues at the log start offset",
            source=f"KIP-932; {limits}",
            fix=("retention above the longest time without a reader",),
        )
    effects, which = {
        "earliest": ((Effect.DELETED,), deleted),
        "latest": ((Effect.SKIPPED, Effect.DELETED), f"all records in the log when the group returns, and {deleted}"),
        "none": ((Effect.STOPPED,), "the group reads nothing until an operator sets its offsets"),
    }[client.reset]
    return Promise(
        event=event,
        effects=effects,
        which=which,
        why=f"the group's offset is below the log start offset, and auto.offset.reset={client.reset}",
        source=f"{REFERENCE}, retention.ms, auto.offset.reset",
        fix=("retention above the longest time without a reader",),
    )


def partitions_added(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    """A group has no offset in a new partition. Members learn of it when they next ask for metadata, or from their
    coordinator; a producer may learn of it before them."""
    del topic
    if client.commits == "share":
        why = "a share group begins at the first record of partitions that are added to a topic it knows (since 4.4)"
        return kept(event, why, "KIP-932; KAFKA-20742", "every record of the new partitions")
    source = f"KAFKA-12261; {REFERENCE}, auto.offset.reset, metadata.max.age.ms"
    if client.reset == "earliest":
        why = "the group has no offset there, and with auto.offset.reset=earliest it begins at the first record"
        return kept(event, why, source, "every record of the new partitions")
    effect, which = {
        "latest": (Effect.SKIPPED, "records written to the new partitions before a member of the group learns of them"),
        "none": (Effect.STOPPED, "the group reads nothing of the new partitions until an operator sets its offsets"),
    }[client.reset]
    return Promise(
        event=event,
        effects=(effect,),
        which=which,
        why=f"the group has no offset there, and auto.offset.reset={client.reset}",
        source=source,
        fix=("auto.offset.reset=earliest",),
    )
