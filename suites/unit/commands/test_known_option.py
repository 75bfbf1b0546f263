"""--known from the command line: read before anything is played, named everywhere, and never kept by itself."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml
from msgspec.structs import replace

from harness.commands import cli, verify
from harness.commands.options import GateOptions, GateResult
from harness.evidence.gate import GateSummary, decided, read_gate, try_of, write_gate
from harness.evidence.known import with_known
from harness.evidence.seal import seal_directory
from harness.evidence.verdicts import read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.exits import Exit
from harness.model.verdict import Doubt, Status, Verdict
from suites.unit.evidence_examples import judged, lost, verdict, write_example

RELEASE = NamedRelease(version="4.3.1", commit="c", source="here")
ENTRY = """
[[known]]
scenario = "{scenario}"
kind = "lost"
first_release = "4.3.0"
last_release = "4.3.1"
records = 50
owner = "a <b>team</b>"
reason = "It is open."
link = "https://example.org/1?a=1&b=2"
failed = 1
tries = 1
expires = {expires}
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def known(folder: Path, scenario: str = "one", expires: str = "2999-12-31", text: str = ENTRY) -> str:
    file = folder / "known.toml"
    file.write_text(text.format(scenario=scenario, expires=expires))
    return str(file)


def fake_gate(monkeypatch: pytest.MonkeyPatch, out: Path, given: Verdict) -> list[GateOptions]:
    """A gate that applies the options to one verdict."""
    seen: list[GateOptions] = []

    def gate(options: GateOptions, progress: Any) -> GateResult:
        seen.append(options)
        judged(out / "one", given)
        results = (decided("one", [try_of("one", given)]),)
        summary = with_known(GateSummary(required=("one",), results=results, release=RELEASE), out, options.known)
        write_gate(out, summary)
        return GateResult(out=out, summary=summary)

    module = types.ModuleType("harness.commands.gate")
    module.gate = gate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "harness.commands.gate", module)
    return seen


def test_a_gate_with_known_findings_alone_ends_in_0_and_says_so_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fake_gate(monkeypatch, out, verdict("one", Status.FAIL, lost(50)))
    step = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert cli.invoke(["gate", "--known", known(tmp_path)]) is Exit.PASS
    said = capsys.readouterr().out
    assert said.strip().startswith("PASS WITH KNOWN FINDINGS of scenario one: Kafka 4.3.1")
    assert "lost: 50 records of plain-0" in said  # it is shown as what it is
    assert "known: lost in one: 50 in one; It is open. https://example.org/1?a=1&b=2 (at most 50 in one try" in said
    assert "Every promised record was read back" not in said
    document = json.loads((out / "gate.json").read_text())
    assert (document["verdict"], document["word"]) == ("FAIL", "PASS WITH KNOWN FINDINGS")
    assert document["known"]["matched"][0]["entry"]["owner"] == "a <b>team</b>"
    assert read_verdict(out / "one").status is Status.FAIL
    (suite,) = JUnitXml.fromfile(str(out / "junit.xml"))
    (case,) = suite
    assert case.result == []
    assert "known finding: lost in one: 50 in one; It is open." in case.system_out
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "<h1>PASS WITH KNOWN FINDINGS of scenario one" in page
    assert "owner a &lt;b&gt;team&lt;/b&gt;" in page
    assert 'class="word fail">lost' in page
    assert step.read_text().startswith("# PASS WITH KNOWN FINDINGS of scenario one")


def test_what_is_beyond_an_entry_is_a_fail_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fake_gate(monkeypatch, out, verdict("one", Status.FAIL, lost(51)))
    assert cli.invoke(["gate", "--known", known(tmp_path)]) is Exit.FAIL
    said = capsys.readouterr().out
    assert said.strip().startswith("FAIL of scenario one")
    assert "known, but not met or not enough: lost in one: more than its 50 (one: 51 condemn)" in said
    (suite,) = JUnitXml.fromfile(str(out / "junit.xml"))
    (case,) = suite
    assert isinstance(case.result[0], Failure)
    assert "not a known finding: lost in one: more than its 50" in case.system_out


def test_a_doubt_beside_a_known_finding_is_an_error_in_junit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    doubted = replace(verdict("one", Status.FAIL, lost(50)), doubts=(Doubt("floor_after", "12 acks"),))
    fake_gate(monkeypatch, out, doubted)
    assert cli.invoke(["gate", "--known", known(tmp_path)]) is Exit.INCONCLUSIVE
    (suite,) = JUnitXml.fromfile(str(out / "junit.xml"))
    (case,) = suite
    assert isinstance(case.result[0], Error)
    assert case.result[0].type == "INCONCLUSIVE"


