"""What is promised of the remote tier: brokers know what it has from __remote_log_metadata, under its settings."""

from __future__ import annotations

from typing import Final

from harness.model.contract.broker_rules import CLEAN, MIN_ISR
from harness.model.contract.configuration import AS_RETENTION, ClientSettings, TopicSettings
from harness.model.contract.effects import Event, Promise, kept, lost
from harness.model.contract.internal_topics import TIER_METADATA

_SOURCE: Final = "KIP-405; KIP-1235"
_TIERED: Final = "KIP-405"


def metadata_leader_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A broker deletes a segment when it has read that its copy is finished; that is acknowledged by the ISR, whatever
    the clients' acks."""
    del client
    if not topic.keeps_tier or topic.replicas == 1:
        return None
    if topic.min_isr > 1:
        why = "a leader alone acknowledges no copy, and who is not told of one keeps the segment"
        return kept(event, why, _SOURCE)
    if not topic.unclean:
        return kept(event, "nobody who may lack a word of a copy is elected", "KIP-405; KIP-106")
    return lost(
        event,
        "what brokers had deleted of segments whose copies its leader alone had acknowledged",
        "the copies are there, and no broker that reads the topic anew finds a word of them",
        _SOURCE,
        # remote.log.metadata.topic.min.isr is for topics that do not exist yet.
        f"{MIN_ISR} on {TIER_METADATA}",
        f"{CLEAN} on {TIER_METADATA}",
    )


def objects_deleted(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """What brokers have themselves they read there, whatever the tier has; of the rest it has the only copy."""
    del client
    if not topic.tiered:
        return None
    if topic.keeps_local:
        return kept(event, "brokers have each record themselves, and read none in the tier that they have", _TIERED)
    return lost(
        event,
        "what was in the deleted objects, and what local.retention.ms or local.retention.bytes had brokers delete",
        "of these records the tier had the only copy, and no broker makes another",
        _TIERED,
        f"local.retention.ms={AS_RETENTION} and local.retention.bytes={AS_RETENTION}",
        "object versions in the storage",
    )
