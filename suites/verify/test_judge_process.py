"""The process that judges bundles while scenarios run: its verdicts, and what its end leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.commands.judge_process import JudgeProcess
from harness.evidence.seal import seal_directory
from harness.model.finding import Kind
from harness.model.verdict import Status
from harness.model.waiting import wait_for
from suites.unit.evidence_examples import write_example

END_S = 30.0


class Lines(list[str]):
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None:
        self.append(text)


def sealed(folder: Path) -> Path:
    seal_directory(write_example(folder))
    return folder


def damaged(folder: Path) -> Path:
    (sealed(folder) / "steps.json").write_text("[")
    return folder


def processes_below(parent: psutil.Process) -> list[psutil.Process]:
    return [parent, *parent.children(recursive=True)]


def wait_ended(processes: list[psutil.Process]) -> None:
    wait_for(
        lambda: [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE],
        until=lambda alive: not alive,
        deadline_s=END_S,
        what="the judging process and its Java process to end",
    )


def test_each_bundle_has_its_verdict_and_a_damaged_one_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = Lines()
    with JudgeProcess() as judge:
        judge.add(sealed(Path("first")))
        judge.add(damaged(Path("second")))
        judge.add(sealed(Path("third")))
        each = judge.verdicts(said)
        started = processes_below(judge.process)
        assert any("java" in process.name() for process in started)
        assert judge.verdicts(said).verdicts == {}
    assert list(each.verdicts) == [Path("first"), Path("third")]
    for verdict in each.verdicts.values():
        assert verdict.status is Status.FAIL
        assert [finding.kind for finding in verdict.findings] == [Kind.LOST]
    assert "steps.json" in each.refused[Path("second")]
    assert each.crashed == {}
    assert said == []
    wait_ended(started)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_bundles_of_a_judging_process_that_was_killed_are_judged_again(tmp_path: Path, number: signal.Signals) -> None:
    said = Lines()
    with JudgeProcess() as judge:
        judge.add(sealed(tmp_path / "only"))
        started = processes_below(judge.process)
        os.kill(judge.process.pid, number)
        each = judge.verdicts(said)
        wait_ended(started)
    assert [verdict.status for verdict in each.verdicts.values()] == [Status.FAIL]
    assert len(said) == 1
    assert said[0].endswith(f"({number.name}); judging again here: 1")


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from harness.commands.judge_process import JudgeProcess\n"
        "with JudgeProcess() as judge:\n"
        "    print(judge.process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        started: list[Any] = wait_for(
            lambda: processes_below(child),
            until=lambda found: any(p.name() == "java" for p in found),
            deadline_s=END_S,
            what="Spark to start",
        )
        parent.kill()
    wait_ended(started)
