"""What a cluster lacks that has not recovered: the reason for which a run waited for it in vain."""

from __future__ import annotations

from harness.model.described import Described


class Pending(Described):
    """What was missing when the wait for recovery timed out. run.json has it, and the judge decides by it."""

    NODES_DOWN = "nodes_down", "A node was not running, so the cluster need not recover."
    ISR_NOT_FULL = "isr_not_full", "Every node was running, and an ISR was not full or a topic was not reported."
    NO_ACKS = "no_acks", "Every node was running, every ISR had been full, and a partition acknowledged nothing."
