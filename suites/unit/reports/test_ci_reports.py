"""Outputs for a CI system and its users: job summary, webhook body, vote, and the three lines of --quiet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

import reports
from harness.evidence.documents import plain
from harness.evidence.gate import GateSummary, ScenarioResult, Try, decided
from harness.model.documents.manifest import NamedRelease
from harness.model.exits import Exit
from harness.model.finding import Finding
from harness.model.verdict import Doubt, Status, Verdict
from reports.ci_run import run_url
from reports.job_summary import SCENARIOS_SHOWN, escaped, markdown, write_job_summary
from reports.notice import ITEMS_MAX, Notice, notice_of
from reports.overview import quiet_lines
from reports.vote import vote_lines
from suites.unit.evidence_examples import lost, verdict

RELEASE = NamedRelease(version="4.3.1", commit="abc123", source="Maven Central", kafka="4.3.1")
HOSTILE = (
    "<img src=x onerror=alert(1)> | **bold** [link](http://evil.example) `code` @team #1000 www.evil.com \x1b[31m\nnext"
)
OUT = Path("durability-out/x")


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GITHUB_SERVER_URL",
        "GITHUB_REPOSITORY",
        "GITHUB_RUN_ID",
        "CI_JOB_URL",
        "BUILD_URL",
        "GITHUB_STEP_SUMMARY",
    ):
        monkeypatch.delenv(name, raising=False)


def summary_of(*results: ScenarioResult, required: tuple[str, ...] = ()) -> GateSummary:
    return GateSummary(
        required=required or tuple(r.name for r in results), results=results, release=RELEASE, seed=7, took_s=61.0
    )


def ran(name: str, status: Status) -> ScenarioResult:
    return decided(name, [Try(bundle=name, status=status)])


def test_the_job_summary_has_scenarios_incidents_doubts_and_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_JOB_URL", "https://gitlab.example/job/1")
    bad = replace(
        verdict("bad", Status.FAIL, lost(50)), doubts=tuple(Doubt("floor_after", f"{n} acks") for n in range(6))
    )
    summary = summary_of(ran("good", Status.PASS), ran("bad", Status.FAIL), required=("good", "bad", "late"))
    text = markdown(summary, {"bad": bad, "good": verdict("good", Status.PASS)}, OUT, {})
    lines = text.splitlines()
    assert lines[0].startswith("# FAIL in 1 of 2 scenarios that ran, of 3")
    assert "| bad | FAIL | 50 lost | floor&#95;after | FAIL |" in lines
    assert lines.index("| good | PASS |  |  | PASS |") > lines.index(
        "| bad | FAIL | 50 lost | floor&#95;after | FAIL |"
    )
    assert "| late | not run | not reached |  |  |" in lines
    assert any(line.startswith("- lost in bad: 50 records of plain-0, offsets 100 to 149") for line in lines)
    assert "- bad, floor&#95;after: 0 acks (and 5 more of this sort)" in lines
    assert "[Run and artifacts](<https://gitlab.example/job/1>)" in lines


def test_foreign_text_is_no_markup_in_the_job_summary() -> None:
    bad = verdict("bad", Status.FAIL, replace(lost(1), topic=HOSTILE, detail=HOSTILE, contract=HOSTILE))
    bad = replace(bad, doubts=(Doubt("harness_failed", HOSTILE),))
    summary = replace(summary_of(ran("bad", Status.FAIL)), not_run={"x": HOSTILE})
    text = markdown(summary, {"bad": bad}, OUT, {"b|undle": HOSTILE})
    for mark in ("<img", "[link]", "**bold**", "`code`", "@team", "#1000", "://evil", "www.evil", "\x1b"):
        assert mark not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {6}
    assert "&#60;img src=x" in text


def test_a_job_summary_of_many_scenarios_stays_below_githubs_limit() -> None:
    many = [f"scenario_{n}" for n in range(2_000)]
    long = Doubt("harness_failed", "x" * 10_000)
    verdicts = {name: replace(verdict(name, Status.FAIL, lost(1)), doubts=(long,)) for name in many}
    text = markdown(summary_of(*(ran(name, Status.FAIL) for name in many)), verdicts, OUT, {})
    assert len(text.encode()) < 1 << 20
    assert f"And {2_000 - SCENARIOS_SHOWN:,} more scenarios." in text
    assert "- and 1,975 more: see the review page" in text


def test_the_job_summary_is_appended_for_github_and_replaces_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, file = tmp_path / "step", tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert write_job_summary("one\n", file) == []
    assert write_job_summary("two\n", file) == []
    assert (step.read_text(), file.read_text()) == ("one\ntwo\n", "two\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    (failure,) = write_job_summary("three\n", None)
    assert "cannot be written" in failure
    (failure, _) = write_job_summary("three\n", tmp_path / "none" / "x.md")
    assert "cannot be written" in failure
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step", "summary.md"]


def test_escaped_text_reads_as_it_was() -> None:
    shown = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), escaped("a_b <c> | http://x www.y"))
    assert shown == "a_b <c> | http://x www.y"


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({}, None),
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"},
            "https://github.com/a/b/actions/runs/7",
        ),
        ({"GITHUB_SERVER_URL": "https://github.com"}, None),
        ({"BUILD_URL": "https://jenkins.example/job/1/"}, "https://jenkins.example/job/1/"),
        ({"BUILD_URL": "javascript:alert(1)"}, None),
        ({"BUILD_URL": "https://x/>) <b>"}, None),
        ({"BUILD_URL": "https://[x"}, None),
    ],
)
def test_the_address_of_the_run(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str | None) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run_url() == url


def fifty() -> list[Finding]:
    return [replace(lost(n + 1), partition=n) for n in range(50)]


def test_the_body_of_the_webhook_has_the_figures_of_the_verdicts() -> None:
    bad = verdict("bad", Status.FAIL, *fifty())
    summary = summary_of(ran("good", Status.PASS), ran("bad", Status.FAIL), ScenarioResult(name="no", error="x"))
    verdicts = {"bad": bad, "good": verdict("good", Status.PASS)}
    body = plain(notice_of(summary, verdicts, OUT, {"b": "damaged"}, Exit.FAIL))
    assert (body["word"], body["verdict"], body["exit"]) == ("FAIL", "FAIL", 1)
    assert body["scenarios"] == {"required": 3, "PASS": 1, "INCONCLUSIVE": 0, "FAIL": 1, "none": 2}
    assert (body["incident_count"], len(body["incidents"])) == (50, ITEMS_MAX)  # type: ignore[arg-type]
    assert body["incidents"][0]["count"] == 50  # type: ignore[index]
    assert body["run"] is None
    assert msgspec.convert(body, Notice).seed == 7


def test_a_bundle_without_a_verdict_is_no_pass_in_the_body() -> None:
    body = notice_of(summary_of(ran("a", Status.PASS)), {"a": verdict("a", Status.PASS)}, OUT, {"b": "x"}, Exit.USAGE)
    assert (body.word, body.exit) == ("INCONCLUSIVE", 2)


def test_texts_of_the_body_are_short_and_on_one_line() -> None:
    bad = replace(verdict("bad", Status.FAIL, replace(lost(1), topic=HOSTILE * 99)), doubts=(Doubt("x", HOSTILE * 99),))
    body = notice_of(summary_of(ran("bad", Status.FAIL)), {"bad": bad}, OUT, {}, Exit.FAIL)
    for text in (body.why, body.headline, *body.doubts, *(one.text for one in body.incidents)):
        assert len(text) <= 1_004
        assert text.isprintable()


def test_the_documentation_has_each_key_of_the_body_with_its_meaning() -> None:
    text = (Path(reports.__file__).parent / "ci" / "README.md").read_text(encoding="utf-8")
    for name, hint in get_type_hints(Notice, include_extras=True).items():
        if get_origin(hint) is Annotated:
            (meant,) = [one.description for one in get_args(hint)[1:]]
            assert f"| `{name}` | {meant} |" in text
    assert set(re.findall(r"^\| `(\w+)` \| ", text, re.MULTILINE)) == set(Notice.__struct_fields__)


@pytest.mark.parametrize(("status", "vote"), [(Status.PASS, "+1"), (Status.INCONCLUSIVE, "0"), (Status.FAIL, "-1")])
def test_a_vote_has_two_lines(status: Status, vote: str) -> None:
    given = verdict("a", status, *([lost()] if status is Status.FAIL else []))
    lines = vote_lines(summary_of(ran("a", status)), {"a": given}, {})
    assert len(lines) == 2
    wanted = f"{vote} (non-binding): kafka-durability says {status.value} of scenario a: Kafka 4.3.1 (commit abc123)"
    assert lines[0] == f"{wanted}, in 1 min 1 s, seed 7"
    assert {
        Status.PASS: "0 of 6 fault episodes lost promised records",
        Status.INCONCLUSIVE: "in a: 12 acks after healing on plain-1",
        Status.FAIL: "lost in a: 50 records of plain-0",
    }[status] in lines[1]


def test_a_vote_on_a_part_says_so_and_a_damaged_bundle_is_no_plus() -> None:
    summary = replace(summary_of(ran("a", Status.PASS), required=("a", "b")), part=True)
    part = vote_lines(summary, {"a": verdict("a", Status.PASS)}, {})[0]
    assert part.startswith("0 (non-binding): kafka-durability says PASS of 1 of 2 scenarios")
    alone = vote_lines(summary_of(ran("a", Status.PASS)), {"a": verdict("a", Status.PASS)}, {}, gate=False)[0]
    assert alone.startswith("0 (non-binding): kafka-durability says PASS of scenario a")
    first, second = vote_lines(summary, {"a": verdict("a", Status.PASS)}, {"b": "b is damaged"})
    assert first.startswith("0 (non-binding)")
    assert second


def test_foreign_text_does_not_add_lines_to_a_vote() -> None:
    bad: Verdict = verdict("a", Status.FAIL, replace(lost(1), topic=HOSTILE))
    lines = vote_lines(summary_of(ran("a", Status.FAIL)), {"a": bad}, {})
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 2


@pytest.mark.parametrize("status", list(Status))
def test_quiet_is_the_word_the_reason_and_the_place(status: Status) -> None:
    given = verdict("a", status, *([lost()] if status is Status.FAIL else []))
    lines = [text for text, _ in quiet_lines(summary_of(ran("a", status)), {"a": given}, OUT)]
    assert len(lines) == 3
    assert lines[0].startswith(f"{status.value} of scenario a")
    assert lines[2] == f"evidence: {OUT}"
