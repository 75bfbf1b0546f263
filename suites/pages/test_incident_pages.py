"""Pages of incidents in a browser: nothing is requested, everybody can use them, and they can be printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import reports
from harness.evidence.history import write_history
from suites.pages import examples
from suites.pages.browsing import DESKTOP, PHONE, Opened, Scheme, opened
from suites.unit.reports.incident_examples import bundle_with, lost
from suites.unit.reports.timeline_examples import history, led, position, send, write_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EPOCHS: Final = 12  # as many as make a legend of several lines
A4: Final = 700
# The texts of the legend of a chart, and where its plot begins, in pixels of the page.
_LEGEND: Final = """(box) => {
  const chart = echarts.getInstanceByDom(box);
  const names = chart.getOption().legend.flatMap((one) => one.data);
  const frame = box.getBoundingClientRect();
  const texts = [...box.querySelectorAll("svg text")].filter((one) => names.includes(one.textContent));
  const places = texts.map((one) => one.getBoundingClientRect());
  const top = chart.convertToPixel({ yAxisIndex: chart.getOption().yAxis.length - 1 }, chart.getModel()
    .getComponent("yAxis", chart.getOption().yAxis.length - 1).axis.scale.getExtent()[1]);
  return {
    names,
    shown: texts.map((one) => one.textContent),
    left: Math.min(...places.map((one) => one.left - frame.left)),
    right: Math.max(...places.map((one) => one.right - frame.right)),
    bottom: Math.max(...places.map((one) => one.bottom - frame.top)) - top,
    width: frame.width,
  };
}"""


# Where the label of a fault begins, where the dark part before it ends, and whether the label is drawn after it.
_LABEL: Final = """(box, label) => {
  const dark = [...box.querySelectorAll("svg path")].find((one) => one.getAttribute("fill") === "#6d0f18");
  const text = [...box.querySelectorAll("svg text")].find((one) => one.textContent === label);
  const left = box.getBoundingClientRect().left;
  return {
    label: text.getBoundingClientRect().left - left,
    injection: dark.getBoundingClientRect().right - left,
    is_above: Boolean(dark.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING),
  };
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of an incident, by its name."""
    folder = tmp_path_factory.mktemp("incidents")
    plain = bundle_with(folder / "plain", lost(100, 50))
    many = bundle_with(folder / "many", lost(100, 50))
    changes = [led(number / 4, 1 + number % 2, number, (1, 2)) for number in range(EPOCHS)]
    write_history(many, history(*changes))
    acked = [{**send(number / 4 + 0.1, 0.01), "offset": 150 + number, "stream": 4} for number in range(EPOCHS)]
    write_table(many, "ledger", acked, part="epochs-0")
    ends = [position(2.5, broker, 150) for broker in range(1, 7)]
    write_table(many, "positions", ends, part="brokers-0")
    hostile = bundle_with(folder / "hostile", lost(100, 50, detail=examples.HOSTILE, contract=examples.HOSTILE))
    found = {}
    for bundle in (plain, many, hostile):
        reports.write_page(bundle)
        (found[bundle.name],) = (bundle / "report").glob("incident-*.html")
    return found


def drawn(page: Opened) -> None:
    """Waits for both pictures."""
    page.page.locator(".picture .chart svg").nth(1).wait_for()


def legend(page: Opened) -> dict[str, Any]:
    """The legend of the picture by time."""
    found: dict[str, Any] = page.page.locator(".picture[data-by=time] .chart").evaluate(_LEGEND)
    return found


@pytest.mark.parametrize("name", ["plain", "many", "hostile"])
@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE), ("light", PHONE), ("dark", DESKTOP)])
def test_a_page_of_an_incident_asks_for_nothing_and_everybody_can_use_it(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Scheme, size: tuple[int, int]
) -> None:
    with opened(browser, pages[name], scheme=scheme, size=size) as page:
        drawn(page)
        page.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.errors == []
        assert page.requests == [pages[name].as_uri()]
        assert page.barriers() == []
        assert not page.scrolls_sideways
        assert page.scheme == scheme
        assert page.page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_legend_is_shown_whole_above_its_chart(
    browser: Browser, pages: dict[str, Path], size: tuple[int, int]
) -> None:
    with opened(browser, pages["many"], size=size) as page:
        drawn(page)
        found = legend(page)
        assert len(found["names"]) > EPOCHS
        assert sorted(found["shown"]) == sorted(found["names"])
        assert found["left"] >= 0
        assert found["right"] <= 0
        assert found["bottom"] <= 0


def test_a_printed_page_of_an_incident_has_its_whole_legend(browser: Browser, pages: dict[str, Path]) -> None:
    """The charts get the width of the sheet, and their own again afterwards."""
    with opened(browser, pages["many"]) as page:
        drawn(page)
        before = legend(page)
        page.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        printed = legend(page)
        assert printed["width"] <= A4 < before["width"]
        assert sorted(printed["shown"]) == sorted(before["names"])
        assert printed["right"] <= 0
        assert printed["bottom"] <= 0
        page.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert legend(page) == before
        assert page.errors == []


def test_the_label_of_a_fault_is_right_of_its_injection_and_above_it(browser: Browser, pages: dict[str, Path]) -> None:
    """The injection would hide the begin of the word."""
    with opened(browser, pages["plain"]) as page:
        drawn(page)
        found = page.page.locator(".picture[data-by=time] .chart").evaluate(_LABEL, "kill")
        assert found["label"] > found["injection"] >= 0
        assert found["is_above"]


def test_the_order_is_that_of_questions_and_the_rows_are_folded(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["plain"]) as page:
        parts = page.page.locator("main > section").evaluate_all("(all) => all.map((one) => one.id)")
        assert parts == ["history", "cause", "logs", "again", "log", "records"]
        table = page.page.locator("#records table.records")
        assert not table.is_visible()
        assert page.page.locator("#records a[download]").first.is_visible()
        page.page.locator("#records summary").first.click()
        assert table.is_visible()
        legend = page.page.locator("#records dl.legend dt").all_inner_texts()
        assert legend == page.page.locator("#records th").all_inner_texts()


def test_moments_of_the_records_are_in_the_legend(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["plain"]) as page:
        drawn(page)
        assert "acknowledged" in legend(page)["shown"]


def test_heads_of_the_table_of_records_are_not_broken_within_words(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["plain"], size=PHONE) as page:
        page.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        heads = page.page.locator("#records th").evaluate_all("(all) => all.map((one) => one.offsetHeight)")
        assert max(heads) < 50
