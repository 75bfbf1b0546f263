"""`compare`, `gate --against` and --history: exit codes, what is played, and what is refused before that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import clusters
from harness.commands import cli, compare, tries, verify
from harness.evidence.documents import write_json
from harness.evidence.gate import read_gate
from harness.evidence.past_runs import past_gates
from harness.evidence.seal import seal_directory
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.verdict import Status
from harness.run.scenario_run import Driven, Task
from reports.review.comparison.against import against
from suites.unit.commands.test_gate import judging, stand_ins  # noqa: F401
from suites.unit.evidence_examples import lost, verdict, write_example
from suites.unit.reports.test_comparison import gate as folder

OTHER = "4.2.0"


@pytest.fixture(autouse=True)
def two_releases(stand_ins: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def find(spec: str | None, **_: object) -> Release:
        if spec == "no-such":
            raise BadInput("there is no release no-such")
        return Release(spec or "4.3.1", f"commit of {spec}", "here", ())

    def drive(task: Task, cluster: Any, say: Any) -> Driven:
        example = write_example(task.out)
        run = json.loads((example / "run.json").read_text(encoding="utf-8"))
        write_json(example / "run.json", run | {"notes": [f"{task.out}"]})  # so that no two runs are the same one
        seal_directory(example)
        return Driven(bundle=task.out, healthy=True, doubts=())

    monkeypatch.setattr(clusters, "find_release", find)
    monkeypatch.setattr(tries, "drive", drive)


def judges(monkeypatch: pytest.MonkeyPatch, *, before: dict[str, Any], after: dict[str, Any]) -> None:
    """A judge that passes all but these: by the folder of the bundle, in OUT/against and in OUT."""

    def judge(bundles: list[Any], master: str | None, progress: Any) -> list[Any]:
        earlier = bundles[0].path.parent.name == compare.AGAINST
        return judging(before if earlier else after)(bundles, master, progress)

    monkeypatch.setattr(verify, "judge_bundles", judge)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ({}, {}, Exit.PASS),
        ({}, {"calm": Status.FAIL}, Exit.FAIL),
        ({"calm": Status.FAIL}, {"calm": Status.FAIL}, Exit.PASS),
        ({}, {"calm": Status.INCONCLUSIVE}, Exit.INCONCLUSIVE),
        ({"calm": Status.INCONCLUSIVE}, {"calm": Status.INCONCLUSIVE}, Exit.PASS),
    ],
)
def test_a_gate_against_a_release_plays_that_first_by_the_same_seed_and_ends_as_the_comparison(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: dict[str, Status],
    after: dict[str, Status],
    code: Exit,
) -> None:
    judges(monkeypatch, before=before, after=after)
    arguments = ["gate", "--only", "calm,acks_one", "--against", OTHER, "--out", "out", "--seed", "5", "--history", "h"]
    assert cli.invoke(arguments) is code
    a, b = read_gate(tmp_path / "out" / "against"), read_gate(tmp_path / "out")
    assert (a.release.version, b.release.version) == (OTHER, "4.3.1")
    assert (a.seed, b.seed, a.ran, b.ran) == (5, 5, b.ran, a.ran)
    said = capsys.readouterr().out
    assert said.index(f"first Kafka {OTHER}") < said.index("now the release under test, Kafka 4.3.1")
    assert {gate.release for gate in past_gates(tmp_path / "h")} == {OTHER, "4.3.1"}
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert 'id="comparison"' in page
    assert 'id="trend"' in page
    assert cli.invoke(["verify", "out"]) is not Exit.USAGE  # the folder in it is no bundle


def test_a_quiet_gate_against_a_release_prints_three_lines_about_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judges(monkeypatch, before={}, after={"calm": Status.FAIL})
    made: list[object] = []

    def counted(*given: Any) -> Any:
        made.append(given)
        return against(*given)

    monkeypatch.setattr("reports.compare", counted)
    assert cli.invoke(["gate", "--only", "calm", "--against", OTHER, "--out", "out", "--quiet"]) is Exit.FAIL
    word, both, where = capsys.readouterr().out.splitlines()
    assert word == "WORSE: a promise is broken that was not broken before, in calm"
    assert both.startswith(
        f"  before: Kafka {OTHER} (commit commit of {OTHER}) PASS of 1 of 33 scenarios; now: Kafka 4.3.1"
    )
    assert both.endswith(" FAIL in 1 of 1 scenarios that ran, of 33")
    assert where == f"evidence: {Path('out') / 'report' / 'index.html'}"
    assert len(made) == 1  # terminal and page show the same one
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert word.removeprefix("WORSE:") in page


def test_a_scenario_without_a_verdict_on_the_tested_release_alone_is_an_error_of_the_harness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judges(monkeypatch, before={}, after={"calm": RuntimeError("broken")})
    assert cli.invoke(["gate", "--only", "calm", "--against", OTHER, "--out", "out"]) is Exit.HARNESS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "no-such"], "there is no release no-such"),
        (["--against", OTHER, "--kafka", "no-such"], "there is no release no-such"),
        (["--against", OTHER, "--keep"], "--keep leaves one cluster running"),
        (["--history", "."], "is not a file"),
        (["--history", "TEXT"], "is damaged or no SQLite database"),
        (["--history", "no/h"], "there is no folder no"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_played(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(verify, "judge_bundles", lambda *_: pytest.fail("judged"))
    (tmp_path / "TEXT").write_text("not a database" * 100)
    before = sorted(path for path in tmp_path.iterdir() if path.name != "cache")
    assert cli.invoke(["gate", *arguments]) is Exit.USAGE
    assert said in capsys.readouterr().err
    assert sorted(path for path in tmp_path.iterdir() if path.name != "cache") == before


def test_a_history_that_breaks_while_a_gate_is_played_does_not_hide_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(*arguments: Any) -> list[Any]:
        (tmp_path / "h").write_text("not a database" * 100)
        return judging({"calm": Status.FAIL})(*arguments)

    monkeypatch.setattr(verify, "judge_bundles", judge)
    assert cli.invoke(["gate", "--only", "calm", "--out", "out", "--history", "h"]) is Exit.FAIL
    said = capsys.readouterr()
    assert "nothing was appended to the history" in said.err
    assert "FAIL in 1 of 1 scenarios" in said.out
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_each_command_that_judges_appends_and_judging_again_replaces(tmp_path: Path) -> None:
    assert cli.invoke(["gate", "--only", "calm,acks_one", "--out", "one", "--history", "h"]) is Exit.PASS
    assert cli.invoke(["run", "calm", "--out", "two", "--seed", "9", "--history", "h"]) is Exit.PASS
    names = sorted(run.scenario for gate in past_gates(tmp_path / "h") for run in gate.runs)
    assert cli.invoke(["verify", "one", "--history", "h"]) is Exit.PASS
    assert sorted(run.scenario for gate in past_gates(tmp_path / "h") for run in gate.runs) == names
    assert "calm" in names


def test_compare_prints_json_alone_and_its_code_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(tmp_path / "a", verdict("x", Status.PASS))
    folder(tmp_path / "b", verdict("x", Status.FAIL, lost(4)))
    assert cli.invoke(["compare", "a", "b", "--json"]) is Exit.FAIL
    document = json.loads(capsys.readouterr().out)
    assert document["exit"] == 1
    assert document["new_findings"] == [
        {"scenario": "x", "kind": "lost", "topic": "plain", "place": "partition", "before": 0, "after": 4}
    ]
    assert (tmp_path / "b" / "report" / "index.html").is_file()
    assert cli.invoke(["compare", "b", "a"]) is Exit.PASS
    assert "BETTER: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compare", "a", "nothing"], "there is no folder nothing"),
        (["compare", "nothing", "a"], "there is no folder nothing"),
        (["compare", "a", "a", "--history", "a"], "is not a file"),
        (["history", "nothing"], "there is no file nothing"),
        (["history", "h", "--scenario", "cal"], "did you mean 'calm'"),
        (["history", "h", "--release", "9.9.9"], "has no run on '9.9.9'"),
        (["report", "a", "--against", "nothing"], "there is no folder nothing"),
        (["report", "a", "--history", "nothing"], "there is no file nothing"),
    ],
)
def test_a_wrong_folder_or_file_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    folder(tmp_path / "a", verdict("calm", Status.PASS))
    assert cli.invoke(["compare", "a", "a", "--out", "page", "--history", "h"]) is Exit.PASS
    before = sorted(tmp_path.rglob("*"))
    assert cli.invoke(arguments) is Exit.USAGE
    assert said in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_history_of_a_scenario_shows_its_tries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(tmp_path / "a", verdict("calm", Status.PASS), verdict("b", Status.INCONCLUSIVE))
    assert cli.invoke(["compare", "a", "a", "--out", "page", "--history", "h"]) is Exit.PASS
    capsys.readouterr()
    assert cli.invoke(["history", "h", "--scenario", "b", "--json"]) is Exit.PASS
    document = json.loads(capsys.readouterr().out)
    assert [run["scenario"] for gate in document["gates"] for run in gate["runs"]] == ["b"]
    assert cli.invoke(["history", "h"]) is Exit.PASS
    assert "INCONCLUSIVE  2 of 2" in capsys.readouterr().out
