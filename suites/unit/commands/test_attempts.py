"""Which runs are driven twice, what their attempts result in, and that a broken one costs no other its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.commands import attempts
from harness.commands.attempts import Attempts, attempt, deserves_another, drive_all, result_of
from harness.commands.exit_codes import Terminated
from harness.commands.verify import BatchVerdicts
from harness.evidence.gate import GateSummary
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput, HarnessFailure
from harness.model.exits import Exit
from harness.model.verdict import Doubt, Status
from harness.run.scenario_run import Driven
from suites.unit.evidence_examples import verdict

HUNG = Doubt(name="client_hung", text="send_offsets_to_transaction hung")
FENCED = Doubt(name="producer_fatal", text="producer plain got OUT_OF_ORDER_SEQUENCE_NUMBER")
RESET = Doubt(name="reader_reset", text="reader committed was reset to the log's start")
DIED = Doubt(name="node_died", text="broker 2 ended by itself")


def test_a_doubt_about_the_machine_or_a_client_deserves_another_attempt() -> None:
    assert deserves_another([HUNG])


@pytest.mark.parametrize("from_brokers", [FENCED, RESET, DIED])
def test_another_attempt_never_hides_a_doubt_that_comes_from_the_brokers(from_brokers: Doubt) -> None:
    assert not deserves_another([from_brokers])
    assert not deserves_another([HUNG, from_brokers])


def test_a_run_without_doubts_needs_no_other_attempt() -> None:
    assert not deserves_another([])


def of_attempts(*names: str) -> Attempts:
    driven: Any = tuple(SimpleNamespace(bundle=Path(name)) for name in names)
    return Attempts("killed", driven)


@pytest.mark.parametrize(
    ("first", "status", "bundle", "error"),
    [(Status.INCONCLUSIVE, None, "second", "we broke"), (Status.FAIL, Status.FAIL, "first", None)],
)
def test_an_attempt_that_could_not_be_judged_is_no_pass_and_hides_no_fail(
    first: Status, status: Status | None, bundle: str, error: str | None
) -> None:
    each = BatchVerdicts(verdicts={Path("first"): verdict("killed", first)}, crashed={Path("second"): "we broke"})
    result = result_of(of_attempts("first", "second"), each)
    assert (result.status, result.bundle, result.error) == (status, bundle, error)


def test_the_last_attempt_decides_when_all_were_judged() -> None:
    each = BatchVerdicts(
        verdicts={
            Path("first"): verdict("killed", Status.INCONCLUSIVE),
            Path("second"): verdict("killed", Status.PASS),
        }
    )
    result = result_of(of_attempts("first", "second"), each)
    assert (result.status, result.error, result.earlier) == (Status.PASS, None, ("first",))


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
    """Stands in for `drive`: by scenario, what each of its attempts raises, or with which doubts it ends."""

    def drive(task: FakeTask, cluster: str, say: Any) -> Driven:
        task.out.mkdir(parents=True)
        (task.out / "scenario.json").write_text("{}")
        outcome = outcomes[task.scenario.name].pop(0) if outcomes.get(task.scenario.name) else []
        if isinstance(outcome, BaseException):
            raise outcome
        return Driven(bundle=task.out, healthy=not outcome, doubts=tuple(outcome))

    monkeypatch.setattr(attempts, "drive", drive)


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
    assert attempt(task, pool, Lines()) == Attempts("mine", error=str(error), unfinished="mine")  # type: ignore[arg-type]
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
    found = attempt(task, FakePool(), Lines())  # type: ignore[arg-type]
    assert [driven.bundle.name for driven in found.driven] == ["one", "one-again"]


def test_a_second_attempt_that_breaks_leaves_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives(monkeypatch, {"one": [[HUNG], ValueError("we broke")]})
    said = Lines()
    (task,) = tasks(tmp_path, "one")
    found = attempt(task, FakePool(), said)  # type: ignore[arg-type]
    assert ([driven.bundle.name for driven in found.driven], found.error) == (["one"], None)
    assert any("after a run that is judged: the harness failed: ValueError: we broke" in line for line in said.lines)


def test_a_negative_control_is_driven_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives(monkeypatch, {"one": [[HUNG]]})
    task: Any = FakeTask(tmp_path / "one", negative_control="acks=1")
    assert len(attempt(task, FakePool(), Lines()).driven) == 1  # type: ignore[arg-type]
