"""What is promised when something happens to brokers or to a log: rules, each with its reason and its source."""

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


def without_acks_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """What a leader that goes takes with it where nobody waits for followers."""
    source, mend = f"{REFERENCE}, acks", missing(topic, client)
    if client.acks == "0":
        where = "the next leader" if topic.replicas > 1 else "the files of the leader"
        which = f"what was sent and had not reached {where}; nobody counts it"
        return lost(event, which, "acks=0 does not wait for any broker", source, *mend)
    if client.acks == "1" and topic.replicas > 1:
        which = "acknowledged records at or above the log end of the next leader"
        return lost(event, which, "acks=1 answers before any follower has the record", source, *mend)
    return None


def missing(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Of what together lets a record outlive the broker that acknowledged it."""
    # Two replicas that both have to be in sync take no record while one is down.
    alone = topic.replicas == 1 or (topic.replicas == 2 and topic.min_isr == 1)
    wanted = ((THREE, alone), (ALL, client.acks != "all"), (MIN_ISR, topic.min_isr == 1))
    return [setting for setting, lacks in wanted if lacks]


def leader_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.replicas == 1:
        which = "reads and writes until it is back; what it had written to its files is there then"
        return both(
            gone, away(event, which, "there is no other replica to lead", _REPLICATION, *missing(topic, client))
        )
    why = "every replica in sync has what acks=all acknowledged, and one of them leads next"
    return gone or kept(event, why, f"{_REPLICATION}; KIP-101")


def leader_moves(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Who leads next as planned (KIP-460, KIP-455, a controlled shutdown) is in the ISR that the controller knows."""
    if topic.replicas == 1:
        return None
    why = "the next leader is in sync and has what acks=all acknowledged"
    on_purpose = f"{_REPLICATION}, graceful shutdown, balancing leadership; KIP-497"
    return without_acks_all(event, topic, client) or kept(event, why, on_purpose)


def leader_taken_away(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A lone replica, too, has a second one beside it until that one is in the ISR: who is to go leads until then, and
    the controller does not ask it what it has taken since."""
    if topic.replicas > 1:
        return leader_moves(event, topic, client)
    source = f"KIP-455; KIP-497; KAFKA-20554; {REFERENCE}, acks"
    if client.acks == "all":
        why = "until the replica that comes is in sync it does not lead, and from then on acks=all waits for it, too"
        return kept(event, why, source)
    waits = "no broker" if client.acks == "0" else "its leader alone"
    which = "acknowledged records at or above the log end of the replica that takes its place"
    why = f"acks={client.acks} waits for {waits}, and who comes is in sync with what was committed, not with all of it"
    return lost(event, which, why, source, ALL)


def replica_down(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Of producers without acks=all it matters to readers alone."""
    source = f"{REFERENCE}, min.insync.replicas; KAFKA-15583"
    if topic.replicas == 1:
        return None
    if topic.needed < topic.replicas:
        why = f"as many are in sync as min.insync.replicas={topic.min_isr} asks for"
        which = "every acknowledged record; writes go on once it has left the ISR"
        return kept(event, why, source, which) if client.acks == "all" else None
    why = f"fewer are in sync than min.insync.replicas={topic.min_isr}"
    which = "writes with acks=all until it is back and has caught up; reads go on"
    if client.acks != "all":
        which = "reads of what is written from then on, until it is back and has caught up; writes go on"
        why += ", and no high watermark goes up then, whatever the acks (from 3.7): nobody reads beyond it"
    enough = max(2, topic.replicas - 1)
    mend = [THREE] if topic.replicas == 2 else []
    mend += [f"min.insync.replicas={enough}"] if topic.min_isr > enough else []
    return away(event, which, why, source, *mend)


def last_in_sync_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Where ELR is on whoever left the ISR when it fell below min.insync.replicas is elected, before anybody unclean.
    That one has what acks=all acknowledged: a leader below min.insync.replicas acknowledges nothing more."""
    if topic.replicas == 1:
        return None
    if topic.unclean:
        which = "acknowledged records at or above the log end of the replica that is elected"
        why = "an unclean election makes a replica the leader that was not in sync, and everybody cuts to its log"
        if topic.remembers:
            which += ", if nobody is up who left the ISR when it fell below min.insync.replicas"
            why += "; who left it then is elected first, and with acks=all has all of it"
        return lost(event, which, why, "KIP-106; KIP-966", CLEAN, *eligible(topic, client.acks))
    if topic.remembers:
        why = (
            "who left the ISR when it fell below min.insync.replicas has all that acks=all acknowledged, and is elected"
        )
        which = "every acknowledged record; if none of those is up, nobody leads until one is"
        return without_acks_all(event, topic, client) or kept(event, why, "KIP-966", which)
    which = "reads and writes until it is back; nothing of what it has is lost"
    why = "nobody who may lack a record is elected"
    waits = away(event, which, why, "KIP-106; KIP-966", *eligible(topic, client.acks))
    return both(without_acks_all(event, topic, client), waits) if client.acks == "0" else waits


def eligible(topic: TopicSettings, acks: Acks = "all") -> list[str]:
    """Of what together lets another replica be elected that has every record (KIP-966): acks=1 goes on below
    min.insync.replicas, and then nobody else has all of it."""
    wanted = (
        (THREE, topic.replicas == 2),
        (ALL, acks != "all"),
        (MIN_ISR, topic.min_isr == 1),
        (_ELR, not topic.elr),
    )
    return [setting for setting, lacks in wanted if lacks]


def _elected_instead(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Where another one is elected than the last replica in sync: what goes is what that one lacks."""
    return last_in_sync_dies(event, topic, client) if topic.unclean or topic.remembers else None


def returns_short(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    source, mend = "KIP-966, last replica standing", missing(topic, client)
    if client.acks == "all" and topic.remembers and not topic.unclean:
        why = "who left the ISR when it fell below min.insync.replicas is eligible still, has it all, and is elected"
        return kept(event, why, source)
    gone = _elected_instead(event, topic, client)
    if topic.flushes_each:
        why = "flush.messages=1: it has nothing that its disk has not"
        return gone or kept(event, why, f"{REFERENCE}, flush.messages")
    which = f"acknowledged records above what it had flushed{', where no other is up' if gone else ''}"
    alone = f"it may have {'acknowledged' if client.acks != '0' else 'taken'} them alone"
    why = alone if mend else "as the last one in the ISR it leads again, and the others cut their logs to its own"
    others = ((CLEAN, topic.unclean), (_ELR, not topic.elr))
    return both(gone, lost(event, which, why, source, *mend, *(setting for setting, lacks in others if lacks)))


def power_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.replicas > 1:
        return gone or kept(event, "the others in sync have it, and kept their power", _REPLICATION)
    if topic.flushes_each:
        return gone or kept(event, "flush.messages=1: it is on its disk", f"{REFERENCE}, flush.messages")
    mend = missing(topic, client)
    return both(gone, lost(event, _unflushed(topic), f"nobody else has it{_idle(topic)}", _flushing(topic), *mend))


def power_of_all(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    gone = without_acks_all(event, topic, client)
    if topic.flushes_each:
        return gone or kept(event, "flush.messages=1: each has it on its disk", f"{REFERENCE}, flush.messages")
    why = "an acknowledged record is in the memory of each machine, and on its disk when the system writes it there"
    mend = ("replicas on power supplies of their own", "flush.messages=1")
    return both(gone, lost(event, _unflushed(topic), f"{why}{_idle(topic)}", _flushing(topic), *mend))


def _unflushed(topic: TopicSettings) -> str:
    """Whichever limit is reached first has a log flushed."""
    many = f"at most {topic.flush_messages} " if topic.flush_messages > 1 else ""
    of_each = " of each partition" if many else ""
    if topic.flushed_within_ms > 0:
        return f"{many}acknowledged records{of_each}{', all' if many else ''} of the last {topic.flushed_within_ms} ms"
    late = "" if many else " that the operating system had not written to a disk"
    return f"{many}acknowledged records{of_each}{late}"


def _idle(topic: TopicSettings) -> str:
    """Of a flush.ms that is for nothing."""
    if topic.flush_ms < 0 or topic.flush_scheduler_ms >= 0:
        return ""
    return f"; flush.ms={topic.flush_ms} does nothing while log.flush.scheduler.interval.ms is never, as by default"


def _flushing(topic: TopicSettings) -> str:
    by_time = ", flush.ms, log.flush.scheduler.interval.ms" if topic.flush_ms >= 0 else ""
    return f"{REFERENCE}, flush.messages{by_time}"


def disk_of_one(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    if topic.replicas == 1:
        return lost(event, "all of the partition", "nobody else has it", _REPLICATION, *missing(topic, client))
    why = "the others in sync have it; it fetches all of it anew"
    return without_acks_all(event, topic, client) or kept(event, why, _REPLICATION)


def disk_of_last_in_sync(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Who was alone in sync is elected when it is back, whatever became of its disk: as the one in the ISR, or with ELR
    as the last known leader, where nobody is eligible. With two in sync required somebody else is; and with unclean
    elections whoever is up."""
    if topic.replicas == 1:
        return None
    source = "KIP-966, last replica standing; KIP-858"
    if client.acks == "all" and topic.remembers and not topic.unclean:
        why = "who left the ISR when it fell below min.insync.replicas is eligible still, has it all, and is elected"
        return kept(event, why, source)
    why = "alone in sync, or as the last known leader, it leads again when it is back, and the others cut to its log"
    mend = dict.fromkeys([*missing(topic, client), *eligible(topic, client.acks)])
    return _elected_instead(event, topic, client) or lost(event, "all of the partition", why, source, *mend)
