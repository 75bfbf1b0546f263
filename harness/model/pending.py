"""What a cluster lacks that has not recovered: the reason for which a run waited for it in vain."""

from __future__ import annotations

from enum import StrEnum


class Pending(StrEnum):
    """What was missing when the wait for recovery timed out. run.json has it, and the judge decides by it."""

    meaning: str

    def __new__(cls, name: str, meaning: str = "") -> Pending:
        pending = str.__new__(cls, name)
        pending._value_ = name
        pending.meaning = meaning
        return pending

    NODES_DOWN = "nodes_down", "a node was not running, so the cluster need not recover"
    ISR_NOT_FULL = "isr_not_full", "every node was running, and an ISR was not full or a topic was not reported"
    NO_ACKS = "no_acks", "every node was running, every ISR had been full, and a partition acknowledged nothing"
