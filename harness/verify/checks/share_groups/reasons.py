"""Reasons of findings about a record of a share group, and the columns that name one."""

from __future__ import annotations

from typing import Final

from harness.verify.engine.rows import Reason
from harness.verify.engine.tables import BUNDLE, PLACE

SHARE: Final = [BUNDLE, "group", *PLACE[1:]]
GIVEN: Final = [*SHARE, "offset"]


class Shared(Reason):
    """Reasons of findings about share groups."""

    NEVER_GIVEN = "never given", "The group has finished with it, and no member received it."
    UNACCEPTED = "unaccepted", "The group has finished with it, and no member accepted or rejected it."
    ANSWERED_AGAIN = "answered again", "The group delivered it again after an accept or reject was acknowledged."
    OVER_LIMIT = "over limit", "The group delivered it more often than its limit, at which it archives it."
    UNCOUNTED = "uncounted release", "The group delivered it as if it had not been released before."
    WITHIN_LOCK = "within lock", "The group delivered it again while the lock of another delivery lasted."
