"""What steps on disks mean to the judge: what a run did not try, and after which ends deleted records may return."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.verify.conclude import _untried
from harness.verify.standing import _came_back


def step(do: str, *, held: bool = True, **args: Any) -> dict[str, Any]:
    return {"do": do, "args": args, "is_fault": True, "bite": {"held": held}, "started_ns": 5}


def case(*steps: dict[str, Any], start: int = 0) -> Any:
    """A run in which records up to 2 were deleted at 3, and broker 1's log starts at `start`."""
    partition = {
        "topic": "t",
        "topic_id": "i",
        "partition": 0,
        "isr": [1],
        "logs": [{"broker": 1, "log_start": start, "log_end": 9}],
    }
    deleted = {"topic": "t", "partition": 0, "at_ns": 3, "before_offset": 2}
    return cast(
        Any,
        SimpleNamespace(
            steps=steps,
            last_snapshot={"at_ns": 9, "partitions": [partition]},
            events=lambda kind: [(deleted, {})] if kind == "delete_records" else [],
        ),
    )


def test_only_what_bit_was_tried() -> None:
    every = ["disks that change while a broker is down", "disks that fill up", "clocks of brokers that are wrong"]
    assert _untried(case(step("kill"))) == every
    assert _untried(case(step("damage", held=False))) == every
    assert _untried(case(step("damage"))) == every[1:]
    assert _untried(case(step("damage"), step("disk_full"), step("clock"))) == []


@pytest.mark.parametrize(
    "unclean",
    [
        *map(step, ("kill", "crash_loop", "disk_full", "out_of_memory", "oom_killed", "damage")),
        step("damage", how="killed"),
    ],
)
def test_deleted_records_may_return_after_an_unclean_end(unclean: dict[str, Any]) -> None:
    assert list(_came_back(case(unclean))) == []


@pytest.mark.parametrize("clean", [step("terminate"), step("damage", how="cleanly"), step("cut")])
def test_and_after_no_other(clean: dict[str, Any]) -> None:
    assert [finding.count for finding in _came_back(case(clean))] == [2]
    assert list(_came_back(case(clean, start=2))) == []
