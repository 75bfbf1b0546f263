"""Promises when something happens to brokers or to a log: rules with reason and source."""

from __future__ import annotations

from typing import Final

from harness.model.contract.configuration import Acks, ClientSettings, TopicSettings
from harness.model.contract.effects import REFERENCE, Event, Promise, away, both, kept, lost

MIN_ISR: Final = "min.insync.replicas=2"
ALL: Final = "acks=all"
_ELR: Final = "eligible.leader.replicas.version=1 (from 4.0)"
THREE: Final = "a replication factor of 3"
CLEAN: Final = "unclean.leader.election.enable=false"
_REPLICATION: Final = f"{REFERENCE}, replication"
_ELIGIBLE: Final = (
    "a replica that left the ISR when it fell below min.insync.replicas has all that acks=all acknowledged"
)


def without_acks_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Records that are lost with a leader because the producer does not wait for followers."""
    source, fix = f"{REFERENCE}, acks", missing(topic, client)
    if client.acks == "0":
        where = "the next leader" if topic.replicas > 1 else "the files of the leader"
        which = f"records that were sent and had not reached {where}; the producer does not learn which"
        return lost(event, which, "with acks=0 the producer waits for no broker", source, *fix)
    if client.acks == "1" and topic.replicas > 1:
        which = "acknowledged records at or above the log end of the next leader"
        return lost(
            event, which, "with acks=1 the leader acknowledges a record before any follower has it", source, *fix
        )
    return None


def missing(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """The settings that are missing for a record to outlive the broker that acknowledged it."""
    # Two replicas that both must be in sync accept no record while one is down, so none is on one of them alone.
    alone = topic.replicas == 1 or (topic.replicas == 2 and topic.min_isr == 1)
    wanted = ((THREE, alone), (ALL, client.acks != "all"), (MIN_ISR, topic.min_isr == 1))
    return [setting for setting, lacks in wanted if lacks]


def leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.replicas == 1:
        which = "reads and writes until the leader is back; the records in its files are available again then"
        return both(
            gone, away(event, which, "there is no other replica that could lead", _REPLICATION, *missing(topic, client))
        )
    why = "every in-sync replica has the records that acks=all acknowledged, and one of them is elected"
    return gone or kept(event, why, f"{_REPLICATION}; KIP-101")


def leader_moves(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """After a planned move (KIP-460, KIP-455, a controlled shutdown) the next leader is in the controller's ISR."""
    if topic.replicas == 1:
        return None
    why = "the next leader is in sync and has the records that acks=all acknowledged"
    on_purpose = f"{_REPLICATION}, graceful shutdown, balancing leadership; KIP-497"
    return without_acks_all(event, topic, client) or kept(event, why, on_purpose)


