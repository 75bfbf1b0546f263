"""Reasons of findings about an offset that a coordinator reported."""

from __future__ import annotations

from harness.verify.engine.rows import Reason


class Reported(Reason):
    """Reasons of findings about the offset of a group."""

    BEHIND = "behind", "It is one that the group committed, and below the last acknowledged commit."
    NOBODY = "nobody", "No commit had it."
    DELETED = "deleted", "The group was deleted with its offsets, and has one again."
    GONE = "no_offset", "The group has no offset."
    BEGAN_BELOW = "began_below", "A member began below everything that its group had committed."
    OFFSETS = "offsets", "The records and the offsets of one transaction had different outcomes."
