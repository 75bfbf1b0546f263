"""Which runs are driven twice, what their tries result in, and that a broken one costs no other its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from harness.commands import tries
from harness.commands.exit_codes import Terminated
from harness.commands.tries import Tries, drive_all, drive_task, result_of
from harness.commands.verify import BatchVerdicts
from harness.evidence.gate import GateSummary, ScenarioResult
from harness.model.documents.manifest import NamedRelease
from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.verdict import Doubt, Status, Verdict
from harness.run.scenario_run import Driven
from suites.unit.evidence_examples import verdict

HUNG = Doubt("client_hung", "send_offsets_to_transaction hung")
UNSEEN = Doubt("no_effect", "step kill had no effect", DoubtOrigin.SCENARIO)
STARVED = Doubt("harness_failed", "the supervisor of the cluster has ended", DoubtOrigin.MACHINE)
IN_VAIN = Doubt("step_failed", "step full: waited 60 s for the ISR to be full", DoubtOrigin.RELEASE)


def in_doubt(*doubts: Doubt) -> Verdict:
    return structs.replace(verdict("killed", Status.INCONCLUSIVE), doubts=doubts)


def result_with(*verdicts: Verdict | str) -> ScenarioResult:
    """The result of the tries with these verdicts, or with these errors of the judge."""
    driven: Any = tuple(SimpleNamespace(bundle=Path(name)) for name in NAMES[: len(verdicts)])
    named = dict(zip((Path(name) for name in NAMES), verdicts, strict=False))
    each = BatchVerdicts(
        verdicts={path: one for path, one in named.items() if isinstance(one, Verdict)},
        crashed={path: one for path, one in named.items() if isinstance(one, str)},
    )
    return result_of(Tries("killed", driven), each)


NAMES = ("killed", "killed-again")
PASSED, FAILED = verdict("killed", Status.PASS), verdict("killed", Status.FAIL)


@pytest.mark.parametrize("harmless", [[UNSEEN], [STARVED], [UNSEEN, STARVED]])
def test_after_doubts_of_the_machine_or_the_scenario_alone_the_last_try_decides(harmless: list[Doubt]) -> None:
    result = result_with(in_doubt(*harmless), PASSED)
    assert (result.status, result.bundle) == (Status.PASS, "killed-again")


@pytest.mark.parametrize("doubts", [[IN_VAIN], [UNSEEN, IN_VAIN], [HUNG], [Doubt("of_another_harness", "")]])
def test_a_doubt_of_the_release_or_of_an_unknown_cause_stands_after_a_lucky_try(doubts: list[Doubt]) -> None:
    result = result_with(in_doubt(*doubts), PASSED)
    assert (result.status, result.bundle) == (Status.INCONCLUSIVE, "killed")
    assert [one.status for one in result.tries] == [Status.INCONCLUSIVE, Status.PASS]


@pytest.mark.parametrize(
    "verdicts", [(in_doubt(UNSEEN), FAILED), (in_doubt(IN_VAIN), FAILED), (FAILED, PASSED), (FAILED, "we broke")]
)
def test_a_fail_of_any_try_stands(verdicts: tuple[Verdict | str, ...]) -> None:
    assert result_with(*verdicts).status is Status.FAIL


@pytest.mark.parametrize("verdicts", [(in_doubt(UNSEEN), "we broke"), ("we broke", PASSED), (PASSED, "we broke")])
def test_a_try_that_could_not_be_judged_is_no_pass(verdicts: tuple[Verdict | str, ...]) -> None:
    result = result_with(*verdicts)
    assert (result.status, result.error) == (None, "we broke")
    assert result.bundle == NAMES[verdicts.index("we broke")]


@dataclass(frozen=True)
class FakeTask:
    """As much of a Task as driving needs."""

    out: Path
    negative_control: str | None = None
    backend: str = "processes"

    @property
    def scenario(self) -> Any:
        return SimpleNamespace(name=self.out.name.removesuffix("-again"), title="")


class FakePool:
    """Counts what is done with clusters; `stuck`: they cannot be stopped."""

    def __init__(self, stuck: bool = False) -> None:
        self.taken = self.retired = 0
        self._stuck = stuck

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None: ...

    def take(self, scenario: Any, backend: str) -> str:
        self.taken += 1
        return "a cluster"

    def give_back(self, scenario: Any, *, healthy: bool) -> None: ...

    def retire(self) -> None:
        self.retired += 1
        if self._stuck:
            raise HarnessFailure("broker 2 does not end")


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None:
        self.lines.append(text)


def drives(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, list[BaseException | list[Doubt]]]) -> None:
    """Stands in for `drive`: by scenario, what each of its tries raises, or with which doubts it ends."""

    def drive(task: FakeTask, cluster: str, say: Any) -> Driven:
        task.out.mkdir(parents=True)
        (task.out / "scenario.json").write_text("{}")
        outcome = outcomes[task.scenario.name].pop(0) if outcomes.get(task.scenario.name) else []
        if isinstance(outcome, BaseException):
            raise outcome
        return Driven(bundle=task.out, healthy=not outcome, doubts=tuple(outcome))

    monkeypatch.setattr(tries, "drive", drive)


def tasks(tmp_path: Path, *names: str) -> Any:
    return [FakeTask(tmp_path / name) for name in names]


@pytest.mark.parametrize(
    "crash", [ValueError("two\nlines"), AssertionError(), MemoryError(), KeyError("topic"), RecursionError("deep")]
)
def test_a_scenario_that_breaks_the_harness_is_a_row_of_its_own_and_the_rest_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: Exception
) -> None:
    drives(monkeypatch, {"two": [crash]})
    pool, said = FakePool(), Lines()
    driven = drive_all(tasks(tmp_path, "one", "two", "three"), pool, said)  # type: ignore[arg-type]
    assert [one.name for one in driven] == ["one", "two", "three"]
    assert (pool.taken, pool.retired) == (3, 1)
    each = BatchVerdicts(verdicts={tmp_path / name: verdict(name, Status.PASS) for name in ("one", "three")})
    results = [result_of(one, each) for one in driven]
    assert [result.status for result in results] == [Status.PASS, None, Status.PASS]
    assert results[1].error is not None
    assert f"the harness failed: {type(crash).__name__}: " in results[1].error
    assert "\n" not in results[1].error
    kept = tmp_path / "two-traceback.txt"
    assert results[1].error.endswith(f"; traceback: {kept}")
    assert "Traceback" in kept.read_text()
    assert results[1].bundle == "two"  # never sealed, and kept
    summary = GateSummary(required=("one", "two", "three"), results=tuple(results), release=NamedRelease())
    assert (summary.status, summary.exit) == (Status.INCONCLUSIVE, Exit.HARNESS)


def test_a_fail_of_another_scenario_is_worse_than_a_harness_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drives(monkeypatch, {"one": [ValueError("we broke")]})
    driven = drive_all(tasks(tmp_path, "one", "two"), FakePool(), Lines())  # type: ignore[arg-type]
    each = BatchVerdicts(verdicts={tmp_path / "two": verdict("two", Status.FAIL)})
    summary = GateSummary(
        required=("one", "two"), results=tuple(result_of(one, each) for one in driven), release=NamedRelease()
    )
    assert (summary.status, summary.exit) == (Status.FAIL, Exit.FAIL)


@pytest.mark.parametrize("error", [BadInput("step x: no such node"), HarnessFailure("no slot is free")])
def test_an_error_that_explains_itself_is_the_sentence_of_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    drives(monkeypatch, {"mine": [error]})
    pool = FakePool()
    (task,) = tasks(tmp_path, "mine")
    assert drive_task(task, pool, Lines()) == Tries("mine", error=str(error), unfinished="mine")  # type: ignore[arg-type]
    assert pool.retired == 1
    assert not list(tmp_path.glob("*traceback*"))


@pytest.mark.parametrize("signal", [KeyboardInterrupt, Terminated])
def test_a_signal_ends_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: type[BaseException]
) -> None:
    drives(monkeypatch, {"one": [signal()]})
    pool = FakePool()
    with pytest.raises(signal):
        drive_all(tasks(tmp_path, "one", "two"), pool, Lines())  # type: ignore[arg-type]
    assert pool.taken == 1


def test_a_cluster_that_cannot_be_stopped_does_not_end_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drives(monkeypatch, {"one": [ValueError("we broke")]})
    said = Lines()
    driven = drive_all(tasks(tmp_path, "one", "two"), FakePool(stuck=True), said)  # type: ignore[arg-type]
    assert [bool(one.driven) for one in driven] == [False, True]
    assert "    its cluster could not be stopped: broker 2 does not end; remove it by: durability clean" in said.lines


def test_a_doubtful_run_is_driven_again_and_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives(monkeypatch, {"one": [[HUNG], [HUNG]]})
    (task,) = tasks(tmp_path, "one")
    found = drive_task(task, FakePool(), Lines())  # type: ignore[arg-type]
    assert [driven.bundle.name for driven in found.driven] == ["one", "one-again"]


def test_a_doubt_of_the_release_is_tried_again_to_see_how_often_it_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drives(monkeypatch, {"one": [[IN_VAIN]]})
    (task,) = tasks(tmp_path, "one")
    assert len(drive_task(task, FakePool(), Lines()).driven) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(("doubts", "tries_max"), [([], 2), ([HUNG], 1)])
def test_a_run_without_doubts_or_without_a_try_left_is_driven_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doubts: list[Doubt], tries_max: int
) -> None:
    drives(monkeypatch, {"one": [doubts]})
    (found,) = drive_all(tasks(tmp_path, "one"), FakePool(), Lines(), tries_max)  # type: ignore[arg-type]
    assert len(found.driven) == 1


def test_a_second_try_that_breaks_leaves_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives(monkeypatch, {"one": [[HUNG], ValueError("we broke")]})
    said = Lines()
    (task,) = tasks(tmp_path, "one")
    found = drive_task(task, FakePool(), said)  # type: ignore[arg-type]
    assert ([driven.bundle.name for driven in found.driven], found.error) == (["one"], None)
    assert any("after a run that is judged: the harness failed: ValueError: we broke" in line for line in said.lines)


def test_a_negative_control_is_driven_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives(monkeypatch, {"one": [[HUNG]]})
    task: Any = FakeTask(tmp_path / "one", negative_control="acks=1")
    assert len(drive_task(task, FakePool(), Lines()).driven) == 1  # type: ignore[arg-type]


def test_a_run_that_failed_for_certain_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drive(task: FakeTask, cluster: str, say: Any) -> Driven:
        return Driven(bundle=task.out, healthy=False, doubts=(IN_VAIN,), failed=True)

    monkeypatch.setattr(tries, "drive", drive)
    (task,) = tasks(tmp_path, "one")
    assert len(drive_task(task, FakePool(), Lines()).driven) == 1  # type: ignore[arg-type]
