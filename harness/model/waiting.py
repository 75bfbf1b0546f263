"""Waiting for a condition, within a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness.model.documents.run import Settled
from harness.model.errors import HarnessTimeout

T = TypeVar("T")


def wait_for(
    probe: Callable[[], T], *, until: Callable[[T], bool], deadline_s: float, what: str, interval_s: float = 0.05
) -> T:
    """Calls `probe` until its result satisfies `until`, and returns that result.

    Raises HarnessTimeout after `deadline_s` seconds, naming what was waited for and what was last seen.
    """
    give_up_at = time.monotonic() + deadline_s
    while not until(seen := probe()):
        if time.monotonic() > give_up_at:
            raise HarnessTimeout(f"waited {deadline_s:g} s for {what}; last saw {seen!r}")
        time.sleep(interval_s)
    return seen


def settled(pending: Callable[[], str], *, what: str, deadline_s: float) -> Settled:
    """Waits until `pending` returns an empty text. After the deadline, the result has the last one; that is evidence
    and not an error, and the judge decides what it means."""
    started, late = time.monotonic(), ""
    try:
        wait_for(pending, until=lambda reason: not reason, deadline_s=deadline_s, what=what)
    except HarnessTimeout as timeout:
        late = str(timeout)
    return Settled(ok=not late, waited_s=round(time.monotonic() - started, 3), last_seen=late)
