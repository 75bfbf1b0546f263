"""What is promised when something happens to brokers or to a log: rules, each with its reason and its source."""

from __future__ import annotations

from typing import Final

from harness.model.configuration import ClientSettings, TopicSettings
from harness.model.effects import REFERENCE, Event, Promise, away, kept, lost

_MIN_ISR: Final = "min.insync.replicas=2"
_ALL: Final = "acks=all"
THREE: Final = "a replication factor of 3"
_CLEAN: Final = "unclean.leader.election.enable=false"


def nothing_breaks(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "all" and topic.min_isr > topic.replicas:
        return away(
            event,
            "no record with acks=all is ever accepted",
            f"min.insync.replicas={topic.min_isr} is more than the {topic.replicas} replicas there are",
            f"{REFERENCE}, min.insync.replicas",
            f"min.insync.replicas={max(1, topic.replicas - 1)}",
        )
    return None


def without_acks_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """What a leader that goes takes with it where nobody waits for followers."""
    source, mend = f"{REFERENCE}, acks", missing(topic, client)
    if client.acks == "0":
        which = "what was sent and had not reached the next leader; nobody counts it"
        return lost(event, which, "acks=0 does not wait for any broker", source, *mend)
    if client.acks == "1" and topic.replicas > 1:
        which = "acknowledged records at or above the log end of the next leader"
        return lost(event, which, "acks=1 answers before any follower has the record", source, *mend)
    return None


def missing(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Of what together lets a record outlive the broker that acknowledged it."""
    # Two replicas that both have to be in sync take no record while one is down.
    alone = topic.replicas == 1 or (topic.replicas == 2 and topic.min_isr == 1)
    wanted = ((THREE, alone), (_ALL, client.acks != "all"), (_MIN_ISR, topic.min_isr == 1))
    return [setting for setting, lacks in wanted if lacks]


def leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if promise := without_acks_all(event, topic, client):
        return promise
    if topic.replicas == 1:
        which = "reads and writes until it is back; what it had written to its files is there then"
        why, mend = "there is no other replica to lead", missing(topic, client)
        return away(event, which, why, f"{REFERENCE}, replication", *mend)
    return kept(event, "every replica in sync has what acks=all acknowledged", f"{REFERENCE}, acks; KIP-101")


def leader_moves(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        return None
    if promise := without_acks_all(event, topic, client):
        return promise
    return kept(event, "the next leader is in sync and has what acks=all acknowledged", "KIP-101")


def replica_down(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1 or client.acks != "all" or topic.min_isr > topic.replicas:
        return None
    source = f"{REFERENCE}, min.insync.replicas"
    if topic.min_isr == topic.replicas:
        which = "writes with acks=all until it is back and has caught up; reads go on"
        why = f"fewer are in sync than min.insync.replicas={topic.min_isr}"
        fewer = f"min.insync.replicas={topic.min_isr - 1}"
        return away(event, which, why, source, THREE if topic.replicas == 2 else fewer)
    why = f"as many are in sync as min.insync.replicas={topic.min_isr} asks for"
    return kept(event, why, source, "every acknowledged record; writes go on once it has left the ISR")


def last_in_sync_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    del client
    if topic.replicas == 1:
        return None
    if topic.unclean:
        which = "acknowledged records at or above the log end of the replica that is elected"
        why = "an unclean election makes a replica the leader that was not in sync, and everybody cuts to its log"
        return lost(event, which, why, "KIP-106; KIP-966", _CLEAN, *_in_sync(topic))
    which = "reads and writes until one of them is back; nothing of what they have is lost"
    return away(event, which, "nobody who may lack a record is elected", "KIP-106; KIP-966", *_in_sync(topic))


def _in_sync(topic: TopicSettings) -> list[str]:
    return [] if topic.min_isr > 1 else [_MIN_ISR]


def returns_short(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "0":
        return None
    source, mend = "KIP-966, last replica standing", missing(topic, client)
    if topic.flushes_each:
        return kept(event, "flush.messages=1: it has nothing that its disk has not", f"{REFERENCE}, flush.messages")
    if client.acks == "all" and topic.replicas > 1 and topic.min_isr > 1 and topic.elr:
        why = "who left the ISR when it fell below min.insync.replicas is eligible still, has it all, and is elected"
        return kept(event, why, source)
    which = "acknowledged records above what it had flushed"
    elr = () if topic.elr else ("eligible.leader.replicas.version=1 (from 4.0)",)
    if mend:
        return lost(event, which, "it may have acknowledged them alone", source, *mend, *elr)
    why = "as the last one in the ISR it leads again, and the others cut their logs to its own"
    return lost(event, which, why, source, *elr)


def power_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        if topic.flushes_each and client.acks != "0":
            return kept(event, "flush.messages=1: it is on its disk", f"{REFERENCE}, flush.messages")
        mend = missing(topic, client)
        return lost(event, _unflushed(topic), "nobody else has it", f"{REFERENCE}, flush.messages", *mend)
    if promise := without_acks_all(event, topic, client):
        return promise
    return kept(event, "the others in sync have it, and kept their power", f"{REFERENCE}, replication")


def power_of_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if client.acks == "0" or topic.flushes_each:
        on_disk = kept(event, "flush.messages=1: each has it on its disk", f"{REFERENCE}, flush.messages")
        return without_acks_all(event, topic, client) or on_disk
    why = "an acknowledged record is in the memory of each machine, and on its disk when the system writes it there"
    mend = ("replicas on power supplies of their own", "flush.messages=1")
    return lost(event, _unflushed(topic), why, f"{REFERENCE}, flush.messages", *mend)


def _unflushed(topic: TopicSettings) -> str:
    if topic.flush_ms > 0:
        return f"acknowledged records of the last {topic.flush_ms} ms"
    if topic.flush_messages > 1:
        return f"at most {topic.flush_messages} acknowledged records of each partition"
    return "acknowledged records that the operating system had not written to a disk"


def disk_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        why, mend = "nobody else has it", missing(topic, client)
        return lost(event, "all of the partition", why, f"{REFERENCE}, replication", *mend)
    if promise := without_acks_all(event, topic, client):
        return promise
    return kept(event, "the others in sync have it; it fetches all of it anew", f"{REFERENCE}, replication")
