"""How often a replay failed again, in words and as a number of tries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.commands.replay import Played, document_of, exit_of, failed_again, lines_of
from harness.commands.shrink import Rate, ShrinkResult, rates_text
from harness.model.exits import Exit
from harness.model.verdict import Status

LOST = frozenset({"lost"})


def played(status: Status | None, *kinds: str) -> Played:
    code = {Status.PASS: Exit.PASS, Status.FAIL: Exit.FAIL, None: Exit.HARNESS}.get(status, Exit.INCONCLUSIVE)
    return Played(out=Path("out/replay_1"), status=status, kinds=frozenset(kinds), exit=code)


@pytest.mark.parametrize(
    ("one", "wanted", "again"),
    [
        (played(Status.FAIL, "lost"), LOST, True),
        (played(Status.FAIL, "duplicated"), LOST, False),
        (played(Status.FAIL, "duplicated"), frozenset[str](), True),
        (played(Status.PASS), frozenset[str](), False),
        (played(None), LOST, False),
    ],
)
def test_only_the_same_kind_of_finding_is_the_same_failure(one: Played, wanted: frozenset[str], again: bool) -> None:
    assert failed_again(one, wanted) == again


def test_a_replay_says_how_often_it_failed_again() -> None:
    lines = lines_of([played(Status.FAIL, "lost"), played(Status.PASS)], LOST)
    assert lines[-1] == "failed again: 1 of 2 times (lost)"


def test_a_replay_without_the_finding_gives_a_bound() -> None:
    lines = lines_of([played(Status.PASS)] * 5, LOST)
    assert lines[-1] == "never failed again in 5 times (lost); it may still do so in 45% of them"


def test_the_worst_replay_decides_the_exit_code() -> None:
    assert exit_of([played(Status.PASS), played(Status.FAIL, "lost")]) is Exit.FAIL


@pytest.mark.parametrize(("rate", "tries"), [(Rate(2, 2), 1), (Rate(1, 2), 4), (Rate(3, 4), 2), (Rate(0, 4), 4)])
def test_a_smaller_scenario_is_played_until_a_failure_would_have_shown(rate: Rate, tries: int) -> None:
    assert rate.tries == tries


def test_a_rate_has_bounds() -> None:
    assert Rate(2, 2).text == "2 of 2 replays (95 % bounds: 22% and 100%)"
    assert Rate(0, 0).text == "not measured"


def test_without_the_finding_there_is_no_smallest_scenario() -> None:
    result = ShrinkResult(
        before=Rate(0, 4), after=Rate(0, 0), removed=(), happenings=0, smallest=None, issue=None, tried=0
    )
    assert result.exit is Exit.INCONCLUSIVE
    assert "did not appear again: 0 of 4 replays" in result.lines[0]
    assert (result.document["smallest"], result.document["before"]) == (None, {"failed": 0, "played": 4})


def test_a_replay_is_a_document() -> None:
    document = json.loads(json.dumps(document_of([played(Status.FAIL, "lost"), played(None)], LOST)))
    assert (document["failed_again"], document["times"], document["wanted"]) == (1, 2, ["lost"])
    assert [one["verdict"] for one in document["replays"]] == ["FAIL", None]


def test_a_report_says_that_the_rate_of_the_smallest_scenario_was_not_measured() -> None:
    assert rates_text(Rate(1, 1), Rate(0, 0)).startswith("There was no time left to measure")
    assert rates_text(Rate(1, 1), Rate(1, 2)).startswith("The scenario below fails in 1 of 2 replays")
