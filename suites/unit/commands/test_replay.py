"""How often a replay failed again, in words and as a number of tries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.chaos.plan import plan_of
from harness.chaos.profile import load
from harness.commands import cli
from harness.commands.plays import Played
from harness.commands.replay import document_of, exit_of, lines_of, quiet_lines_of
from harness.commands.shrink import Rate, ShrinkResult, rates_text
from harness.model.exits import Exit
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status

LOST = frozenset({"lost"})


def played(status: Status | None, *kinds: str) -> Played:
    return Played(bundle=Path("out/replays_1/calm_1"), status=status, kinds=frozenset(kinds))


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
    assert one.failed_again(wanted) == again


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


def test_the_answer_has_three_lines_with_quiet() -> None:
    lines = quiet_lines_of([played(Status.FAIL, "lost"), played(Status.PASS)], LOST, Path("out"))
    assert lines == ["FAIL", "failed again: 1 of 2 times (lost)", "out"]


@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_quiet_and_json_exclude_each_other(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert cli.invoke([command, str(tmp_path), "--out", out, "--quiet", "--json"]) is Exit.USAGE
    assert "--json and --quiet exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["chaos", "replay", "shrink"])
def test_a_limit_with_which_no_broker_starts_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "calm.toml"
    plan.write_text(text_of(plan_of(1, load("default"), 1).scenario), "utf-8")
    arguments = ["--episodes", "1"] if command == "chaos" else [str(plan)]
    assert cli.invoke([command, *arguments, "--out", str(tmp_path / "out"), "--cpus", "0.01"]) is Exit.USAGE
    assert "--cpus 0.01 is too little CPU time" in capsys.readouterr().err
