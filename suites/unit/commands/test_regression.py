"""A known bug proves the harness: only releases with the bug may FAIL, and only with the findings of the bug."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from harness import clusters
from harness.commands import gate as run
from harness.commands import regression
from harness.commands.options import GateOptions, GateResult
from harness.evidence.gate import GateSummary, ScenarioResult
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.finding import Kind
from harness.model.scenario.scenario import Regression
from harness.model.verdict import Status
from suites.unit.evidence_examples import judged, lost, verdict

ISSUE = "KAFKA-17062"
GONE = replace(lost(), kind=Kind.LOG_START)
FAILED, PASSED, DOUBTED = (Status.FAIL, GONE), (Status.PASS,), (Status.INCONCLUSIVE,)


class Silent:
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays the bug on releases with given verdicts; no cluster starts. `tested` is the release of the user."""

    def play(
        bad: Any, fixed: Any, newest: Any, tested: str | None = None, released: str = "4.3.1"
    ) -> regression.Outcome:
        comes = {"3.8.0": bad, "3.9.0": fixed, tested: newest}

        def gate(options: GateOptions, progress: Any) -> GateResult:
            assert options.out is not None
            (name,) = options.only
            status, *findings = comes[options.kafka]
            judged(options.out / name, verdict(name, status, *findings))
            result = ScenarioResult(name=name, status=status, bundle=name)
            release = NamedRelease(version=options.kafka or "4.3.1")
            return GateResult(
                out=options.out, summary=GateSummary(required=(name,), results=(result,), release=release, seed=1)
            )

        monkeypatch.setattr(run, "gate", gate)
        versions = SimpleNamespace(version=released)
        monkeypatch.setattr(clusters, "find_release", lambda *_, **__: versions)
        return regression.play(ISSUE, GateOptions(seed=1, out=tmp_path / "out", kafka=tested), Silent())

    return play


@pytest.mark.parametrize(
    ("bad", "fixed", "newest", "comes"),
    [
        (FAILED, PASSED, PASSED, Exit.PASS),
        (PASSED, PASSED, PASSED, Exit.INCONCLUSIVE),
        (DOUBTED, PASSED, PASSED, Exit.INCONCLUSIVE),
        ((Status.FAIL, lost()), PASSED, PASSED, Exit.INCONCLUSIVE),
        ((Status.FAIL, replace(GONE, excused_by="it may")), PASSED, PASSED, Exit.INCONCLUSIVE),
        ((Status.FAIL, GONE, lost()), PASSED, PASSED, Exit.PASS),
        (FAILED, FAILED, PASSED, Exit.FAIL),
        (FAILED, PASSED, FAILED, Exit.FAIL),
        (FAILED, DOUBTED, PASSED, Exit.INCONCLUSIVE),
        (FAILED, PASSED, DOUBTED, Exit.INCONCLUSIVE),
    ],
)
def test_every_release_must_have_the_verdict_that_belongs_to_it(
    played: Any, bad: Any, fixed: Any, newest: Any, comes: Exit
) -> None:
    outcome = played(bad, fixed, newest)
    assert outcome.exit is comes
    assert [one.release for one in outcome.played] == ["3.8.0", "3.9.0", "4.3.1"]
    written = json.loads((outcome.out / regression.SUMMARY).read_text())
    assert [row["release"] for row in written["releases"]] == ["3.8.0", "3.9.0", "4.3.1"]
    assert written["issue"] == ISSUE


def test_each_release_is_reported_in_a_line(played: Any) -> None:
    lines = [one.line for one in played(FAILED, PASSED, DOUBTED).played]
    assert lines == [
        "3.8.0: FAIL with log_start, as it must",
        "3.9.0: PASS, as it must",
        "4.3.1: INCONCLUSIVE, and it must PASS",
    ]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (PASSED, "3.8.0: PASS, and it must FAIL"),
        ((Status.FAIL, lost()), "3.8.0: FAIL with lost, but not with the findings of this bug"),
    ],
)
def test_a_bad_release_that_does_not_fail_for_its_bug_is_reported(played: Any, bad: Any, said: str) -> None:
    assert played(bad, PASSED, PASSED).played[0].line == said


def test_a_tested_release_that_the_scenario_names_is_not_run_twice(played: Any) -> None:
    assert [one.release for one in played(FAILED, PASSED, PASSED, tested="3.9.0").played] == ["3.8.0", "3.9.0"]


@pytest.mark.parametrize("newest", ["3.9.0", "3.8.0"])
def test_the_newest_release_is_not_run_twice_if_the_scenario_names_it(played: Any, newest: str) -> None:
    assert [one.release for one in played(FAILED, PASSED, PASSED, released=newest).played] == ["3.8.0", "3.9.0"]


def test_while_a_bug_is_open_only_a_release_that_the_user_names_must_pass() -> None:
    known = Regression(issue=ISSUE, bad=("4.4.0",), fixed=(), expect=("lost",))
    assert [*regression._asked(known, None)] == [("4.4.0", True)]
    assert [*regression._asked(known, "4.5.0")] == [("4.4.0", True), ("4.5.0", False)]


def test_a_bug_without_a_scenario_is_refused() -> None:
    with pytest.raises(
        BadInput,
        match="no scenario compares releases with and without the bug 'KAFKA-17063'; did you mean 'KAFKA-17062'",
    ):
        regression.scenario_of("KAFKA-17063")
