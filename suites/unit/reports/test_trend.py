"""The history of gates on terminal and page, and FLAKY: different verdicts on one release."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import reports
from harness.evidence.gate import read_gate
from harness.evidence.past_runs import append, past_gates
from harness.model.documents.manifest import NamedRelease
from harness.model.verdict import Status
from reports.summary import FLAKY
from reports.trend import chosen, history_document, points, steadiness
from suites.unit.evidence.test_past_runs import appended, gate
from suites.unit.reports.test_review import Text

OTHER = NamedRelease(version="4.3.1", commit="abcdef0123", source="a build")


def words(file: Path) -> list[tuple[str, str, str]]:
    return [(one.scenario, one.word, one.detail) for one in steadiness(past_gates(file))]


def test_runs_of_one_release_with_different_verdicts_are_flaky_and_those_of_two_releases_are_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "h"
    appended(file, gate(tmp_path / "a", Status.PASS))
    appended(file, gate(tmp_path / "b", Status.FAIL, number=1, release=OTHER))
    assert words(file) == [
        *(("x", "PASS", "1 PASS"), ("x", "FAIL", "1 FAIL")),
        *(("y", "PASS", "1 PASS"), ("y", "PASS", "1 PASS")),
    ]
    appended(file, gate(tmp_path / "c", Status.INCONCLUSIVE, number=2))
    assert words(file)[0] == ("x", FLAKY, "1 PASS, 1 INCONCLUSIVE")
    assert [word for _, word, _ in words(file)].count(FLAKY) == 1


def test_tries_of_one_gate_count_too(tmp_path: Path) -> None:
    appended(tmp_path / "h", gate(tmp_path / "a", Status.INCONCLUSIVE, Status.PASS))
    assert words(tmp_path / "h") == [("x", FLAKY, "1 PASS, 1 INCONCLUSIVE"), ("y", "PASS", "1 PASS")]


def test_release_and_scenario_choose_what_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "h"
    appended(file, gate(tmp_path / "a", Status.INCONCLUSIVE, Status.PASS))
    appended(file, gate(tmp_path / "b", Status.PASS, number=1, release=OTHER))
    gates = past_gates(file)
    assert [len(chosen(gates, release)) for release in ("4.3.1", "abcdef0", "abc", "4.3")] == [2, 1, 0, 0]
    assert [p.covers for p in points(chosen(gates, scenario="x"), by_run=True)] == ["x", "x, try 2", "x"]
    assert chosen(gates, scenario="z") == ()
    document = history_document(gates)
    assert isinstance(document["scenarios"], list)
    assert [one["flaky"] for one in document["scenarios"]] == [True, False, False, False]


@pytest.mark.parametrize(
    ("statuses", "flaky"),
    [
        ((Status.INCONCLUSIVE, Status.PASS), True),
        ((Status.PASS, Status.FAIL), True),
        ((Status.INCONCLUSIVE, Status.INCONCLUSIVE), False),
        ((Status.PASS,), False),
    ],
)
def test_flaky_is_a_word_of_terminal_page_and_junit_and_changes_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], statuses: tuple[Status, ...], flaky: bool
) -> None:
    out = gate(tmp_path / "out", *statuses)
    reports.publish(out)
    shown = capsys.readouterr().out
    (x, _) = read_gate(out).results
    assert x.flaky is flaky
    assert x.status is (Status.FAIL if Status.FAIL in statuses else statuses[-1])
    page = Text((out / "report" / "index.html").read_text(encoding="utf-8")).text
    suite = ElementTree.parse(out / "junit.xml").getroot()
    (case,) = (one for one in suite.iter("testcase") if one.get("name") == "x")
    said = [FLAKY in text for text in (shown, page, case.findtext("system-out") or "")]
    assert said == [flaky] * 3
    assert [p.get("value") for p in suite.iter("property") if p.get("name") == FLAKY] == (["x"] if flaky else [])
    assert f"{FLAKY}, as tries on this release have different verdicts: x\n" in shown or not flaky


def test_the_chart_has_the_figures_of_gates_and_scenarios_and_no_text_ends_its_data(tmp_path: Path) -> None:
    file = tmp_path / "h"
    hostile = NamedRelease(version="</script><script>alert(1)</script>", commit="c", source="s")
    appended(file, gate(tmp_path / "a", Status.INCONCLUSIVE, Status.PASS))
    appended(file, gate(tmp_path / "b", Status.FAIL, number=1, release=hostile))
    html = reports.write_page(tmp_path / "b", history=file).read_text(encoding="utf-8")
    assert "<script>alert" not in html
    (text,) = re.findall(r'<script type="application/json" id="trend-data">(.*?)</script>', html, re.DOTALL)
    drawn = json.loads(text)
    assert [one["verdict"] for one in drawn["gates"]] == ["PASS", "FAIL"]
    assert [one["runs"]["x"]["figures"]["ack_p99_during_ms"] for one in drawn["gates"]] == [101.0, 100.0]
    assert drawn["gates"][1]["release"] == hostile.version
    assert drawn["scenarios"] == ["x", "y"]


def test_the_page_shows_the_last_gates_and_flaky_scenarios(tmp_path: Path) -> None:
    file, out = tmp_path / "h", gate(tmp_path / "out", Status.PASS, number=1)
    appended(file, gate(tmp_path / "<b>", Status.INCONCLUSIVE))
    append(file, out, read_gate(out))
    html = reports.write_page(out, history=file).read_text(encoding="utf-8")
    text = Text(html).text
    assert "Flaky scenarios: 1 x FLAKY on 4.3.1: 1 PASS, 1 INCONCLUSIVE in 2 runs" in text
    assert text.count("2 of 2") == 2
    assert "<b>" not in html
    assert "Trend" not in Text(reports.write_page(out).read_text(encoding="utf-8")).text
