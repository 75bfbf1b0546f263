"""The matrix of contracts in a browser: its search, its links, and what holds for every page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reports
from harness.evidence.layout import REPORT
from harness.evidence.matrix import MATRIX, read_matrix
from harness.model.verdict import Status
from reports.matrix import PAGE
from suites.pages import examples
from suites.pages.browsing import DESKTOP, PHONE, Opened, Scheme, opened
from suites.unit.evidence_examples import verdict

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SHIPPED = Path(__file__).parents[2] / "harness" / "model" / "contract" / "matrix.json"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The matrix that this package ships, with one of its scenarios as evidence beside it."""
    out = tmp_path_factory.mktemp("matrix") / "out"
    scenario = read_matrix(SHIPPED).cells[0].scenario
    examples.gate(out, examples.in_fault(verdict(scenario, Status.PASS)))
    shutil.copy(SHIPPED, out / MATRIX)
    reports.write_page(out)
    return out / REPORT


def rows(page: Opened) -> int:
    """How many rows are visible. Those of the summaries at the top do not count."""
    visible: int = page.page.locator("tr[data-event]:not([data-repeated]):visible").count()
    return visible


@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)])
def test_the_matrix_asks_for_nothing_and_everybody_can_use_it(
    browser: Browser, site: Path, scheme: Scheme, size: tuple[int, int]
) -> None:
    with opened(browser, site / PAGE, scheme=scheme, size=size) as page:
        assert page.errors == []
        assert page.requests == [(site / PAGE).as_uri()]
        assert page.barriers() == []
        assert not page.scrolls_sideways
        assert page.scheme == scheme


def test_each_word_of_the_search_filters_rows_by_settings_and_event(browser: Browser, site: Path) -> None:
    with opened(browser, site / PAGE) as page:
        field, said = page.page.get_by_role("searchbox", name="Search settings"), page.page.get_by_role("status")
        every = len(read_matrix(SHIPPED).cells)
        assert rows(page) == every
        assert said.inner_text() == f"{every} rows"
        field.fill("acks=1")
        some = rows(page)
        assert 0 < some < every
        assert said.inner_text() == f"{some} of {every} rows"
        field.fill("ACKS=1 leader_dies")
        fewer = rows(page)
        assert 0 < fewer < some
        assert all(
            "acks=1" in text for text in page.page.locator("section:visible tr[data-event]:visible").all_inner_texts()
        )
        heads = page.page.locator("section[data-rows]:visible h2[id]").evaluate_all("(all) => all.map((one) => one.id)")
        assert [head for head in heads if "leader_dies" not in head] == []
        field.fill("acks=1 no such word")
        assert rows(page) == 0
        assert said.inner_text() == f"0 of {every} rows"
        field.fill("")
        assert rows(page) == every


def test_the_search_is_reached_and_left_by_keyboard(browser: Browser, site: Path) -> None:
    with opened(browser, site / PAGE) as page:
        keys = page.page.keyboard
        keys.press("Tab")
        keys.press("Tab")
        assert page.page.locator(":focus").get_attribute("id") == "search"
        keys.type("idempotent")
        assert 0 < rows(page) < len(read_matrix(SHIPPED).cells)
        keys.press("Escape")
        assert rows(page) == len(read_matrix(SHIPPED).cells)
        keys.press("Tab")
        assert page.page.locator(":focus").get_attribute("id") != "search"


def test_both_pages_lead_to_each_other(browser: Browser, site: Path) -> None:
    scenario = read_matrix(SHIPPED).cells[0].scenario
    with opened(browser, site / "index.html") as page:
        page.page.get_by_role("link", name="Matrix of contracts").click()
        page.page.wait_for_url("**/contracts.html")
        page.page.locator(f"a[href='index.html#scenario-{scenario}']").first.click()
        page.page.locator(f"#scenario-{scenario} .steps").wait_for()
        assert page.errors == []
        assert page.requested_elsewhere == []


def test_foreign_text_in_the_matrix_starts_nothing(browser: Browser, site: Path, tmp_path: Path) -> None:
    html = (site / PAGE).read_text(encoding="utf-8")
    (tmp_path / PAGE).write_text(html.replace("<main>", "<main><script>window.hacked = 1</script>"), encoding="utf-8")
    with opened(browser, tmp_path / PAGE) as page:
        assert page.page.evaluate("typeof window.hacked") == "undefined"
        assert [error for error in page.errors if "Content Security Policy" in error]
        page.page.get_by_role("searchbox").fill("acks=1")
        assert 0 < rows(page) < len(read_matrix(SHIPPED).cells)


def test_without_scripts_every_row_is_shown_and_no_search(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / PAGE).as_uri())
    assert page.locator("tr[data-event]:not([data-repeated])").count() == len(read_matrix(SHIPPED).cells)
    assert not page.locator("#search").is_visible()
    context.close()
