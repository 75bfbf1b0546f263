"""From which set of replicas a new leader was elected."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from harness.model.history.changes import PartitionChange


class ElectedFrom(StrEnum):
    """The set in which the new leader was before its election."""

    ISR = "isr"
    ELR = "elr"
    LAST_KNOWN = "last_known_elr"  # allowed by KIP-966 if ISR and ELR are empty; it may lose records
    UNCLEAN = "unclean"  # none of these
    UNKNOWN = "unknown"  # the state before is not known, because a snapshot or a gap hides it


def elected_from(before: PartitionChange, after: PartitionChange, returns: Callable[[int], bool]) -> ElectedFrom:
    """The set in which the leader of `after` was. returns: whether this change is the one by which a broker that ended
    uncleanly leaves the ELR.

    A reassignment ends with the record by which its last replica joins the ISR, and that replica may lead at once. An
    unclean election changes no replicas (`PartitionChangeBuilder`).
    """
    leader = after.leader
    moved = (before.adding or before.removing) and not (after.adding or after.removing)
    if leader in before.isr or (moved and leader in after.isr):
        return ElectedFrom.ISR
    if leader in before.elr:
        return ElectedFrom.ELR
    eligible = [broker for broker in before.elr if not returns(broker)]
    if not before.isr and not eligible and leader in before.last_known_elr:
        return ElectedFrom.LAST_KNOWN
    return ElectedFrom.UNCLEAN
