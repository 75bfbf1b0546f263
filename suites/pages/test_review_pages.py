"""Review pages in a browser: nothing is requested, no script fails, axe finds nothing severe, the keyboard suffices."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import reports
from harness.model.finding import Kind
from suites.pages import examples
from suites.pages.browsing import DESKTOP, PHONE, Opened, Scheme, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

A4: Final = (794, 1123)  # the width of a sheet at 96 points an inch
MIB: Final = 1 << 20
MAKERS: Final[dict[str, Callable[[Path], Path]]] = {
    "pass": examples.passed,
    "fail": examples.failed,
    "example": examples.example,
    "inconclusive": examples.inconclusive,
    "damaged": examples.damaged,
    "hostile": examples.hostile,
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each example, by its name."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: reports.write_page(make(folder / name / "out"), pictures=True) for name, make in MAKERS.items()}


@pytest.mark.parametrize(
    ("name", "scheme", "size"),
    [
        *((name, *window) for name in MAKERS for window in (("light", DESKTOP), ("dark", PHONE))),
        ("fail", "dark", DESKTOP),
        ("fail", "light", PHONE),
    ],
)
def test_a_page_asks_for_nothing_and_everybody_can_use_it(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Scheme, size: tuple[int, int]
) -> None:
    with opened(browser, pages[name], scheme=scheme, size=size) as page:
        page.open_everything()
        assert page.errors == []
        assert page.requests == [pages[name].as_uri()]
        assert page.barriers() == []
        assert not page.scrolls_sideways
        assert page.scheme == scheme


def test_every_kind_of_finding_and_every_count_is_visible(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["fail"]) as page:
        page.open_everything()
        heads = page.page.locator("#incidents > .incident.fail .head").all_inner_texts()
        assert {head.split()[0].lower() for head in heads} == {*Kind, "late_ack"}
        for number, finding in enumerate(examples.every_kind()):
            (head,) = [head for head in heads if head.split()[0] == finding.kind.value]
            assert f"{1001 + 7 * number:,}" in head


def test_damage_is_said_and_the_rest_is_shown(browser: Browser, pages: dict[str, Path]) -> None:
    """Each damaged bundle says what it lacks; the others, and what is left of this one, are as ever."""
    said = {
        "cut": "history.json cannot be read as JSON",
        "empty": "The ledger has no rows",
        "garbled": "steps.json: [0].name is 1 and must be text",
        "stepless": "",
        "torn": "one-0.parquet is not a whole Parquet file",
        "whole": "",
    }
    with opened(browser, pages["damaged"]) as page:
        page.open_everything()
        for name, sentence in said.items():
            section = page.page.locator(f"#scenario-{name}")
            missing = " ".join(section.locator(".missing").all_inner_texts())
            assert sentence in missing
            assert bool(missing) == bool(sentence), missing
            assert ("There is no history.json" in missing) == (name == "empty")  # that of `cut` is there
            assert section.locator(".chart svg").count() == 1, name
            assert ("kill_leader" in section.inner_text()) or name == "garbled"


def test_foreign_text_is_shown_as_text_and_starts_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as page:
        page.open_everything()
        (box,) = page.page.locator(".chart").all()
        for x in (300, 500, 700, 900):  # tooltips show foreign names, too
            box.hover(position={"x": x, "y": 40})
            box.hover(position={"x": x, "y": 330})
        assert page.page.evaluate("typeof window.hacked") == "undefined"
        assert page.page.locator("body img").count() == 0
        assert page.page.locator("a[href^='javascript']").count() == 0
        shown = page.text
        assert "<img src=x onerror='window.hacked = 2'>" in shown
        assert "{{ 7 * 7 }}" in shown
        assert not [c for c in shown if not c.isprintable()]
        assert page.errors == []
        assert len(shown) < 200_000  # the lines of a megabyte are cut
    assert pages["hostile"].stat().st_size < 2 * MIB


@pytest.mark.parametrize(
    "added",
    [
        "<script>window.hacked = 1</script>",
        "<img src='x.png' onerror='window.hacked = 1'>",
        "<script src='x.js'></script>",
        "<link rel='stylesheet' href='x.css'>",
        "<iframe src='javascript:parent.hacked = 1'></iframe>",
    ],
)
def test_markup_in_the_page_could_start_and_load_nothing(
    browser: Browser, pages: dict[str, Path], tmp_path: Path, added: str
) -> None:
    """The policy of the page holds even if foreign text became markup: the browser refuses it and logs an error."""
    html = pages["pass"].read_text(encoding="utf-8")
    (tmp_path / "index.html").write_text(html.replace("<main>", f"<main>{added}"), encoding="utf-8")
    (tmp_path / "x.png").write_bytes(b"no picture")
    (tmp_path / "x.js").write_text("window.hacked = 1", encoding="utf-8")
    (tmp_path / "x.css").write_text("h1 { display: none }", encoding="utf-8")
    with opened(browser, tmp_path / "index.html") as page:
        page.open_everything()
        assert page.page.evaluate("typeof window.hacked") == "undefined"
        assert [error for error in page.errors if "Content Security Policy" in error]
        assert page.page.locator("h1").is_visible()
        assert page.page.locator("#scenario-calm .chart svg").count() == 1  # its own scripts run


def test_the_keyboard_opens_a_scenario_and_zooms(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["pass"]) as page:
        keys, focused = page.page.keyboard, page.page.locator(":focus")

        def tab_to(words: str) -> None:
            for _ in range(60):
                keys.press("Tab")
                if words in focused.inner_text():
                    return
            raise AssertionError(f"no Tab leads to {words}")

        tab_to("Scenarios (2)")
        assert page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        keys.press("Enter")
        tab_to("calm")
        assert not page.page.locator("#scenario-calm .steps").is_visible()
        keys.press("Enter")
        page.page.locator("#scenario-calm .chart svg").wait_for()
        assert _zoomed(page) == (0, 100)
        tab_to("kill_leader")
        keys.press("Enter")
        page.page.wait_for_function(f"{_ZOOM}.start > 1")
        first, last = _zoomed(page)
        assert 0 < first < last
        keys.press("Shift+Tab")
        keys.press("Enter")
        page.page.wait_for_function(f"{_ZOOM}.start === 0")


_ZOOM: Final = "echarts.getInstanceByDom(document.querySelector('#scenario-calm .chart')).getOption().dataZoom[0]"


def _zoomed(page: Opened) -> tuple[float, float]:
    """The part of the run that the chart shows, in percent."""
    shown = page.page.evaluate(_ZOOM)
    return shown["start"], shown["end"]


def test_a_printed_page_fits_on_its_sheets(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["fail"], size=A4) as page:
        page.page.emulate_media(media="print")
        page.open_everything()
        assert not page.scrolls_sideways
        assert not page.page.locator("nav").is_visible()
        assert page.page.locator("h1").is_visible()
        assert page.page.locator("#scenario-broken .chart svg").is_visible()
        sheets = len(re.findall(rb"/Type\s*/Page\b", page.page.pdf(format="A4")))
        assert 3 <= sheets <= 30


def test_a_page_of_200_scenarios_opens_fast(
    browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The time is printed and recorded: it depends on the machine. The size and the number of elements do not."""
    path = reports.write_page(examples.many(tmp_path / "out"))
    with opened(browser, path) as page:
        page.page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        painted = page.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        record_property("first_paint_ms", round(painted))
        print(f"first paint of {examples.MANY} scenarios after {painted:.0f} ms; {page.nodes:,} elements")
        assert page.page.locator("details.scenario").count() == examples.MANY
        assert page.nodes < 60_000
        assert page.errors == []
        assert page.requests == [path.as_uri()]
        assert page.barriers(contrast=False) == []  # its colours are those of the other pages
        last = page.page.locator("#scenario-scenario_199")
        last.locator("summary").first.click()
        last.locator(".chart svg").wait_for()
    with opened(browser, path, size=PHONE) as page:
        assert not page.scrolls_sideways
    assert path.stat().st_size < 5_000_000


def test_a_link_to_a_scenario_opens_it(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["pass"]) as page:
        page.page.locator("#matrix summary").click()
        page.page.locator("#matrix td.pass a[href='#scenario-calm']").first.click()
        page.page.locator("#scenario-calm .steps").wait_for()
        assert page.page.locator("#scenario-calm").evaluate("(one) => one.open")
        assert page.errors == []
