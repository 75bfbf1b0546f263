"""A night keeps few files of a PASS, which is no damage; a changed file is, and a missing one of another episode."""

from __future__ import annotations

from pathlib import Path

from harness.chaos.night import Episode, Header, Night
from harness.chaos.plan import name_of
from harness.chaos.summary import summary_of
from harness.commands.verify import damaged
from harness.evidence.gate import write_gate
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import write_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.verdict import Status
from suites.unit.evidence_examples import verdict, write_example

HEADER = Header(seed=7, profile="default", profile_sha256="0", release="4.4.0", build="sha512:0", backend="processes")


def night_with(out: Path, *statuses: Status) -> Night:
    """A night whose episodes have the evidence of FORMAT.md, and no more of it than `thin` leaves."""
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


def test_evidence_that_is_missing_of_another_episode_is_damage(tmp_path: Path) -> None:
    night = night_with(tmp_path / "out", Status.PASS, Status.FAIL)
    assert list(damaged(night.out)) == [name_of(2)]
