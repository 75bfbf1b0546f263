"""Promises about the remote tier. Brokers know its content from __remote_log_metadata, under that topic's
settings.
"""

from __future__ import annotations

from typing import Final

from harness.model.contract.broker_rules import CLEAN, MIN_ISR
from harness.model.contract.configuration import AS_RETENTION, ClientSettings, TopicSettings
from harness.model.contract.effects import Event, Promise, kept, lost
from harness.model.contract.internal_topics import TIER_METADATA

_SOURCE: Final = "KIP-405; KIP-1235"
_TIERED: Final = "KIP-405"


def metadata_leader_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A broker deletes a local segment once it has read that the copy is finished. The ISR acknowledges that record,
    with any acks of the clients."""
    del client
    if not topic.keeps_tier or topic.replicas == 1:
        return None
    if topic.min_isr > 1:
        why = (
            "a leader below min.insync.replicas acknowledges no copy, and a broker that does not learn of a copy "
            "keeps the segment"
        )
        return kept(event, why, _SOURCE)
    if not topic.unclean:
        return kept(event, "a replica that may lack the metadata of a copy is not elected", "KIP-405; KIP-106")
    return lost(
        event,
        "segments that brokers had deleted locally, and whose copies only that leader had acknowledged",
        "the copies exist, but the metadata of them is lost, so brokers that read the topic again do not know of them",
        _SOURCE,
        # remote.log.metadata.topic.min.isr is only read when the topic is created.
        f"{MIN_ISR} on {TIER_METADATA}",
        f"{CLEAN} on {TIER_METADATA}",
    )


def objects_deleted(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """Brokers read records from their own disks if they have them. The tier has the only copy of the others."""
    del client
    if not topic.tiered:
        return None
    if topic.keeps_local:
        return kept(event, "brokers keep every record on their own disks too, and read it there", _TIERED)
    return lost(
        event,
        "records in the deleted objects that local.retention.ms or local.retention.bytes had removed from the brokers",
        "the tier had the only copy of these records, and no broker can make another",
        _TIERED,
        f"local.retention.ms={AS_RETENTION} and local.retention.bytes={AS_RETENTION}",
        "object versions in the storage",
    )
