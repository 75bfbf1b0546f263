"""Share groups (KIP-932) in a run: where they begin, and that they have acknowledged all of it at the end."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from harness.kafka.admin.client import AdminView
from harness.model.clock import now_ns
from harness.model.contract.contract import LOCK, share_reset
from harness.model.contract.kafka_defaults import LOCK_MS_DEFAULT
from harness.model.documents.cluster import ShareGroupOffset
from harness.model.errors import HarnessTimeout
from harness.model.scenario.scenario import SHARE_ISOLATION, SHARE_RESET, Scenario
from harness.model.waiting import wait_for

_ASK_S: Final = 10.0
_MARGIN_S: Final = 30.0
_LOOK_S: Final = 0.25


def set_up(admin: AdminView, scenario: Scenario) -> None:
    """Sets the configuration of each share group before its members join. BadInput where Kafka refuses it."""
    for group, members in scenario.share_groups.items():
        first = members[0]
        admin.alter_group_config(
            group, first.group_config | {SHARE_RESET: share_reset(members), SHARE_ISOLATION: first.isolation}
        )


def drained(admin: AdminView, scenario: Scenario) -> list[ShareGroupOffset]:
    """Waits until every share group has no lag on its topics. Returns how far each came.

    It waits for the lock duration of records that a dead member holds, and some time more. The rows have the last
    answers of the coordinators.
    """
    rows: list[ShareGroupOffset] = []
    for group, members in scenario.share_groups.items():
        places = {(t.name, p) for t in scenario.topics for p in range(t.partitions)}
        wanted = sorted(place for place in places if any(place[0] in r.topics for r in members))
        rows += _drained(admin, group, wanted, int(members[0].group_config.get(LOCK, LOCK_MS_DEFAULT)) / 1000)
    return rows


def _drained(admin: AdminView, group: str, places: list[tuple[str, int]], lock_s: float) -> list[ShareGroupOffset]:
    last: dict[tuple[str, int], ShareGroupOffset] = {}

    def left() -> dict[str, int | None]:
        asked_ns = now_ns()
        reported = admin.share_offsets(group, _ASK_S)
        at_ns = now_ns()
        for place in places:
            at, before = reported.get(place), last.get(place)
            start, lag = (at.start, at.lag) if at else (None, None)
            same = before is not None and (before.start, before.lag) == (start, lag)
            last[place] = ShareGroupOffset(
                group=group,
                topic=place[0],
                partition=place[1],
                start=start,
                lag=lag,
                asked_ns=asked_ns,
                at_ns=at_ns,
                unchanged_ns=before.unchanged_ns if before and same else at_ns,
            )
        return {f"{t}/{p}": row.lag for (t, p), row in last.items() if row.lag != 0}

    with suppress(HarnessTimeout):  # the rows say how far the group came, which the judge weighs
        wait_for(
            left,
            until=lambda lag: not lag,
            deadline_s=lock_s + _MARGIN_S,
            what=f"share group {group} to be done with all of its partitions",
            interval_s=_LOOK_S,
        )
    return list(last.values())
