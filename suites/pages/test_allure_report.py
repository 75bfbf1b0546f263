"""The Allure report in a real browser: it shows the verdicts, runs no text of the evidence, and requests nothing.

The browser's own log of its network counts the requests, and a proxy that does not exist stands for the world outside.
Pages that do request something show that the log has it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from fixtures.plugin import MissingCapability
from harness.model.verdict import Status
from reports.allure.html import write_html
from reports.review import write_page
from suites.unit.evidence_examples import lost, verdict
from suites.unit.reports.allure_examples import write_judged, write_out

_PROGRAMS: Final = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
_NO_PROXY: Final = "http://127.0.0.1:9"  # no program listens there, so that nothing reaches the outside
_BROWSER: Final = "not an origin"  # begins requests of the browser itself, such as those for updates
HOSTILE: Final = (
    "<img src=http://outside.test/a.png onerror=\"document.title='run'\"><script>document.title='run'</script>"
)
# Parts of the report, as their addresses name them.
VIEWS: Final = ("", "#categories", "#suites", "#behaviors", "#graph", "#timeline", "#packages")


@pytest.fixture(scope="session")
def program(missing_capability: MissingCapability) -> str:
    found = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        missing_capability(f"there is no browser ({', '.join(_PROGRAMS)}): apt-get install chromium")
    return found


def opened(program: str, address: str, folder: Path) -> tuple[str, list[str]]:
    """Opens an address. Returns the page as it is after 8 s of its own time, and what it requested over the network.

    folder: for the files of the browser.
    """
    log = folder / "network.json"
    command = [
        program,
        "--headless",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        f"--proxy-server={_NO_PROXY}",
        "--proxy-bypass-list=<-loopback>",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--virtual-time-budget=8000",
        "--dump-dom",
        address,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout, requests_in(log)


def requests_in(log: Path) -> list[str]:
    """The addresses that pages requested, or connected to in advance."""
    content = json.loads(log.read_text(encoding="utf-8"))
    kinds = {number: name for name, number in content["constants"]["logEventTypes"].items()}
    found = []
    for event in content["events"]:
        kind, said = kinds[event["type"]], event.get("params", {})
        requested = kind == "URL_REQUEST_START_JOB" and said.get("initiator", _BROWSER) != _BROWSER
        if requested or (kind == "HTTP_STREAM_JOB_CONTROLLER" and said.get("is_preconnect")):
            found.append(str(said["url"]))
    return [address for address in found if address.startswith(("http", "ws"))]


@pytest.fixture(scope="module")
def report(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a gate with every outcome, and with a scenario that has hostile text everywhere."""
    folder = tmp_path_factory.mktemp("report")
    write_out(folder / "out")
    bad = verdict("hostile", Status.FAIL, lost())
    write_judged(folder / "hostile", bad, title=HOSTILE, property=HOSTILE, tags=[HOSTILE])
    write_page(folder / "hostile")
    return write_html([folder / "out", folder / "hostile"], folder / "page")


@pytest.mark.parametrize("view", VIEWS)
def test_the_report_requests_nothing(program: str, report: Path, tmp_path: Path, view: str) -> None:
    page, asked = opened(program, f"{report.as_uri()}{view}", tmp_path)
    assert asked == []
    assert "Allure" in page
    assert "<title>run</title>" not in page


@pytest.mark.parametrize(
    "page",
    [
        '<script async src="http://www.outside.test/gtag/js"></script>',
        '<img src="https://outside.test/a.png">',
        "<script>fetch('http://outside.test/data.json')</script>",
        '<style>@import "http://outside.test/a.css";</style>',
        '<iframe src="http://outside.test/"></iframe>',
        '<link rel="preconnect" href="https://outside.test">',
        "<script>new WebSocket('ws://outside.test/x')</script>",
        "<script>navigator.sendBeacon('http://outside.test/b')</script>",
    ],
)
def test_a_page_that_requests_something_is_found(program: str, tmp_path: Path, page: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><title>x</title>{page}", encoding="utf-8")
    _, asked = opened(program, file.as_uri(), tmp_path)
    assert [address for address in asked if "outside.test" in address]


def test_it_shows_categories_with_their_counts(program: str, report: Path, tmp_path: Path) -> None:
    page, _ = opened(program, f"{report.as_uri()}#categories", tmp_path)
    for category in ("Records lost", "Inconclusive", "Harness or machine", "Permitted", "Not run"):
        assert category in page


def test_it_shows_hostile_text_as_text(program: str, report: Path, tmp_path: Path) -> None:
    page, asked = opened(program, f"{report.as_uri()}#behaviors", tmp_path)
    assert asked == []
    assert "&lt;img src=http://outside.test" in page
    assert "<img src=http://outside.test" not in page


def test_a_result_shows_hostile_text_as_text_and_links_to_the_review_page(
    program: str, report: Path, tmp_path: Path
) -> None:
    page, asked = opened(program, f"{report.as_uri()}#testresult/{_hostile(report)}", tmp_path)
    assert asked == []
    assert "<title>run</title>" not in page
    assert "&lt;img src=http://outside.test" in page
    assert "<img src=http://outside.test" not in page
    assert 'href="../hostile/report/index.html#scenario-hostile"' in page
    assert "findings.csv" in page


def _hostile(report: Path) -> str:
    """Allure's id of the result with hostile text, from the data in the page."""
    for number, data in re.findall(r"'data/test-cases/(\w+)\.json','([^']*)'", report.read_text(encoding="utf-8")):
        content = json.loads(base64.b64decode(data))
        if HOSTILE in content["name"] and not content["hidden"]:
            return str(number)
    raise AssertionError("no result has the hostile text")


def test_a_second_report_has_the_trend_of_the_first(program: str, report: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(report.parent, folder)
    write_judged(tmp_path / "good", verdict("good", Status.PASS))
    page = write_html([tmp_path / "good"], folder)
    assert (folder / "history/history.json").read_text(encoding="utf-8").count('"status"') > 1
    assert opened(program, page.as_uri(), tmp_path)[1] == []