def test_entries_that_are_not_met_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_gate(monkeypatch, tmp_path / "out", verdict("one", Status.PASS))
    assert cli.invoke(["gate", "--known", known(tmp_path, "two")]) is Exit.PASS
    said = capsys.readouterr().out
    assert said.strip().startswith("PASS of scenario one")  # nothing was known, so it is a plain PASS
    assert "known, but not met or not enough: lost in two: the scenario was not played" in said
    assert "lost in two: the scenario was not played" in (tmp_path / "out" / "report" / "index.html").read_text()


@pytest.mark.parametrize("command", [["gate"], ["run", "calm"], ["verify", "BUNDLE"], ["report", "BUNDLE"]])
@pytest.mark.parametrize(
    ("text", "said"),
    [(ENTRY.replace("kind", "knid"), "unknown key 'knid'"), (ENTRY.replace('"lost"', '"*"'), "no kind of finding '*'")],
)
def test_a_damaged_file_is_refused_before_anything_is_played_or_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    text: str,
    said: str,
) -> None:
    seen = fake_gate(monkeypatch, tmp_path / "out", verdict("one", Status.PASS))
    bundle = write_example(tmp_path / "b")
    seal_directory(bundle)
    file, before = known(tmp_path, text=text), sorted(tmp_path.rglob("*"))
    arguments = [str(bundle) if one == "BUNDLE" else one for one in command]
    assert cli.invoke([*arguments, "--known", file]) is Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert seen == []
    assert sorted(set(tmp_path.rglob("*")) - {Path(file)}) == sorted(set(before) - {Path(file)})


def test_a_known_bug_is_no_known_finding_of_its_regression(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "regression", "--issue", "KAFKA-17375", "--known", "shipped"]
    assert cli.invoke(arguments) is Exit.USAGE
    assert "`regression` and --known exclude each other" in capsys.readouterr().err


def example_gate(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with one bundle, in which the judge finds 50 lost records."""
    seal_directory(write_example(out / "by_hand"))
    facts = VerdictFacts(release=RELEASE)

    def judge(bundles: list[Any], master: str | None, progress: Any) -> list[Verdict]:
        found = replace(verdict("by_hand", Status.FAIL, lost(50)), facts=facts)
        for bundle in bundles:
            judged(bundle.path, found)
        return [found for _ in bundles]

    monkeypatch.setattr(verify, "judge_bundles", judge)
    found = verdict("by_hand", Status.FAIL, lost(50))
    results = (decided("by_hand", [try_of("by_hand", found)]),)
    write_gate(out, GateSummary(required=("by_hand",), results=results, release=RELEASE))


def test_verify_applies_them_to_a_gate_and_to_a_bundle_and_forgets_them_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    example_gate(out, monkeypatch)
    file = known(tmp_path, "by_hand")
    assert cli.invoke(["verify", str(out), "--known", file]) is Exit.PASS
    assert read_gate(out).word == "PASS WITH KNOWN FINDINGS"
    capsys.readouterr()
    assert cli.invoke(["verify", str(out / "by_hand"), "--known", file, "--json"]) is Exit.PASS
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["word"]) == ("FAIL", "PASS WITH KNOWN FINDINGS")
    assert cli.invoke(["verify", str(out)]) is Exit.FAIL
    assert (read_gate(out).word, read_gate(out).known) == ("FAIL", None)
    assert cli.invoke(["verify", str(out), "--known", known(tmp_path, "by_hand", "2026-01-01")]) is Exit.FAIL
    assert "it expired on 2026-01-01" in capsys.readouterr().out


def test_verify_covers_nothing_of_a_bundle_that_is_damaged_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    example_gate(out, monkeypatch)
    seal_directory(write_example(out / "by_hand-again"))
    assert cli.invoke(["verify", str(out)]) is Exit.FAIL  # leaves a verdict.json in each
    file = known(tmp_path, "by_hand")
    assert cli.invoke(["verify", str(out), "--known", file]) is Exit.PASS
    (out / "by_hand" / "steps.json").unlink()
    assert cli.invoke(["verify", str(out), "--known", file]) is Exit.FAIL


def test_a_page_has_the_known_findings_of_its_own_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, page = tmp_path / "out", tmp_path / "out" / "report" / "index.html"
    example_gate(out, monkeypatch)
    file = known(tmp_path, "by_hand")
    assert cli.invoke(["verify", str(out), "--known", file]) is Exit.PASS
    assert "<h1>PASS WITH KNOWN FINDINGS" in page.read_text(encoding="utf-8")
    assert cli.invoke(["report", str(out)]) is Exit.PASS
    assert "<h1>FAIL" in page.read_text(encoding="utf-8")
    assert cli.invoke(["report", str(out), "--known", file]) is Exit.PASS
    assert "<h1>PASS WITH KNOWN FINDINGS" in page.read_text(encoding="utf-8")
