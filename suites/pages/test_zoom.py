"""A reader zooms into a timeline: the chart loads files beside the page, and shows what the tables have."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest

import reports
from harness.model.verdict import Status
from reports.policy import script
from reports.review import details, levels
from reports.review import page as review_page
from suites.pages import examples
from suites.pages.browsing import Opened, opened
from suites.unit.evidence_examples import verdict
from suites.unit.reports.timeline_examples import START_NS, Row, read, send, write_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

ROWS: Final = 6_000
LENGTH_S: Final = 60.0
NS: Final = 10**9


def sends() -> list[Row]:
    """A hundred a second for a minute; each took another time, and every 50th has another outcome."""
    outcomes = {0: "unknown", 25: "refused"}
    return [
        {
            **send(i / 100, 0.002 + (i * 7919 % 1000) / 10_000, outcomes.get(i % 50, "acked")),
            "stream": i % 3,
            "seq": i // 3,
            "partition": i % 2,
            "offset": None if i % 25 == 0 else i // 2,
            "error": "_TIMED_OUT <b>late</b>" if i % 50 == 0 else None,
        }
        for i in range(ROWS)
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gate with one scenario of a minute."""
    folder = examples.gate(tmp_path_factory.mktemp("zoom") / "out", examples.in_fault(verdict("calm", Status.PASS)))
    write_table(folder / "calm", "ledger", sends(), part="two-0")
    reads = [{**read(i / 50 + 0.0105), "reader": f"r{i % 2}", "offset": i} for i in range(ROWS // 2)]
    write_table(folder / "calm", "observations", reads, part="two-0")
    return folder


@pytest.fixture(scope="module")
def page(out: Path) -> Path:
    return reports.write_page(out)


def rows_of(out: Path, table: str, at: str, from_s: float, to_s: float) -> list[dict[str, Any]]:
    """The rows with a time of this part of the run, in the order of time."""
    found = [row for part in (out / "calm" / table).glob("*.parquet") for row in pq.read_table(part).to_pylist()]
    since = [row for row in found if row[at] is not None and from_s <= (row[at] - START_NS) / NS < to_s]
    return sorted(since, key=lambda row: row[at])


def timeline(page: Opened) -> Locator:
    found = page.page.locator("#scenario-calm .timeline")
    found.scroll_into_view_if_needed()
    found.locator(".chart svg").wait_for()
    return found


def zoom(chart: Locator, from_s: float, to_s: float) -> None:
    """As the slider does; waits until the chart says what it shows."""
    said = chart.locator("[role=status]")
    before = said.inner_text()
    action = {"type": "dataZoom", "dataZoomIndex": 0, "startValue": from_s, "endValue": to_s}
    chart.locator(".chart").evaluate(f"(one) => echarts.getInstanceByDom(one).dispatchAction({json.dumps(action)})")
    chart.page.wait_for_function(
        "([one, before]) => one.textContent !== before", arg=[said.element_handle(), before], timeout=10_000
    )


def table(chart: Locator, number: int) -> list[list[str]]:
    """The cells of a table of operations."""
    rows = chart.locator("table.operations").nth(number).locator("tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def series(chart: Locator, name: str) -> list[list[float]]:
    """The points of a curve, with the values that are there."""
    found = chart.locator(".chart").evaluate(
        "(one, name) => echarts.getInstanceByDom(one).getOption().series.find((of) => of.name === name)?.data ?? []",
        name,
    )
    return [point for point in found if point[1] is not None]


def test_single_operations_are_shown_as_the_tables_have_them(browser: Browser, out: Path, page: Path) -> None:
    with opened(browser, page) as shown:
        chart = timeline(shown)
        assert chart.locator("[role=status]").inner_text() == "One point is 200 ms. Zoom in for single operations."
        assert shown.requests == [page.as_uri()]
        zoom(chart, 20.0, 20.5)
        assert chart.locator("[role=status]").inner_text() == "One point is 2 ms, counted from single operations."
        sent = rows_of(out, "ledger", "returned_ns", 20.0, 20.5)
        reads = rows_of(out, "observations", "given_ns", 20.0, 20.5)
        of = {name: sum(row["outcome"] == name for row in sent) for name in ("acked", "refused", "unknown")}
        assert min(of.values()) > 0
        summary = chart.locator("details summary").first
        assert summary.inner_text() == (
            f"In view: {of['acked']} acked, {of['refused']} refused, {of['unknown']} unknown, {len(reads)} live reads"
        )
        summary.click()
        chart.locator("table.operations").nth(1).wait_for()
        expected = [
            [
                f"{(row['returned_ns'] - START_NS) / NS:.9f}",
                f"{(row['returned_ns'] - row['called_ns']) / 1e6:.6f}",
                row["outcome"],
                f"plain-{row['partition']}",
                "" if row["offset"] is None else str(row["offset"]),
                str(row["stream"]),
                str(row["seq"]),
                row["error"] or "",
            ]
            for row in sent
        ]
        assert table(chart, 0) == expected
        assert table(chart, 1) == [
            [f"{(row['given_ns'] - START_NS) / NS:.9f}", row["reader"], "plain-0", str(row["offset"])] for row in reads
        ]
        acked = [(row["returned_ns"] - START_NS, row["returned_ns"] - row["called_ns"]) for row in sent]
        drawn = series(chart, "single acks") + series(chart, "single errors")
        assert sorted((round(at * NS), round(took * 1e6)) for at, took in drawn) == sorted(acked)
        assert shown.errors == []
        assert shown.requests[1:] == [page.parent.joinpath("scenario-calm", "operations-0.js").as_uri()]
        assert shown.barriers() == []


def test_the_pointer_names_the_operations_under_it(browser: Browser, out: Path, page: Path) -> None:
    with opened(browser, page) as shown:
        chart = timeline(shown)
        zoom(chart, 20.0, 20.5)
        row = rows_of(out, "ledger", "returned_ns", 20.2, 20.3)[0]
        box = chart.locator(".chart")
        at = (row["returned_ns"] - START_NS) / NS
        x = box.evaluate(f"(one) => echarts.getInstanceByDom(one).convertToPixel({{ xAxisIndex: 1 }}, {at})")
        y = box.evaluate("(one) => echarts.getInstanceByDom(one).getOption().grid[1].top + 30")
        box.hover(position={"x": x, "y": y})
        took = (row["returned_ns"] - row["called_ns"]) / 1e6
        told = box.locator("div", has_text=f"{row['outcome']}: plain-{row['partition']}").last
        told.wait_for()
        where = "" if row["offset"] is None else f", offset {row['offset']}"
        assert told.inner_text().startswith(f"{row['outcome']}: plain-{row['partition']}{where}, after {took:.3g} ms")


def test_counts_and_percentiles_of_a_wider_part_are_exact(browser: Browser, out: Path, page: Path) -> None:
    """Too many operations to be drawn one by one are counted exactly all the same."""
    with opened(browser, page) as shown:
        chart = timeline(shown)
        zoom(chart, 5.0, 29.0)
        assert "One point is 100 ms" in chart.locator("[role=status]").inner_text()
        sent = rows_of(out, "ledger", "returned_ns", 10.0, 20.0)
        by_bucket: dict[int, list[int]] = {}
        for row in sent:
            if row["outcome"] == "acked":
                by_bucket.setdefault((row["returned_ns"] - START_NS) // 10**8, []).append(
                    row["returned_ns"] - row["called_ns"]
                )
        rates = {round(at * 10 - 0.5): rate for at, rate in series(chart, "acks") if 10 < at < 20}
        assert rates == {bucket: len(of) * 10 for bucket, of in by_bucket.items()}
        for name, share in (("p50", 50), ("p99", 99)):
            figures = {round(at * 10 - 0.5): took for at, took in series(chart, name) if 10 < at < 20}
            assert figures == {
                bucket: sorted(of)[max(1, -(-len(of) * share // 100)) - 1] / 1e6 for bucket, of in by_bucket.items()
            }
        assert series(chart, "single acks") == []
        assert shown.errors == []


def test_buttons_zoom_and_move_without_a_mouse(browser: Browser, page: Path) -> None:
    with opened(browser, page) as shown:
        chart = timeline(shown)
        status = chart.locator("[role=status]")
        button = chart.get_by_role("button", name="zoom in")
        button.focus()
        for _ in range(3):
            shown.page.keyboard.press("Enter")
        status.filter(has_text="counted from single operations").wait_for()
        summary = chart.locator("details summary").first
        first = summary.inner_text()
        chart.get_by_role("button", name="later").press("Enter")
        shown.page.wait_for_function(
            "([one, first]) => one.querySelector('details summary')?.textContent !== first",
            arg=[chart.element_handle(), first],
        )
        chart.get_by_role("button", name="whole run").press("Enter")
        status.filter(has_text="One point is 200 ms.").wait_for()
        assert chart.locator("details").count() == 0
        assert shown.errors == []


def test_a_long_run_has_levels_between(
    browser: Browser, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits as for a run that is a thousand times as long."""
    monkeypatch.setattr(levels, "ROWS_OF_PAGE", 1_000)
    monkeypatch.setattr(details, "FILE_ROWS", 100)
    monkeypatch.setattr(
        review_page, "script", lambda name: re.sub(r"OPERATIONS_MOST = [\d_]+", "OPERATIONS_MOST = 600", script(name))
    )
    copy = shutil.copytree(out, tmp_path / "out")
    path = reports.write_page(copy)
    with opened(browser, path) as shown:
        chart = timeline(shown)
        zoom(chart, 10.0, 24.0)
        assert chart.locator("[role=status]").inner_text() == "One point is 25 ms; zoom in for single operations."
        sent = rows_of(copy, "ledger", "returned_ns", 10.0, 24.0)
        acked = sum(row["outcome"] == "acked" for row in sent)
        rates = [rate * 0.025 for at, rate in series(chart, "acks") if 10 < at < 24]
        assert round(sum(rates)) == acked
        zoom(chart, 12.0, 12.4)
        assert "counted from single operations" in chart.locator("[role=status]").inner_text()
        assert shown.errors == []
        assert not shown.requested_elsewhere


def test_a_page_alone_says_that_its_files_are_missing(browser: Browser, page: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(page, tmp_path / "index.html"))
    with opened(browser, alone) as shown:
        chart = timeline(shown)
        zoom(chart, 20.0, 20.5)
        assert chart.locator("[role=status]").inner_text() == (
            "Single operations cannot be shown: scenario-calm/operations-0.js is not beside this page."
        )
        assert series(chart, "acks")  # the counts of the page itself
        assert [error for error in shown.errors if "operations-0.js" not in error and "ERR_FILE" not in error] == []


def test_files_of_another_page_are_not_taken_for_its_own(browser: Browser, page: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(page.parent, tmp_path / "report")
    file = copy / "scenario-calm" / "operations-0.js"
    file.write_text(re.sub(r'"\w{12}"', '"000000000000"', file.read_text("ascii"), count=1), encoding="ascii")
    with opened(browser, copy / "index.html") as shown:
        chart = timeline(shown)
        zoom(chart, 20.0, 20.5)
        assert "operations-0.js belongs to another page" in chart.locator("[role=status]").inner_text()
        assert chart.locator("details").count() == 0


def test_hostile_text_in_operations_is_text(browser: Browser, tmp_path: Path) -> None:
    out = examples.hostile(tmp_path / "out")
    row = {**send(1.0, 0.2, "unknown", topic=examples.HOSTILE), "error": examples.HOSTILE}
    write_table(out / "hostile", "ledger", [row], part="three-0")
    page = reports.write_page(out)
    with opened(browser, page) as shown:
        chart = shown.page.locator("#scenario-hostile .timeline")
        chart.scroll_into_view_if_needed()
        chart.locator(".chart svg").wait_for()
        zoom(chart, 1.1, 1.3)
        chart.locator("details summary").first.click()
        chart.locator("table.operations").first.wait_for()
        cells = table(chart, 0)
        assert any("<img src=x onerror='window.hacked = 2'>" in text for row in cells for text in row)
        box = chart.locator(".chart")
        for x in (300, 600, 900):
            box.hover(position={"x": x, "y": 330})
        assert shown.page.evaluate("typeof window.hacked") == "undefined"
        assert shown.page.locator("body img").count() == 0
        assert shown.errors == []
