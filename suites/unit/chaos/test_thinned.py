"""A night keeps few files of a PASS, which is no damage; a changed file is, and a missing one of another episode."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.chaos.night import Episode, Header, Night
from harness.chaos.plan import name_of
from harness.chaos.summary import summary_of
from harness.commands import cli, verify
from harness.commands.verify import damaged
from harness.evidence import Bundle
from harness.evidence.documents import write_json
from harness.evidence.gate import NightRule, ScenarioResult, Try, decided, read_gate, write_gate
from harness.evidence.manifest import own_digest
from harness.evidence.seal import seal_directory
from harness.evidence.thinned import THINNED, thin
from harness.evidence.verdicts import read_verdict, write_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadEvidence
from harness.model.exits import Exit
from harness.model.limits import Limits
from harness.model.verdict import Status, Verdict
from reports.summary import replay_command
from suites.unit.evidence_examples import lost, verdict, write_example

HEADER = Header(seed=7, profile="default", profile_sha256="0", release="4.4.0", build="sha512:0", backend="processes")


def episode(out: Path, number: int) -> Path:
    """The sealed bundle of an episode without a verdict."""
    folder = write_example(out / name_of(number))
    document = json.loads((folder / "scenario.json").read_text("utf-8"))
    write_json(folder / "scenario.json", {**document, "name": folder.name})
    seal_directory(folder)
    return folder


def night_with(out: Path, *statuses: Status) -> Night:
    """A night of episodes with the evidence of FORMAT.md; that of a PASS is thinned."""
    night = Night.open(out, HEADER)
    for number, status in enumerate(statuses, 1):
        folder = episode(out, number)
        write_verdict(folder, verdict(folder.name, status))
        night.add(Episode(episode=number, status=status))
        if status is Status.PASS:
            night.thin(folder.name)
    write_gate(out, summary_of(night, NamedRelease(version="4.4.0")))
    return night


def test_a_night_removes_files_of_a_pass_without_damage(tmp_path: Path) -> None:
    assert damaged(night_with(tmp_path / "out", Status.PASS).out) == {}


def test_of_a_pass_only_the_verdict_and_what_was_played_are_kept(tmp_path: Path) -> None:
    folder = night_with(tmp_path / "out", Status.PASS).out / name_of(1)
    kept = ["manifest.json", "run.json", "scenario.json", "steps.json", THINNED, "verdict.json"]
    assert sorted(path.name for path in folder.iterdir()) == kept


def test_a_kept_file_of_a_pass_must_be_as_it_was_sealed(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.PASS)
    with (night.out / name_of(2) / "steps.json").open("a") as file:
        file.write(" ")
    (sentence,) = (refused := damaged(night.out)).values()
    assert list(refused) == [name_of(2)]
    assert "steps.json has" in sentence


def copied(bundle: Path) -> None:
    """The whole verdict of another run of the same episode."""
    document = json.loads((bundle / "verdict.json").read_text("utf-8"))
    write_json(bundle / "verdict.json", {**document, "promised": 999})


def of_another_run(bundle: Path) -> None:
    """The documents of another run, with its manifest, beside a verdict that is not about them."""
    document = json.loads((bundle / "manifest.json").read_text("utf-8"))
    document["seed"] = 8
    document["own_sha256"] = own_digest(document)
    write_json(bundle / "manifest.json", document)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda bundle: (bundle / "verdict.json").unlink(), "was thinned, and its verdict.json is missing"),
        (
            lambda bundle: write_verdict(bundle, verdict(bundle.name, Status.FAIL, lost())),
            "is not the verdict of before",
        ),
        (lambda bundle: write_verdict(bundle, verdict("episode_000009", Status.PASS)), "is not the verdict of before"),
        (copied, "is not the verdict of before"),
        (of_another_run, "is about the evidence of another run"),
        (lambda bundle: (bundle / "run.json").unlink(), "run.json is missing, though thinning keeps it"),
        (lambda bundle: (bundle / THINNED).write_text("{}"), "is no mark of a thinned bundle"),
        (lambda bundle: (bundle / THINNED).unlink(), "is missing, though the manifest lists it"),
    ],
    ids=[
        "no verdict",
        "no PASS",
        "another scenario",
        "another verdict",
        "another run",
        "no run",
        "no mark",
        "unmarked",
    ],
)
def test_a_verdict_that_may_be_about_something_else_is_not_kept(
    tmp_path: Path, harm: Callable[[Path], object], said: str
) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.PASS)
    harm(night.out / name_of(2))
    (sentence,) = (refused := damaged(night.out)).values()
    assert list(refused) == [name_of(2)]
    assert said in sentence


@pytest.mark.parametrize("status", [Status.FAIL, Status.INCONCLUSIVE])
def test_a_thinned_bundle_is_a_pass_or_nothing(tmp_path: Path, status: Status) -> None:
    night = night_with(tmp_path / "out", status)
    thin(night.out / name_of(1))
    (sentence,) = damaged(night.out).values()
    assert f"its verdict is {status.value}; only a PASS is thinned" in sentence


def test_a_verdict_of_another_scenario_is_not_kept_although_its_mark_fits(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    bundle = episode(night.out, 2)
    write_verdict(bundle, verdict(name_of(1), Status.PASS))
    thin(bundle)
    assert f"is about {name_of(1)}, the evidence is of" in damaged(night.out)[bundle.name]
    bundle.rename(night.out / name_of(3))
    write_verdict(night.out / name_of(3), verdict(name_of(2), Status.PASS))
    thin(night.out / name_of(3))
    assert f"verdict.json is about {name_of(2)}" in damaged(night.out)[name_of(3)]


@pytest.mark.parametrize("status", [Status.FAIL, None])
def test_a_pass_that_gate_json_does_not_know_is_not_kept(tmp_path: Path, status: Status | None) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    summary = read_gate(night.out)
    told = Try(bundle=name_of(1), status=status, error=None if status else "the harness failed")
    write_gate(night.out, replace(summary, results=(decided(name_of(1), [told]),)))
    (sentence,) = damaged(night.out).values()
    assert f"is {status.value if status else 'without a verdict'} in gate.json and PASS in its verdict.json" in sentence


def judging(monkeypatch: pytest.MonkeyPatch, statuses: Mapping[str, Status | None]) -> None:
    """Judges bundles by their names; None = the judge crashes."""

    def judge(bundles: Sequence[Bundle], _master: object, _progress: object) -> list[Verdict]:
        given = [statuses[bundle.path.name] for bundle in bundles]
        if None in given:
            raise RuntimeError("the judge crashed")
        verdicts = [
            verdict(b.path.name, s, *([lost()] if s is Status.FAIL else []))
            for b, s in zip(bundles, given, strict=True)
            if s
        ]
        for bundle, one in zip(bundles, verdicts, strict=True):
            write_verdict(bundle.path, one)
        return verdicts

    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(verify, "judge_bundles", judge)


def test_verify_judges_the_others_and_names_the_thinned_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.INCONCLUSIVE, Status.PASS)
    judging(monkeypatch, {name_of(2): Status.FAIL})
    assert cli.invoke(["verify", str(night.out), "--json"]) is Exit.FAIL
    document = json.loads(capsys.readouterr().out)
    assert document["thinned"] == [name_of(1), name_of(3)]
    assert {one["name"]: one["status"] for one in document["scenarios"]} == {
        name_of(1): "PASS",
        name_of(2): "FAIL",
        name_of(3): "PASS",
    }
    assert cli.invoke(["verify", str(night.out)]) is Exit.FAIL
    assert "judged before, evidence thinned: 2 of 3 episodes" in capsys.readouterr().out
    assert [one.thinned for result in read_gate(night.out).results for one in result.tries] == [True, False, True]


def test_verify_of_one_thinned_episode_says_why_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    judging(monkeypatch, {})
    assert cli.invoke(["verify", str(night.out / name_of(1))]) is Exit.USAGE
    assert "cannot be judged again: its night judged it PASS and thinned its evidence" in capsys.readouterr().err
    assert cli.invoke(["verify", str(night.out)]) is Exit.PASS


def test_verify_of_a_night_without_gate_json_keeps_thinned_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.INCONCLUSIVE)
    (night.out / "gate.json").unlink()
    judging(monkeypatch, {name_of(2): Status.INCONCLUSIVE})
    assert cli.invoke(["verify", str(night.out)]) is Exit.INCONCLUSIVE
    (night.out / name_of(1) / "verdict.json").unlink()
    assert cli.invoke(["verify", str(night.out)]) is Exit.USAGE


def test_a_night_with_a_thinned_episode_that_cannot_be_kept_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_with(tmp_path / "out", *[Status.PASS] * 20)
    judging(monkeypatch, {})
    assert cli.invoke(["verify", str(night.out)]) is Exit.PASS
    (night.out / name_of(3) / "verdict.json").unlink()
    capsys.readouterr()
    assert cli.invoke(["verify", str(night.out)]) is Exit.USAGE
    said = capsys.readouterr()
    assert f"{name_of(3)} was thinned, and its verdict.json is missing" in said.err
    assert "INCONCLUSIVE of a night of 20 episodes; 1 bundle could not be judged" in said.out


def test_an_episode_whose_judging_crashed_is_part_of_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_with(tmp_path / "out", *[Status.PASS] * 19)
    bundle = episode(night.out, 20)
    night.add(Episode(episode=20, error="the harness failed on it"))
    summary = summary_of(night, NamedRelease(version="4.4.0"))
    write_gate(night.out, summary)
    assert (summary.proved_percent, summary.word, summary.exit) == (95, "INCONCLUSIVE", Exit.HARNESS)
    judging(monkeypatch, {bundle.name: None})
    assert cli.invoke(["verify", str(night.out)]) is Exit.HARNESS
    said = capsys.readouterr().out
    assert "INCONCLUSIVE of a night of 20 episodes; 1 bundle could not be judged" in said
    assert "PASS of" not in said
    assert read_gate(night.out).word == "INCONCLUSIVE"
    judging(monkeypatch, {bundle.name: Status.PASS})
    assert cli.invoke(["verify", str(night.out)]) is Exit.PASS
    assert "PASS of a night of 20 episodes" in capsys.readouterr().out
    assert summary_of(night, NamedRelease(version="4.4.0")).exit is Exit.PASS, "the night goes on with that verdict"


def test_an_episode_that_gate_json_does_not_name_and_nobody_judged_is_part_of_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = night_with(tmp_path / "out", *[Status.PASS] * 19)
    bundle = episode(night.out, 20)
    judging(monkeypatch, {bundle.name: None})
    assert cli.invoke(["verify", str(night.out)]) is Exit.HARNESS
    assert (read_gate(night.out).word, read_gate(night.out).without_verdict) == ("INCONCLUSIVE", (bundle.name,))


def test_an_episode_of_which_nothing_was_saved_is_part_of_no_pass(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", *[Status.PASS] * 19)
    night.add(Episode(episode=20, error="the cluster did not start"))
    summary = summary_of(night, NamedRelease(version="4.4.0"))
    assert (summary.word, summary.exit) == ("INCONCLUSIVE", Exit.HARNESS)


def test_word_and_exit_code_of_a_night_are_one(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", *[Status.PASS] * 19, Status.INCONCLUSIVE)
    summary = read_gate(night.out)
    doubted = replace(summary, results=tuple(replace(r, tries=(), status=r.status) for r in summary.results))
    assert (doubted.word, doubted.exit) == ("PASS", Exit.PASS)


def test_a_night_names_its_limits_where_an_episode_is_played_again(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    release = NamedRelease(version="4.4.0", source="Maven Central", kafka="4.4.0")
    summary = summary_of(night, release, Limits(memory=1 << 30, cpus=0.5))
    said = replay_command(summary, read_verdict(night.out / name_of(1)))
    assert said.startswith(f"durability run plans/{name_of(1)}.toml --kafka 4.4.0 --seed 7")
    assert said.endswith("--memory 1024m --cpus 0.5")
    assert "--memory" not in replay_command(summary_of(night, release), read_verdict(night.out / name_of(1)))


def test_only_an_episode_with_the_step_may_be_called_planted(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.FAIL)
    forged = replace(read_gate(night.out), night=NightRule(planted=(name_of(2),)))
    write_gate(night.out, forged)
    with pytest.raises(BadEvidence, match="says that the harness planted a loss in episode_000002, and its scenario"):
        damaged(night.out)
    document = {"name": name_of(2), "steps": [{"do": "plant_loss", "on": "t/0"}]}
    write_json(night.out / name_of(2) / "scenario.json", document)
    assert name_of(2) in damaged(night.out), "it is planted, and its evidence was changed"


def test_a_gate_may_not_be_called_a_night(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    summary = read_gate(night.out)
    gate = replace(summary, results=(*summary.results, ScenarioResult(name="calm", error="not judged")))
    write_gate(night.out, gate)
    with pytest.raises(BadEvidence, match="is that of a night, and its scenario calm is no episode"):
        damaged(night.out)


def test_evidence_that_is_missing_of_another_episode_is_damage(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.FAIL)
    (night.out / name_of(2) / "steps.json").unlink()
    assert list(damaged(night.out)) == [name_of(2)]
