"""Share groups (KIP-932) around a run: they begin where the log does, and are done with all of it in the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from harness.kafka.admin.client import AdminView
from harness.model.clock import now_ns
from harness.model.contract.contract import LOCK, LOCK_MS_DEFAULT
from harness.model.errors import HarnessTimeout
from harness.model.scenario.scenario import SHARE_ISOLATION, SHARE_RESET, Scenario
from harness.model.waiting import wait_for

_ASK_S: Final = 10.0
_MARGIN_S: Final = 30.0
_LOOK_S: Final = 0.25


def set_up(admin: AdminView, scenario: Scenario) -> None:
    """Settings of each share group, before its members join. BadInput where Kafka refuses one."""
    for group, members in scenario.share_groups.items():
        first = members[0]
        admin.alter_group_config(
            group, {SHARE_RESET: "earliest", SHARE_ISOLATION: first.isolation} | first.group_config
        )


def drained(admin: AdminView, scenario: Scenario) -> list[dict[str, Any]]:
    """Waits until every share group is done with all of its topics, or for as long as a member that died may hold a
    record and some time more. Rows of cluster.json's `share_groups`: what coordinators said last."""
    rows: list[dict[str, Any]] = []
    for group, members in scenario.share_groups.items():
        places = {(t.name, p) for t in scenario.topics for p in range(t.partitions)}
        wanted = sorted(place for place in places if any(place[0] in r.topics for r in members))
        rows += _drained(admin, group, wanted, int(members[0].group_config.get(LOCK, LOCK_MS_DEFAULT)) / 1000)
    return rows


def _drained(admin: AdminView, group: str, places: list[tuple[str, int]], lock_s: float) -> list[dict[str, Any]]:
    last: dict[tuple[str, int], Mapping[str, Any]] = {}

    def left() -> dict[str, Any]:
        asked_ns = now_ns()
        reported = admin.share_offsets(group, _ASK_S)
        at_ns = now_ns()
        for place in places:
            at = reported.get(place)
            last[place] = {
                "group": group,
                "topic": place[0],
                "partition": place[1],
                "start": at.start if at else None,
                "lag": at.lag if at else None,
                "asked_ns": asked_ns,
                "at_ns": at_ns,
            }
        return {f"{t}/{p}": row["lag"] for (t, p), row in last.items() if row["lag"] != 0}

    with suppress(HarnessTimeout):  # how far it came is what the judge goes by
        wait_for(
            left,
            until=lambda lag: not lag,
            deadline_s=lock_s + _MARGIN_S,
            what=f"share group {group} to be done with all of its partitions",
            interval_s=_LOOK_S,
        )
    return [dict(row) for row in last.values()]
