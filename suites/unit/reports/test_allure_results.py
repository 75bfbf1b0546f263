"""Allure results of evidence: every outcome, the tries, links, attachments, categories, and files that concern all."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from harness.model.doubt_names import DoubtOrigin
from harness.model.errors import BadInput
from harness.model.finding import Kind
from harness.model.verdict import Doubt, Status
from reports.allure import offer_allure, write_allure
from reports.allure.attachments import LOG_BYTES_MAX
from reports.allure.surroundings import CATEGORIES, executor_of
from suites.unit.evidence_examples import lost, verdict
from suites.unit.reports.allure_examples import HOSTILE, write_judged, write_out
from suites.unit.reports.allure_reading import Document, Read, read_results
from suites.unit.reports.timeline_examples import at


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_out(tmp_path_factory.mktemp("gate") / "out")


@pytest.fixture(scope="module")
def folder(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    assert write_allure(out, folder) == 10
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> list[Read]:
    return read_results(folder)


def one(results: list[Read], scenario: str) -> Read:
    [found] = [result for result in results if result.scenario == scenario]
    return found


@pytest.mark.parametrize(
    ("scenario", "status", "message"),
    [
        ("good", "passed", "PASS, permitted: 50 lost"),
        ("bad", "failed", "FAIL, records lost: 50 lost"),
        ("thin", "broken", "INCONCLUSIVE (scenario): 12 acks after healing on plain-1, 500 wanted"),
        ("crashed", "broken", "NO VERDICT: the harness failed: no Java"),
        ("gone", "broken", "NO VERDICT: its seal is broken"),
        ("absent", "broken", "NO VERDICT: needs root"),
        ("beside", "skipped", "NOT RUN: needs containers"),
        ("newer", "skipped", "NOT RUN: needs Kafka 5.0"),
    ],
)
def test_outcomes(results: list[Read], scenario: str, status: str, message: str) -> None:
    found = one(results, scenario)
    assert (found.status, found.message[: len(message)]) == (status, message)


def test_a_gate_that_lost_no_record_has_another_category(tmp_path: Path) -> None:
    twice = replace(lost(), kind=Kind.DUPLICATED)
    write_judged(tmp_path / "double", verdict("double", Status.FAIL, twice))
    write_allure(tmp_path / "double", tmp_path / "results")
    [found] = read_results(tmp_path / "results")
    assert category_of(found) == ["Another promise broken"]
    assert ("severity", "critical") in found.pairs("labels")


def category_of(result: Read) -> list[str]:
    """The categories that Allure finds: it compares the whole message."""
    return [
        str(one["name"])
        for one in CATEGORIES
        if result.status in cast(list[str], one["matchedStatuses"])
        and re.fullmatch(str(one["messageRegex"]), result.message)
    ]


def test_each_result_but_a_plain_pass_has_one_category(results: list[Read]) -> None:
    found = {f"{result.scenario} {result.status}": category_of(result) for result in results}
    assert found == {
        "good passed": ["Permitted"],
        "bad failed": ["Records lost"],
        "thin broken": ["Inconclusive"],
        "moody failed": ["Records lost"],
        "moody passed": [],
        "crashed broken": ["Harness or machine"],
        "gone broken": ["Harness or machine"],
        "absent broken": ["Harness or machine"],
        "beside skipped": ["Not run"],
        "newer skipped": ["Not run"],
    }


@pytest.mark.parametrize(
    ("doubts", "category"),
    [
        ((DoubtOrigin.MACHINE,), "Harness or machine"),
        ((DoubtOrigin.MACHINE, DoubtOrigin.RELEASE), "Inconclusive"),
    ],
)
def test_a_doubt_about_the_machine_alone_is_no_doubt_about_the_release(
    tmp_path: Path, doubts: tuple[DoubtOrigin, ...], category: str
) -> None:
    made = tuple(Doubt("own", "text", origin) for origin in doubts)
    write_judged(tmp_path / "thin", replace(verdict("thin", Status.INCONCLUSIVE), doubts=made))
    write_allure(tmp_path / "thin", tmp_path / "results")
    [found] = read_results(tmp_path / "results")
    assert category_of(found) == [category]


def test_each_try_is_a_result_and_the_one_that_decides_is_the_latest(results: list[Read]) -> None:
    passed, failed = [result for result in results if result.scenario == "moody"]
    assert [passed.status, failed.status] == ["passed", "failed"]
    assert passed.content["historyId"] == failed.content["historyId"]
    assert dict(failed.pairs("parameters"))["try"] == "1 of 2, which decides"
    assert dict(passed.pairs("parameters"))["try"] == "2 of 2"
    assert cast(int, failed.content["start"]) > cast(int, passed.content["stop"])
    assert all(cast(Document, result.content["statusDetails"])["flaky"] for result in (passed, failed))
    first = cast(list[Document], failed.content["steps"])[0]
    assert first["start"] == at(1.2) // 10**6  # steps keep their times


def test_histories_are_those_of_the_scenario_in_every_run(results: list[Read], tmp_path: Path) -> None:
    ids = {result.scenario: result.content["historyId"] for result in results}
    assert len(set(ids.values())) == len(ids)
    write_judged(tmp_path / "elsewhere", verdict("good", Status.PASS), 900.0)
    write_allure(tmp_path / "elsewhere", tmp_path / "results")
    [again] = read_results(tmp_path / "results")
    assert again.content["historyId"] == ids["good"]
    assert again.content["uuid"] != one(results, "good").content["uuid"]


def test_features_are_promises_and_stories_are_faults(results: list[Read]) -> None:
    labels = one(results, "bad").pairs("labels")
    features = [value for name, value in labels if name == "feature"]
    assert features == ["Nothing is lost (KIP-966).", f"lost: {Kind.LOST.meaning}"]
    assert [value for name, value in labels if name == "story"] == ["kill"]
    assert ("severity", "blocker") in labels
    assert ("severity", "critical") in one(results, "good").pairs("labels")


def test_parameters_name_release_backend_and_seed(results: list[Read]) -> None:
    assert one(results, "bad").pairs("parameters") == [
        ("release", "Kafka 4.4.0 (commit abc123)"),
        ("backend", "processes"),
        ("seed", "17"),
    ]


def test_links_lead_to_the_proposals_and_issues_that_the_scenario_names(results: list[Read]) -> None:
    links = cast(list[Document], next(r for r in results if r.scenario == "moody").content["links"])
    assert [(link["type"], link["name"]) for link in links] == [("issue", "KAFKA-12345"), ("link", "KIP-966")]
    assert str(links[0]["url"]).endswith("/browse/KAFKA-12345")


def test_the_review_page_is_linked_if_it_is_there(out: Path, tmp_path: Path) -> None:
    write_judged(tmp_path / "one", verdict("one", Status.PASS))
    write_allure(tmp_path / "one", tmp_path / "before")
    (tmp_path / "one/report").mkdir()
    (tmp_path / "one/report/index.html").write_text("")
    write_allure(tmp_path / "one", tmp_path / "after")
    [before], [after] = read_results(tmp_path / "before"), read_results(tmp_path / "after")
    pages = [
        [link["url"] for link in cast(list[Document], result.content["links"]) if link["name"] == "review page"]
        for result in (before, after)
    ]
    page = (tmp_path / "one/report/index.html").resolve().as_uri()
    assert pages == [[], [f"{page}#scenario-one"]]


def test_steps_have_their_times_and_those_of_findings_fail(results: list[Read]) -> None:
    kill, wait = cast(list[Document], one(results, "bad").content["steps"])
    assert (kill["name"], kill["status"]) == ("kill_leader (kill)", "failed")
    assert (kill["start"], kill["stop"]) == (at(1.2) // 10**6, at(1.3) // 10**6)
    assert "lost: 50 records of plain-0" in str(kill["statusDetails"])
    effect = {"name": "effect", "value": "its leader epoch rose"}
    assert effect in cast(list[Document], kill["parameters"])
    assert wait["status"] == "passed"
    assert cast(list[Document], one(results, "good").content["steps"])[0]["status"] == "passed"


def test_attachments(results: list[Read]) -> None:
    bad = one(results, "bad")
    assert [str(a["name"]) for a in bad.attachments] == [
        "summary",
        "timeline",
        "findings.csv",
        "verdict.json",
        "logs/server-1.log",
    ]
    assert json.loads(bad.attached("verdict.json"))["scenario"] == "bad"
    assert ElementTree.fromstring(bad.attached("timeline")).tag.endswith("svg")
    assert b"50 records, plain-0" in bad.attached("timeline")  # the incident
    assert b"permitted: an unclean election" in one(results, "good").attached("summary")
    assert not [a for a in one(results, "good").attachments if str(a["name"]).startswith("logs/")]


def test_a_table_of_findings_runs_no_formula(results: list[Read]) -> None:
    rows = list(csv.reader(io.StringIO(one(results, "bad").attached("findings.csv").decode())))
    assert rows == [["kind", "reason", "offset"], ["lost", "'=cmd()", "7"], ["lost", "", "-8"]]


def test_a_long_log_is_cut_at_its_begin(tmp_path: Path) -> None:
    write_judged(tmp_path / "bad", verdict("bad", Status.FAIL, lost()))
    log = tmp_path / "bad/logs/server-1.log"
    log.write_text("first\n" + "x" * LOG_BYTES_MAX + "\nlast\n", encoding="utf-8")
    write_allure(tmp_path / "bad", tmp_path / "results")
    [found] = read_results(tmp_path / "results")
    text = found.attached("logs/server-1.log").decode()
    assert text.startswith("(the last 1,000,000 of 1,000,012 bytes of server-1.log)\n")
    assert text.endswith("last\n")


def test_hostile_text_is_escaped_and_clean(folder: Path, tmp_path: Path) -> None:
    finding = replace(lost(), topic=HOSTILE, detail=HOSTILE, step=HOSTILE)
    hostile = replace(verdict("bad", Status.FAIL, finding), notes=(HOSTILE,), scenario=HOSTILE)
    write_judged(tmp_path / "bad", hostile, title=HOSTILE, property=HOSTILE, tags=[HOSTILE])
    write_allure(tmp_path / "bad", tmp_path / "results")
    [found] = read_results(tmp_path / "results")
    html = str(found.content["descriptionHtml"])
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert not [text for text in _texts(found.content) if "\x1b" in text or "\r" in text]
    assert b"\x1b" not in found.attached("logs/server-1.log")
    assert b"<script" not in found.attached("timeline")
    assert "\x1b" not in json.dumps([r.content for r in read_results(folder)], ensure_ascii=False)


def _texts(content: object) -> list[str]:
    if isinstance(content, dict):
        return [text for value in content.values() for text in _texts(value)]
    if isinstance(content, list):
        return [text for value in content for text in _texts(value)]
    return [content] if isinstance(content, str) else []


def test_the_same_evidence_replaces_its_results(out: Path, folder: Path, tmp_path: Path) -> None:
    write_allure(out, tmp_path)
    (tmp_path / "other-result.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_allure(out, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_written_is_bad_input_and_leaves_nothing(out: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"give --allure a folder"):
        write_allure(out, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failure_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offer_allure(tmp_path / "none", tmp_path / "results") == 0
    assert "there are no Allure results" in capsys.readouterr().err


def test_a_bundle_whose_table_is_damaged_keeps_the_rest(tmp_path: Path) -> None:
    write_judged(tmp_path / "bad", verdict("bad", Status.FAIL, lost()))
    (tmp_path / "bad/findings.parquet").write_bytes(b"PAR1")
    (tmp_path / "bad/steps.json").write_text("{", encoding="utf-8")
    write_allure(tmp_path / "bad", tmp_path / "results")
    [found] = read_results(tmp_path / "results")
    assert found.status == "failed"
    assert "findings.csv" not in [a["name"] for a in found.attachments]
    assert "steps.json" in str(found.content["descriptionHtml"])


def test_the_environment_is_a_properties_file(folder: Path) -> None:
    lines = (folder / "environment.properties").read_text(encoding="ascii").splitlines()
    known = dict(line.split("=", 1) for line in lines)
    assert (known["version"], known["seed"], known["source"]) == ("4.4.0", "17", "Maven Central")


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "apache/kafka",
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_NUMBER": "7",
    "GITHUB_WORKFLOW": "gate",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_JOB_URL": "https://gitlab.example/-/jobs/5",
    "CI_PIPELINE_IID": "7",
    "CI_JOB_NAME": "gate",
}
JENKINS = {
    "JENKINS_URL": "x",
    "BUILD_URL": "https://jenkins.example/job/gate/7/",
    "BUILD_NUMBER": "7",
    "JOB_NAME": "gate",
}


@pytest.mark.parametrize(
    ("variables", "kind", "url"),
    [
        (GITHUB, "github", "https://github.example/apache/kafka/actions/runs/99"),
        (GITLAB, "gitlab", "https://gitlab.example/-/jobs/5"),
        (JENKINS, "jenkins", "https://jenkins.example/job/gate/7/"),
    ],
)
def test_the_executor_is_the_ci_system(variables: dict[str, str], kind: str, url: str) -> None:
    found = executor_of(variables)
    assert found is not None
    assert (found["type"], found["buildUrl"], found["buildOrder"], found["buildName"]) == (kind, url, 7, "gate #7")


def test_there_is_no_executor_elsewhere_and_no_link_to_a_script() -> None:
    assert executor_of({"CI": "true"}) is None
    found = executor_of(JENKINS | {"BUILD_URL": "javascript:alert(1)"})
    assert found is not None
    assert "buildUrl" not in found
