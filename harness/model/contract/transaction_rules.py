"""What is promised of the end of a transaction: its marker is a record of each partition, under that one's settings."""

from __future__ import annotations

from harness.model.contract.broker_rules import CLEAN, eligible
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Event, Promise, away, kept, lost


def end_alone_dies(event: Event, topic: TopicSettings, client: ClientSettings) -> Promise | None:
    """A coordinator takes a marker for written when the ISR has it (acks=all), and forgets the transaction.

    Where one leads then that lacks it, the transaction is open there for good.
    """
    if not client.transactional or topic.replicas == 1:
        return None
    if topic.needed > 1 and (topic.unclean or topic.remembers):
        why = "a leader alone acknowledges no marker, so the coordinator writes it again, to whoever leads next"
        return kept(event, why, "KIP-98; KIP-966", "every record of a committed transaction")
    if topic.unclean:
        which = (
            "records of the transaction: who reads as read_committed stands before the first of them, and sees nothing "
            "that was written since, until somebody aborts it there (kafka-transactions.sh abort)"
        )
        why = "its end went with the leader that acknowledged it alone, and its coordinator has nothing left to write"
        return lost(event, which, why, "KIP-98; KIP-664; KAFKA-20716", CLEAN, *eligible(topic))
    which = "reads and writes until the leader is back; the transaction ended as its client was told"
    return away(event, which, "nobody who may lack its end is elected", "KIP-98; KIP-106; KIP-966", *eligible(topic))
