"""The line of progress while a load is on, and what a log gets of it."""

from __future__ import annotations

import time

import pytest

import reports
from harness.commands.tries import _left
from harness.model.documents.steps import Step
from harness.run import live_figures
from harness.run.live_figures import LiveFigures
from harness.run.progress import DetailedProgress, detail_of


def step(name: str, *, is_fault: bool = True, healed: bool = False, started: bool = True) -> Step:
    return Step(
        name=name,
        do="kill",
        started_ns=1 if started else None,
        ended_ns=2,
        healed_ns=3 if healed else None,
        is_fault=is_fault,
        facts=(),
        events=(),
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("harness.run.live_figures.time.monotonic", lambda: now[0])
    return now


def test_phase_records_rate_faults_and_the_rest(clock: list[float]) -> None:
    acked, said = [1_000], list[str]()
    steps = [step("kill_leader"), step("cut", healed=True), step("hold", is_fault=False), step("next", started=False)]
    figures = LiveFigures(said.append, lambda: acked[0], lambda: steps, 20_000)
    figures("hold")
    assert said == ["hold: 1,000 records acknowledged; active: kill_leader"]  # no rate is known yet
    clock[0], acked[0] = 102.0, 5_000
    assert figures.text() == (
        "hold: 5,000 of 20,000 records acknowledged, 2,000/s, about 8 s of load left; active: kill_leader"
    )
    clock[0], acked[0], steps[0] = 103.0, 25_000, step("kill_leader", healed=True)
    assert figures.text() == "hold: 25,000 records acknowledged, 8,000/s"


def test_the_rate_is_that_of_the_last_seconds(clock: list[float]) -> None:
    acked = [0]
    figures = LiveFigures(lambda text: None, lambda: acked[0], list, 1)
    for second in range(20):
        clock[0], acked[0] = 100.0 + second, 1_000 * min(second, 10)
        text = figures.text()
    assert text == "load: 10,000 records acknowledged"  # nothing for 9 s


def test_the_line_is_repeated_until_the_load_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_figures, "EVERY_S", 0.01)
    said: list[str] = []
    with LiveFigures(said.append, lambda: 1, list, 1):
        time.sleep(0.2)
    count = len(said)
    assert count > 2
    time.sleep(0.05)
    assert len(said) == count


def test_a_log_gets_one_line_a_scenario(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CI", "true")
    with reports.progress() as progress:
        assert isinstance(progress, DetailedProgress)
        progress.line("[1/2] calm: Nothing fails")
        for second in range(9):
            detail_of(progress)(f"load: {second} records acknowledged")
        progress("checking lost")
    said = capsys.readouterr()
    assert said.out == "[1/2] calm: Nothing fails\n"
    assert "acknowledged" not in said.err
    assert "checking lost" in said.err


def test_a_progress_without_details_gets_all() -> None:
    class Lines(list[str]):
        def __call__(self, text: str) -> None:
            self.append(text)

        def line(self, text: str) -> None: ...

    lines = Lines()
    detail_of(lines)("load")
    assert lines == ["load"]


@pytest.mark.parametrize(
    ("done", "took_s", "left"),
    [
        (0, 0.0, ""),
        (1, 5.0, ""),
        (1, 60.0, " (about 9 min left)"),
        (5, 600.0, " (about 10 min left)"),
        (10, 600.0, ""),
    ],
)
def test_the_time_that_is_left(done: int, took_s: float, left: str) -> None:
    assert _left(10, done, took_s) == left
