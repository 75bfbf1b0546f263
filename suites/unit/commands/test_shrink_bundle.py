"""`durability shrink` of a bundle, with plays that fail for a known reason. No cluster and no Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.chaos.plan import plan_of
from harness.chaos.profile import load
from harness.chaos.summary import RECORDS
from harness.commands import shrink
from harness.commands.options import GateOptions
from harness.commands.plays import Batch, Played
from harness.commands.shrink import ShrinkResult, shrink_bundle
from harness.evidence.documents import write_json
from harness.evidence.verdicts import write_verdict
from harness.faults.steps.registry import check_steps
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.limits import Limits
from harness.model.scenario import toml
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml_text import text_of
from harness.model.verdict import Status
from suites.unit.evidence_examples import lost, verdict, write_example

SCENARIO = plan_of(21, load("default"), 1, 2).scenario
FAULT = next(step for step in SCENARIO.steps if step.do not in ("heal", "hold") and not step.do.startswith("wait_"))
TOPIC = SCENARIO.topics[0].name


class Quiet:
    def __call__(self, text: str) -> None: ...
    def line(self, text: str) -> None: ...


class Cluster:
    """Plays in which a finding appears as `breaks` says; each takes no time. asked: the scenarios of each batch."""

    def __init__(self, breaks: Callable[[Scenario], bool]) -> None:
        self.breaks = breaks
        self.asked: list[list[Scenario]] = []
        self.fresh: list[bool] = []

    def play(
        self, scenarios: Sequence[Scenario], options: GateOptions, out: Path, progress: object, *, fresh: bool = False
    ) -> Batch:
        self.asked.append(list(scenarios))
        self.fresh.append(fresh)
        found = []
        for number, scenario in enumerate(scenarios, 1):
            bundle, failed = out / f"{scenario.name}_{number}", self.breaks(scenario)
            bundle.mkdir(parents=True)
            status = Status.FAIL if failed else Status.PASS
            write_verdict(bundle, verdict(bundle.name, status, *([lost()] if failed else [])))
            found.append(Played(bundle, status, frozenset({"lost"} if failed else ())))
        return Batch(tuple(found), driving_s=0.001, judging_s=0.0)


def bundle_of(folder: Path, status: Status = Status.FAIL) -> Path:
    """An episode in which records of the first topic were lost during the first fault."""
    folder.mkdir()
    write_json(folder / "scenario.json", SCENARIO.as_dict())
    finding = replace(lost(), topic=TOPIC, step=FAULT.name)
    write_verdict(folder, verdict(SCENARIO.name, status, *([finding] if status is Status.FAIL else [])))
    return folder


@pytest.fixture
def shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], ShrinkResult]:
    def run(cluster: Cluster) -> ShrinkResult:
        monkeypatch.setattr(shrink, "play", cluster.play)
        (tmp_path / "out").mkdir()
        options = GateOptions(seed=21, kafka="4.3.1", backend="containers", limits=Limits(cpus=0.5))
        return shrink_bundle(bundle_of(tmp_path / "bundle"), options, tmp_path / "out", 600, Quiet())

    return run


def has_fault(scenario: Scenario) -> bool:
    return any(step.name == FAULT.name for step in scenario.steps) and any(t.name == TOPIC for t in scenario.topics)


def test_the_first_batch_has_the_plan_twice_and_the_guesses(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    cluster = Cluster(has_fault)
    result = shrunk(cluster)
    first, second, *guessed = cluster.asked[0]
    assert first == second == SCENARIO
    assert all(len(one.steps) < len(SCENARIO.steps) for one in guessed)
    assert (result.before.failed, result.before.played) == (2, 2)


def test_the_smallest_scenario_has_the_fault_alone_and_is_measured_on_new_clusters(
    shrunk: Callable[[Cluster], ShrinkResult],
) -> None:
    cluster = Cluster(has_fault)
    result = shrunk(cluster)
    assert result.smallest is not None
    smallest = toml.parse(result.smallest.read_text("utf-8"), SCENARIO.name, check_steps)
    assert [step.name for step in smallest.steps] == [FAULT.name]
    assert smallest.title == f"Shrunk from: {SCENARIO.title}"
    assert (result.steps, result.happenings, result.exit) == (1, 1, Exit.PASS)
    assert (result.after.failed, result.after.played) == (4, 4)
    assert cluster.fresh == [False] * (len(cluster.fresh) - 1) + [True]
    assert result.plays == sum(map(len, cluster.asked))
    assert f"step {SCENARIO.steps[-1].name}" in result.removed


def test_the_report_names_the_kind_the_rates_and_the_command(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    result = shrunk(Cluster(has_fault))
    assert result.issue is not None
    text = result.issue.read_text("utf-8")
    assert text.startswith(f"# lost after {FAULT.do}")
    assert "fails in 4 of 4 replays (95 % bounds: " in text
    assert "the one that was found failed in 2 of 2 replays" in text
    assert "durability run smallest.toml --kafka 4.3.1 --seed 21 --backend containers --cpus 0.5" in text
    assert "- lost: 50 records of plain/0" in text


def test_a_finding_without_any_fault_leaves_no_step(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    result = shrunk(Cluster(lambda one: bool(one.producers)))
    assert (result.steps, result.exit) == (0, Exit.PASS)
    assert result.issue is not None
    assert result.issue.read_text("utf-8").startswith("# lost after no fault")


def test_a_finding_that_needs_the_whole_plan_is_not_shrunk(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    result = shrunk(Cluster(lambda one: one.steps == SCENARIO.steps and one.topics == SCENARIO.topics))
    assert result.exit is Exit.PASS
    assert result.steps == len(SCENARIO.steps)


def test_a_finding_that_does_not_appear_again_gives_no_scenario(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    cluster = Cluster(lambda _: False)
    result = shrunk(cluster)
    assert (result.exit, result.smallest) == (Exit.INCONCLUSIVE, None)
    assert result.before.played == 4
    assert result.quiet_lines[0] == "INCONCLUSIVE"


def test_a_rare_finding_is_looked_for_more_often(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    """Every second play of a scenario with the fault fails: one play without the finding says little."""
    count = 0

    def sometimes(scenario: Scenario) -> bool:
        nonlocal count
        count += has_fault(scenario)
        return has_fault(scenario) and count % 2 == 0

    cluster = Cluster(sometimes)
    result = shrunk(cluster)
    assert result.before.failed == 1
    assert result.happenings == 1
    harmless = Counter(
        text for batch in cluster.asked for text in {text_of(one) for one in batch if not has_fault(one)}
    )
    assert max(harmless.values()) == 2, "after a first try, the other ones of a scenario are one batch"


def test_a_finding_that_the_plan_no_longer_shows_is_looked_for_in_its_steps_several_times(
    shrunk: Callable[[Cluster], ShrinkResult],
) -> None:
    """Only the third fault of a kind in one run has the finding: nothing that is played once shows it."""
    cluster = Cluster(lambda one: sum(step.do == FAULT.do for step in one.steps) > 2)
    result = shrunk(cluster)
    assert result.before.failed == 0
    assert (result.happenings, result.exit) == (3, Exit.PASS)
    assert result.after.failed == result.after.played > 0
    *guessed, whole = [len(one.steps) for one in cluster.asked[2]]
    assert whole > max(guessed), "guesses come before the whole plan"


def test_a_long_run_leaves_no_time_for_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a release with a bug a play may take minutes, and the first batch is never refused."""
    cluster = Cluster(has_fault)
    monkeypatch.setattr(shrink, "play", cluster.play)
    bundle = bundle_of(tmp_path / "bundle")
    run = json.loads((write_example(tmp_path / "example") / "run.json").read_text("utf-8"))
    write_json(bundle / "run.json", {**run, "started_ns": 0, "ended_ns": 300 * NS_PER_S})
    shrink_bundle(bundle, GateOptions(seed=21), tmp_path, 900, Quiet())
    assert cluster.asked[0] == [SCENARIO, SCENARIO]


def test_the_answer_has_three_lines_with_quiet(shrunk: Callable[[Cluster], ShrinkResult]) -> None:
    result = shrunk(Cluster(has_fault))
    assert [result.quiet_lines[0], len(result.quiet_lines)] == ["PASS", 3]


def test_a_bundle_without_a_finding_is_refused(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "bundle", Status.PASS)
    with pytest.raises(BadInput, match="has no verdict with a finding"):
        shrink_bundle(bundle, GateOptions(seed=1), tmp_path, 60, Quiet())


def test_a_play_without_a_verdict_is_a_failure_of_the_harness() -> None:
    assert Played(Path("b"), None, frozenset()).exit is Exit.HARNESS
    assert RECORDS > 0