def leader_taken_away(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """While the only replica is reassigned there are two. The old one leads until the new one is in the ISR, and may
    have appended more since, which the controller does not check.
    """
    if topic.replicas > 1:
        return leader_moves(event, topic, client)
    source = f"KIP-455; KIP-497; KAFKA-20554; {REFERENCE}, acks"
    if client.acks == "all":
        why = "the new replica leads only after it is in sync, and from then on acks=all waits for it too"
        return kept(event, why, source)
    waits = "no broker" if client.acks == "0" else "the leader only"
    which = "acknowledged records at or above the log end of the replica that takes its place"
    why = f"acks={client.acks} waits for {waits}, and the new replica is in sync once it has what was committed"
    return lost(event, which, why, source, ALL)


def replica_down(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """For producers without acks=all this only matters to readers."""
    source = f"{REFERENCE}, min.insync.replicas; KAFKA-15583"
    if topic.replicas == 1:
        return None
    if topic.needed < topic.replicas:
        why = f"the other replicas are in sync, and min.insync.replicas={topic.min_isr} needs no more"
        which = "every acknowledged record; writes continue once the replica has left the ISR"
        return kept(event, why, source, which) if client.acks == "all" else None
    why = f"fewer replicas are in sync than min.insync.replicas={topic.min_isr}"
    which = "writes with acks=all until the replica is back and has caught up; reads continue"
    if client.acks != "all":
        which = "reads of records written from then on, until the replica is back and has caught up; writes continue"
        why += ", and then the high watermark does not advance, whatever the acks (from 3.7)"
    enough = max(2, topic.replicas - 1)
    fix = [THREE] if topic.replicas == 2 else []
    fix += [f"min.insync.replicas={enough}"] if topic.min_isr > enough else []
    return away(event, which, why, source, *fix)


def last_in_sync_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """With ELR the replicas that left the ISR when it fell below min.insync.replicas stay eligible, and are elected
    before any other. They have all that acks=all acknowledged, because a leader below min.insync.replicas acknowledges
    nothing.
    """
    if topic.replicas == 1:
        return None
    if topic.unclean:
        which = "acknowledged records at or above the log end of the replica that is elected"
        why = "an unclean election makes a replica the leader that was not in sync, and the others truncate to its log"
        if topic.remembers:
            which += ", if no eligible leader replica is up"
            why += "; an eligible leader replica would be elected first, and with acks=all it has every record"
        return lost(event, which, why, "KIP-106; KIP-966", CLEAN, *eligible(topic, client.acks))
    if topic.remembers:
        why = f"{_ELIGIBLE}, and is elected"
        which = "every acknowledged record; if no eligible replica is up, there is no leader until one is"
        return without_acks_all(event, topic, client) or kept(event, why, "KIP-966", which)
    which = "reads and writes until that replica is back; none of its records is lost"
    why = "a replica that may lack a record is not elected"
    waits = away(event, which, why, "KIP-106; KIP-966", *eligible(topic, client.acks))
    return both(without_acks_all(event, topic, client), waits) if client.acks == "0" else waits


def eligible(topic: TopicSettings, acks: Acks = "all") -> list[str]:
    """The settings that are missing for another replica with every record to be electable (KIP-966). acks=1 continues
    below min.insync.replicas, and then no other replica has every record."""
    wanted = (
        (THREE, topic.replicas == 2),
        (ALL, acks != "all"),
        (MIN_ISR, topic.min_isr == 1),
        (_ELR, not topic.elr),
    )
    return [setting for setting, lacks in wanted if lacks]


def _elected_instead(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """The loss if a replica other than the last in-sync one is elected: the records that it lacks."""
    return last_in_sync_dies(event, topic, client) if topic.unclean or topic.remembers else None


def returns_short(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    source, fix = "KIP-966, last replica standing", missing(topic, client)
    if client.acks == "all" and topic.remembers and not topic.unclean:
        why = f"{_ELIGIBLE}, stays eligible and is elected"
        return kept(event, why, source)
    gone = _elected_instead(event, topic, client)
    if topic.flushes_each:
        why = "with flush.messages=1 every record of the replica is on its disk"
        return gone or kept(event, why, f"{REFERENCE}, flush.messages")
    which = f"acknowledged records above its flushed log end{', if no other replica is up' if gone else ''}"
    alone = f"no other replica may have had them when it {'acknowledged' if client.acks != '0' else 'appended'} them"
    why = alone if fix else "as the last one in the ISR it leads again, and the others truncate to its log"
    others = ((CLEAN, topic.unclean), (_ELR, not topic.elr))
    return both(gone, lost(event, which, why, source, *fix, *(setting for setting, lacks in others if lacks)))


def power_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.replicas > 1:
        return gone or kept(event, "the other in-sync replicas have it, and kept their power", _REPLICATION)
    if topic.flushes_each:
        return gone or kept(event, "with flush.messages=1 it is on the disk", f"{REFERENCE}, flush.messages")
    fix = missing(topic, client)
    return both(
        gone, lost(event, _unflushed(topic), f"no other replica has them{_idle(topic)}", _flushing(topic), *fix)
    )


def power_of_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.flushes_each:
        return gone or kept(
            event, "with flush.messages=1 every replica has it on its disk", f"{REFERENCE}, flush.messages"
        )
    why = "an acknowledged record is in the memory of each machine until the operating system writes it to the disk"
    fix = ("replicas on power supplies of their own", "flush.messages=1")
    return both(gone, lost(event, _unflushed(topic), f"{why}{_idle(topic)}", _flushing(topic), *fix))


def _unflushed(topic: TopicSettings) -> str:
    """The records that no disk has. A log is flushed at the limit that is reached first."""
    many = f"at most {topic.flush_messages} " if topic.flush_messages > 1 else ""
    of_each = " of each partition" if many else ""
    if topic.flushed_within_ms > 0:
        return f"{many}acknowledged records{of_each}{', all' if many else ''} of the last {topic.flushed_within_ms} ms"
    late = "" if many else " that the operating system had not written to a disk"
    return f"{many}acknowledged records{of_each}{late}"


def _idle(topic: TopicSettings) -> str:
    """A note on a flush.ms without effect."""
    if topic.flush_ms < 0 or topic.flush_scheduler_ms >= 0:
        return ""
    return (
        f"; flush.ms={topic.flush_ms} has no effect unless log.flush.scheduler.interval.ms is set, which it is not "
        "by default"
    )


def _flushing(topic: TopicSettings) -> str:
    by_time = ", flush.ms, log.flush.scheduler.interval.ms" if topic.flush_ms >= 0 else ""
    return f"{REFERENCE}, flush.messages{by_time}"


def disk_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        return lost(
            event, "all records of the partition", "no other replica has them", _REPLICATION, *missing(topic, client)
        )
    why = "the other in-sync replicas have it, and the broker fetches everything from the next leader"
    return without_acks_all(event, topic, client) or kept(event, why, _REPLICATION)


def disk_of_last_in_sync(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A replica that was alone in sync is elected when it is back, even with an empty disk: as the only one in the ISR,
    or with ELR as the last known leader if no replica is eligible. If min.insync.replicas is 2, another replica is
    eligible. With unclean elections any replica that is up is elected.
    """
    if topic.replicas == 1:
        return None
    source = "KIP-966, last replica standing; KIP-858"
    if client.acks == "all" and topic.remembers and not topic.unclean:
        why = f"{_ELIGIBLE}, stays eligible and is elected"
        return kept(event, why, source)
    why = (
        "alone in sync, or as the last known leader, it leads again when it is back, and the others truncate to its log"
    )
    fix = dict.fromkeys([*missing(topic, client), *eligible(topic, client.acks)])
    return _elected_instead(event, topic, client) or lost(event, "all records of the partition", why, source, *fix)
