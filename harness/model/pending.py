"""Reasons why a cluster has not recovered: the conditions for which a run waited in vain."""

from __future__ import annotations

from harness.model.described import Described


class Pending(Described):
    """The condition that was missing when the wait for recovery timed out. run.json has it, and the judge uses it."""

    NODES_DOWN = "nodes_down", "A node was not running, so the cluster need not recover."
    ISR_NOT_FULL = "isr_not_full", "Every node was running, and an ISR was not full or a topic was not reported."
    NO_ACKS = "no_acks", "Every node was running, every ISR had been full, and a partition acknowledged nothing."
