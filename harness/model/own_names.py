"""The names of a run on a cluster that others use, too: its topics, groups and transactional ids have a prefix."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = 10
_PREFIX: Final = re.compile(rf"\Adurability-[0-9a-f]{{{_DIGITS}}}-")


def prefix_of(run: int) -> str:
    """The prefix of all names of a run. run: the number that marks its records."""
    return f"durability-{run:016x}"[: len("durability-") + _DIGITS] + "-"


def without_prefix(name: str) -> str:
    """The name as the scenario has it. A name without the prefix of a run is such a name already."""
    return _PREFIX.sub("", name)
