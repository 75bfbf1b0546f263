"""After which ends of which brokers deleted records may return, and after which others they may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.verify.excuses.delete_records import back_after_kill, came_back, returned

S = 10**9
AT_NS = 100 * S  # when the deletion was answered


def step(do: str, *, from_s: int = 5, to_s: int = 6, nodes: tuple[int, ...] = (1,), **args: Any) -> dict[str, Any]:
    """A fault so long after the deletion, healed a second after it was through."""
    times = {"started_ns": AT_NS + from_s * S, "ended_ns": AT_NS + to_s * S, "healed_ns": AT_NS + (to_s + 1) * S}
    return {"do": do, "args": args, "resolved": {"nodes": list(nodes)}, "events": [], **times}


def led(by: int, at_s: int, before: int = -1) -> dict[str, Any]:
    """The leader was another one so long after the deletion."""
    change = {"kind": "leader_change", "topic": "t", "partition": 0, "at_ns": AT_NS + at_s * S}
    return change | {"old_leader": before, "new_leader": by}


def case(
    *steps: dict[str, Any],
    starts: dict[int, int] | None = None,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1,),
    events: tuple[dict[str, Any], ...] = (),
    **contract: Any,
) -> Any:
    """A run in which records up to 2 were deleted, and at whose end broker 1's log starts at 0."""
    logs = [{"broker": broker, "log_start": start} for broker, start in (starts or {1: 0}).items()]
    place = {"topic": "t", "topic_id": "i", "partition": 0, "isr": isr, "replicas": replicas, "logs": logs}
    place["leader"] = contract.get("leader", -1)
    deleted = {"kind": "delete_records", "topic": "t", "partition": 0, "at_ns": AT_NS, "before_offset": 2}
    topic = SimpleNamespace(unclean_election=contract.get("unclean", False))
    return cast(
        Any,
        SimpleNamespace(
            steps=steps,
            contract=SimpleNamespace(topics={"t": topic}, start_checkpoint_ms=contract.get("every_ms", 60_000)),
            last_snapshot={"at_ns": AT_NS + 900 * S, "partitions": [place]},
            events=lambda kind: [(event, {}) for event in (deleted, *events) if event["kind"] == kind],
        ),
    )


THREE = {"replicas": (1, 2, 3), "isr": (1, 2, 3)}
BOTH = {"replicas": (1, 2), "isr": (1, 2)}
NOT_AT_ONCE = ("crash_loop", "disk_full", "power_loss", "out_of_memory", "oom_killed", "damage", "lose_tail")

# By design, with a note: whoever knew of it had no time to write it down.
BY_DESIGN: dict[str, Any] = {
    **{do: case(step(do)) for do in ("kill", "kill_cleaning", "kill_deleting", *NOT_AT_ONCE)},
    "a disk that changes after a kill": case(step("damage", how="killed")),
    "nobody says whom it ended": case(step("kill") | {"resolved": {}}),
    "just before it is written at the latest": case(step("kill", from_s=89, to_s=91)),
    "written later than usually": case(step("kill", from_s=500, to_s=501), every_ms=600_000),
    "ended at some time while it was open": case(step("oom_killed", from_s=-5, to_s=-3) | {"healed_ns": AT_NS + S}),
    "all of three": case(step("kill", nodes=(1, 2, 3)), events=(led(1, 9),), **THREE),
    "who led then was killed, too": case(
        step("kill"), step("kill", from_s=10, to_s=11, nodes=(2,)), events=(led(2, 7), led(1, 12)), **THREE
    ),
    "nobody else was seen to lead": case(step("kill"), **THREE),
    "another one led before, and was killed with it": case(
        step("kill", nodes=(1, 2)), events=(led(2, 1), led(1, 9)), leader=1, **BOTH
    ),
    "it led all the time": case(step("kill"), leader=1, **THREE),
    "it led before another one did": case(step("kill"), events=(led(1, 1, before=2),), leader=1, **THREE),
    "an unclean election may have made it the leader": case(step("kill"), events=(led(2, 7),), unclean=True, **THREE),
}
# A finding: somebody knew it.
NOT: dict[str, Any] = {
    "restarted in good order": case(step("terminate")),
    "a disk that changes after a clean end": case(step("damage", how="cleanly")),
    "cut off": case(step("cut")),
    "nothing happened": case(),
    "killed before": case(step("kill", from_s=-5, to_s=-4)),
    "killed when it must have been written": case(step("kill", from_s=91, to_s=92)),
    "killed when it must have been written, often": case(step("kill", from_s=40, to_s=41), every_ms=1000),
    "another broker was killed": case(step("kill", nodes=(2,))),
    "it followed one that knew": case(step("kill"), events=(led(2, 7),), **THREE),
    "another one led before": case(step("kill"), events=(led(2, 1),), **THREE),
    "another one led all the time": case(step("kill"), leader=2, **THREE),
    "another one led until then": case(step("kill"), events=(led(1, 9, before=2),), leader=1, **THREE),
    "a follower that was never killed has them": case(step("kill", nodes=(2,)), **THREE),
}


@pytest.mark.parametrize("name", BY_DESIGN)
def test_deleted_records_may_return_where_all_who_knew_were_killed(name: str) -> None:
    found = BY_DESIGN[name]
    assert list(came_back(found)) == []
    (note,) = back_after_kill(found)
    assert note.startswith(
        "t/0: DeleteRecords up to 2 was answered, and after a SIGKILL the log of brokers 1 starts at 0"
    )
    assert returned(found) == {"t/0": 2}


@pytest.mark.parametrize("name", NOT)
def test_and_nowhere_else(name: str) -> None:
    (finding,) = came_back(NOT[name])
    assert (finding.offset_first, finding.offset_last, finding.count, finding.reader) == (0, 1, 2, "brokers 1")
    assert (back_after_kill(NOT[name]), returned(NOT[name])) == ([], {})


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_what_stayed_away_is_neither(end: str) -> None:
    kept = case(step(end), starts={1: 2})
    assert (list(came_back(kept)), back_after_kill(kept), returned(kept)) == ([], [], {})
    behind = case(step(end), starts={1: 0, 2: 2}, isr=(2,))  # who is not in sync is nobody's word
    assert (list(came_back(behind)), back_after_kill(behind)) == ([], [])
