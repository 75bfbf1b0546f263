"""Figures of a verdict, and the steps of moments: arithmetic without Spark."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.model.finding import Finding, Kind
from harness.model.verdict import Doubt, Status
from harness.verify.conclude import status_of
from harness.verify.engine.steps import episodes_of, step_at
from harness.verify.excuses.retention import limits_of, may_delete
from harness.verify.score import nines, score
from suites.verify.history import MS, START_NS, History
from suites.verify.judging import case_of_history, steps_of

LOST = Finding(kind=Kind.LOST, count=5, step="kill_2")
DOUBT = Doubt("floor_after", "3 acks")


def step(name: str, start: int, end: int | None, *, fault: bool = True, held: bool = True) -> dict[str, Any]:
    effect = {"held": held, "because": "", "seen": {}}
    return {
        "name": name,
        "do": name,
        "events": [],
        "started_ns": start,
        "ended_ns": start + 1,
        "healed_ns": end,
        "is_fault": fault,
        "effect": effect if fault else None,
    }


def test_no_loss_in_twelve_episodes_bounds_the_chance_by_22_percent() -> None:
    figures = score(acked=1000, lost=0, excused=0, unknown=0, episodes=[f"e{n}" for n in range(12)], findings=[])
    assert (figures.episodes, figures.episodes_with_loss) == (12, 0)
    assert figures.loss_bound == pytest.approx(1 - 0.05 ** (1 / 12))
    assert (figures.share_raw, figures.nines_raw) == (1.0, None)


def test_each_episode_with_loss_counts_once() -> None:
    findings = [LOST, LOST, replace(LOST, step="kill_1"), replace(LOST, step="kill_3", excused_by="acks=0")]
    figures = score(
        acked=1000, lost=15, excused=5, unknown=0, episodes=["kill_1", "kill_2", "kill_3"], findings=findings
    )
    assert (figures.episodes, figures.episodes_with_loss) == (3, 2)
    assert (figures.durable_raw, figures.share_raw) == (985, 0.985)
    assert figures.share_excused == pytest.approx(985 / 995)


def test_a_loss_between_two_episodes_counts_as_an_episode_with_loss() -> None:
    figures = score(
        acked=10, lost=5, excused=0, unknown=0, episodes=["kill_1", "kill_2"], findings=[replace(LOST, step=None)]
    )
    assert (figures.episodes, figures.episodes_with_loss, figures.lost_without_fault) == (2, 1, 0)


def test_a_run_without_faults_has_no_episodes_whatever_it_lost() -> None:
    findings = [replace(LOST, step=None), replace(LOST, count=2, step=None, excused_by="acks=0")]
    figures = score(acked=10, lost=7, excused=2, unknown=0, episodes=[], findings=findings)
    assert (figures.episodes, figures.episodes_with_loss, figures.loss_bound) == (0, 0, 1.0)
    assert figures.lost_without_fault == 5


def test_without_acknowledged_records_there_is_no_share() -> None:
    figures = score(acked=0, lost=0, excused=0, unknown=0, episodes=[], findings=[])
    assert (figures.share_raw, figures.share_excused, figures.nines_raw, figures.loss_bound) == (None, None, None, 1.0)


def test_records_of_unknown_fate_count_as_neither_durable_nor_lost() -> None:
    """Nor is any episode known to be without loss while they are unknown; one with a loss is."""
    episodes = ["kill_1", "kill_2", "kill_3"]
    none_lost = score(acked=100, lost=0, excused=0, unknown=100, episodes=episodes, findings=[])
    assert (none_lost.durable_raw, none_lost.share_raw, none_lost.share_excused, none_lost.nines_raw) == (
        0,
        *[None] * 3,
    )
    assert (none_lost.episodes, none_lost.episodes_unknown, none_lost.loss_bound) == (0, 3, 1.0)
    some_lost = score(acked=100, lost=5, excused=1, unknown=60, episodes=episodes, findings=[LOST])
    assert (some_lost.durable_raw, some_lost.unknown, some_lost.share_raw) == (35, 60, 35 / 40)
    assert some_lost.share_excused == pytest.approx(35 / 39)
    assert (some_lost.episodes, some_lost.episodes_with_loss, some_lost.episodes_unknown) == (1, 1, 2)
    assert some_lost.loss_bound == 1.0


@pytest.mark.parametrize(("share", "expected"), [(0.9, 1.0), (0.999, 3.0), (0.0, 0.0), (1.0, None), (None, None)])
def test_nines(share: float | None, expected: float | None) -> None:
    assert nines(share) == (None if expected is None else pytest.approx(expected))


def test_a_finding_outweighs_doubts_and_a_doubt_outweighs_a_clean_result() -> None:
    excused = replace(LOST, excused_by="unclean election")
    assert status_of([], []) is Status.PASS
    assert status_of([excused], []) is Status.PASS
    assert status_of([excused], [DOUBT]) is Status.INCONCLUSIVE
    assert status_of([excused, LOST], [DOUBT]) is Status.FAIL
    assert status_of([replace(LOST, explained_by="the client")], []) is Status.PASS


def test_a_moment_belongs_to_the_most_recent_active_fault() -> None:
    steps = [step("cut", 10, 50), step("wait", 20, None, fault=False), step("kill", 30, 40), step("late", 60, None)]
    at = {ns: step_at(steps_of(steps), ns) for ns in (5, 15, 21, 35, 45, 55, 61, 70)}
    assert at == {5: None, 15: "cut", 21: "cut", 35: "kill", 45: "cut", 55: None, 61: "late", 70: None}
    assert step_at(steps_of(steps), None) is None


def test_only_faults_with_an_effect_are_episodes() -> None:
    steps = [step("cut", 1, 2), step("missed", 3, 4, held=False), step("wait", 5, 6, fault=False)]
    assert episodes_of(steps_of(steps)) == ["cut"]


def test_a_step_may_shorten_retention_except_in_a_negative_control() -> None:
    built = History("AA").build()
    built.steps.append(
        step("shorter", START_NS, None, fault=False)
        | {"do": "alter_topic", "args": {"topic": "t", "config": {"retention.ms": 1000}}, "events": []}
    )
    case = case_of_history(built)
    before, after = limits_of(case, "t", START_NS - 1), limits_of(case, "t", START_NS + 2000 * MS)
    assert before.young_ms == (START_NS - 1) // MS - 604_800_000
    assert after.young_ms == START_NS // MS + 1000
    built.run["negative_control"] = "a step shortens retention"
    control = case_of_history(built)
    assert limits_of(control, "t", START_NS + 2000 * MS).young_ms == START_NS // MS + 2000 - 604_800_000


def test_a_week_of_retention_deletes_nothing_during_a_run() -> None:
    built = History("AA").build()
    assert not may_delete(case_of_history(built), "t")
    built.run["contract"]["topics"]["t"]["retention_bytes"] = 10
    assert may_delete(case_of_history(built), "t")
