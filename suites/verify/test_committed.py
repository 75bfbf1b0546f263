"""Committed offsets that go by what an operator or a configuration says. Beside each what just does not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.history import MS, Built, History
from suites.verify.judging import told, verdicts


def stands(built: Built, offset: int | None) -> Built:
    """What the coordinator tells at the end; None = nothing."""
    built.drained["groups"] = [row | {"offset": offset} for row in built.drained["groups"] if offset is not None]
    return built


def committed(built: Built) -> list[dict[str, Any]]:
    """Both commits, in order."""
    return built.rows("offset_commits", group="g")


def deleted(built: Built, *, group: str = "g", after: int = 1, outcome: str = "acked", declared: bool = True) -> Built:
    """A step deletes a group, right after its first or second commit was answered."""
    asked_ns = committed(built)[after]["returned_ns"] + 1
    built.event("group_deleted", group=group, outcome=outcome, asked_ns=asked_ns, at_ns=asked_ns + MS // 4)
    built.run["contract"]["group_deletions"] = [built.steps[0]["name"]] if declared else []
    return built


def here(text: str = "AAAA") -> Built:
    return History(text).build()


# name -> (history, what condemns, number of places that are excused)
CASES: dict[str, tuple[Built, list[str], int]] = {
    "a group is deleted and has nothing": (stands(deleted(here()), None), [], 0),
    "a group is deleted and has its offset again": (stands(deleted(here()), 4), ["commit_regressed 1"], 0),
    "a group is deleted and has an older offset again": (stands(deleted(here()), 2), ["commit_regressed 1"], 0),
    "a group is deleted by nobody who was to": (stands(deleted(here(), declared=False), None), ["commit_regressed 1"], 0),
    "a group may be deleted or not": (stands(deleted(here(), outcome="unknown"), None), [], 0),
    "a group may not be deleted and stands": (stands(deleted(here(), outcome="unknown"), 4), [], 0),
    "a group may be deleted and is behind": (
        stands(deleted(here(), outcome="unknown"), 2),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted": (stands(deleted(here(), after=0), 4), [], 0),
    "a group commits after it was deleted and has nothing": (
        stands(deleted(here(), after=0), None),
        ["commit_regressed 1"],
        0,
    ),
    "a group commits after it was deleted and is where it was before": (
        stands(deleted(here(), after=0), 2),
        ["commit_regressed 1"],
        0,
    ),
    "another group is deleted": (stands(deleted(here(), group="h"), None), ["commit_regressed 1"], 0),
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """All of them at once."""
    return dict(zip(CASES, verdicts(spark, [history for history, _, _ in CASES.values()]), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_went_is_excused_by_what_took_it(judged: dict[str, Verdict], name: str) -> None:
    _, condemns, excused = CASES[name]
    assert told(judged[name]) == condemns
    assert sum(f.count for f in judged[name].findings if f.excused_by) == excused
