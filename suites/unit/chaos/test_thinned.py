"""A night keeps few files of a PASS, which is no damage; a changed file is, and a missing one of another episode."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.chaos.night import Episode, Header, Night
from harness.chaos.plan import name_of
from harness.chaos.summary import summary_of
from harness.commands.verify import damaged
from harness.evidence.documents import write_json
from harness.evidence.gate import NightRule, ScenarioResult, read_gate, write_gate
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import write_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadEvidence
from harness.model.verdict import Status
from suites.unit.evidence_examples import lost, verdict, write_example

HEADER = Header(seed=7, profile="default", profile_sha256="0", release="4.4.0", build="sha512:0", backend="processes")


def night_with(out: Path, *statuses: Status) -> Night:
    """A night of episodes with the evidence of FORMAT.md, and no more of it than `thin` leaves."""
    night = Night.open(out, HEADER)
    for number, status in enumerate(statuses, 1):
        folder = out / name_of(number)
        write_example(folder)
        seal_directory(folder)
        write_verdict(folder, verdict(folder.name, status))
        night.add(Episode(episode=number, status=status))
        night.thin(folder.name)
    write_gate(out, summary_of(night, NamedRelease(version="4.4.0")))
    return night


def test_a_night_removes_files_of_a_pass_without_damage(tmp_path: Path) -> None:
    assert damaged(night_with(tmp_path / "out", Status.PASS).out) == {}


def test_a_kept_file_of_a_pass_must_be_as_it_was_sealed(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.PASS)
    with (night.out / name_of(2) / "steps.json").open("a") as file:
        file.write(" ")
    (sentence,) = (refused := damaged(night.out)).values()
    assert list(refused) == [name_of(2)]
    assert "steps.json has" in sentence


def test_a_pass_of_gate_json_must_be_one_of_the_episode_too(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS)
    write_verdict(night.out / name_of(1), verdict(name_of(1), Status.FAIL, lost()))
    (sentence,) = damaged(night.out).values()
    assert "is PASS in gate.json and not in its verdict.json" in sentence


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
    assert list(damaged(night.out)) == [name_of(2)]
