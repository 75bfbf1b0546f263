"""What steps on disks mean to the judge: what a run did not try, and after which ends deleted records may return."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.verify.conclude import _COVERED_BY, _untried
from harness.verify.standing import _came_back, back_after_kill


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
    everything = list(_COVERED_BY)
    assert _untried(case(step("kill"))) == everything
    assert _untried(case(step("damage", held=False))) == everything
    for tried in (["damage"], ["damage", "disk_full"], ["power_loss", "disk_filled"], ["disk_stalled"], ["roll"]):
        left = [what for what, steps in _COVERED_BY.items() if not steps & set(tried)]
        assert len(left) == len(everything) - len(tried)
        assert _untried(case(*map(step, tried))) == left


@pytest.mark.parametrize(
    "unclean",
    [
        *map(
            step,
            ("kill", "crash_loop", "disk_full", "power_loss", "out_of_memory", "oom_killed", "damage"),
        ),
        step("damage", how="killed"),
    ],
)
def test_deleted_records_may_return_after_an_unclean_end(unclean: dict[str, Any]) -> None:
    assert list(_came_back(case(unclean))) == []
    (note,) = back_after_kill(case(unclean))
    assert note.startswith(
        "t/0: DeleteRecords up to 2 was answered, and after a SIGKILL the log of brokers 1 starts at 0"
    )
    assert back_after_kill(case(unclean, start=2)) == []


@pytest.mark.parametrize("clean", [step("terminate"), step("damage", how="cleanly"), step("cut")])
def test_and_after_no_other(clean: dict[str, Any]) -> None:
    assert [finding.count for finding in _came_back(case(clean))] == [2]
    assert list(_came_back(case(clean, start=2))) == []
    assert back_after_kill(case(clean)) == []
