"""What is promised of the offsets that groups commit: they are records of __consumer_offsets, under its settings."""

from __future__ import annotations

from harness.model.contract.broker_rules import CLEAN, eligible
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Effect, Event, Promise, away, kept


def leader_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A coordinator answers a commit when the ISR has it, whatever the clients' acks; so an ISR of one may lose it."""
    del client
    if not topic.keeps_offsets or topic.replicas == 1:
        return None
    if topic.unclean:
        which = "what was read after the last commit that the elected replica has: the group begins again there"
        why = "commits that its leader acknowledged alone go with it where one that was not in sync is elected"
        if topic.remembers:
            which += "; only if nobody is up who left the ISR when it fell below min.insync.replicas"
            why = "where nobody is eligible one is elected that may lack commits (KIP-966)"
        return Promise(
            event=event,
            effects=(Effect.DUPLICATED,),
            which=which,
            why=why,
            source=f"KIP-106; {REFERENCE}, min.insync.replicas",
            mend=(CLEAN, *eligible(topic)),
        )
    if topic.remembers:
        why = "a leader alone acknowledges no commit, and who was in sync before is eligible still (KIP-966)"
        return kept(event, why, "KIP-966", "every acknowledged commit")
    which = "commits, and where a group begins, until its leader is back; no acknowledged commit goes"
    return away(event, which, "nobody who may lack a commit is elected", "KIP-106; KIP-966", *eligible(topic))


def expire(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    """Since KIP-211 what a group with members has committed for what it subscribes to stays. Where one begins that has
    no offset any more is auto.offset.reset's to say. A share group has its state in another topic, for good."""
    del topic
    if client.commits == "share":
        why = "what a share group has accepted is in __share_group_state, and it does not expire"
        return kept(event, why, "KIP-932", "where the group goes on")
    if client.stays:
        return kept(event, "offsets of a group with members do not grow old", "KIP-211", "every offset of the group")
    effect, which = {
        "earliest": (Effect.DUPLICATED, "all that is there, read before or not"),
        "latest": (Effect.SKIPPED, "what was not committed by then, up to where the log ends when somebody is back"),
        "none": (Effect.STOPPED, "nothing is read until somebody says where to begin"),
    }[client.reset]
    return Promise(
        event=event,
        effects=(effect,),
        which=which,
        why=f"the group has no offset any more, and auto.offset.reset={client.reset}",
        source=f"KIP-211; {REFERENCE}, offsets.retention.minutes, auto.offset.reset",
        mend=("offsets.retention.minutes above the longest time without a member", "a member that stays"),
    )


def falls_behind(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Retention does not ask who has read. A share group goes on at the log's start: its share.auto.offset.reset is for
    groups that have not begun."""
    if not topic.deletes:
        return None
    limits = f"{REFERENCE}, retention.ms, retention.bytes"
    if (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        not_read = kept(event, "no limit by age or size", limits, "what nobody has read")
        return None if topic.compacted else not_read
    deleted = "what was deleted before it was read"
    if client.commits == "share":
        return Promise(
            event=event,
            effects=(Effect.DELETED,),
            which="what was deleted before anybody accepted it",
            why="a share group whose start is below the log's start goes on at the log's start",
            source=f"KIP-932; {limits}",
            mend=("retention above the longest time without a reader",),
        )
    effects, which = {
        "earliest": ((Effect.DELETED,), deleted),
        "latest": ((Effect.SKIPPED, Effect.DELETED), f"what is there when it comes back, beside {deleted}"),
        "none": ((Effect.STOPPED,), "nothing is read until somebody says where to go on"),
    }[client.reset]
    return Promise(
        event=event,
        effects=effects,
        which=which,
        why=f"its offset is below the log's start, and auto.offset.reset={client.reset}",
        source=f"{REFERENCE}, retention.ms, auto.offset.reset",
        mend=("retention above the longest time without a reader",),
    )
