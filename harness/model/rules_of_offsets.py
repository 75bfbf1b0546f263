"""What is promised of the offsets that groups commit: they are records of __consumer_offsets, under its settings."""

from __future__ import annotations

from typing import Final

from harness.model.configuration import ClientSettings, TopicSettings
from harness.model.effects import REFERENCE, Effect, Event, Promise, away, kept

_CLEAN: Final = "unclean.leader.election.enable=false"
_MIN_ISR: Final = "min.insync.replicas=2"


def leader_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A coordinator answers a commit when the ISR has it, whatever the clients' acks; so an ISR of one may lose it."""
    del client
    if not topic.keeps_offsets or topic.replicas == 1:
        return None
    if topic.unclean:
        return Promise(
            event=event,
            effects=(Effect.DUPLICATED,),
            which="what was read after the last commit that the elected replica has: the group begins again there",
            why="commits that its leader acknowledged alone go with it where one that was not in sync is elected",
            source=f"KIP-106; {REFERENCE}, min.insync.replicas",
            mend=(_CLEAN, *([] if topic.min_isr > 1 else [_MIN_ISR])),
        )
    if topic.min_isr > 1 and topic.elr:
        why = "a leader alone acknowledges no commit, and who was in sync before is eligible still (KIP-966)"
        return kept(event, why, "KIP-966", "every acknowledged commit")
    which = "commits, and where a group begins, until its leader is back; no acknowledged commit goes"
    mend = [] if topic.min_isr > 1 else [_MIN_ISR]
    return away(event, which, "nobody who may lack a commit is elected", "KIP-106; KIP-966", *mend)


def expire(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise:
    """Since KIP-211 what a group with members has committed for what it subscribes to stays. Where one begins that has
    no offset any more is auto.offset.reset's to say."""
    del topic
    if client.stays:
        return kept(event, "offsets of a group with members do not grow old", "KIP-211", "every offset of the group")
    effect, which = {
        "earliest": (Effect.DUPLICATED, "all that is there, read before or not"),
        "latest": (Effect.SKIPPED, "what was written since the group was left"),
        "error": (Effect.STOPPED, "nothing is read until somebody says where to begin"),
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
    """Retention does not ask who has read."""
    if not topic.deletes or (topic.retention_ms, topic.retention_bytes) == (-1, -1):
        return None
    deleted = "what was deleted before it was read"
    effects, which = {
        "earliest": ((Effect.DELETED,), deleted),
        "latest": ((Effect.SKIPPED, Effect.DELETED), f"what is there when it comes back, beside {deleted}"),
        "error": ((Effect.STOPPED,), "nothing is read until somebody says where to go on"),
    }[client.reset]
    return Promise(
        event=event,
        effects=effects,
        which=which,
        why=f"its offset is below the log's start, and auto.offset.reset={client.reset}",
        source=f"{REFERENCE}, retention.ms, auto.offset.reset",
        mend=("retention above the longest time without a reader",),
    )
