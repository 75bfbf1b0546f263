"""Reasons of findings about a record of a share group."""

from __future__ import annotations

from harness.verify.engine.rows import Reason


class Shared(Reason):
    """Reasons of findings about share groups."""

    NEVER_GIVEN = "never given", "The group has finished with it, and no member received it."
    UNACCEPTED = "unaccepted", "The group has finished with it, and no member accepted or rejected it."
    ANSWERED_AGAIN = "answered again", "The group delivered it again after an accept or reject was acknowledged."
