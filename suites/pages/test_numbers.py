"""Every number on a review page is that of verdict.json: read back from the page, and compared with the plain JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from msgspec import convert

import reports
from suites.pages import examples
from suites.pages.browsing import Opened, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Document = dict[str, object]
NUMBER: Final = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?! %)")
MAKERS: Final[dict[str, Callable[[Path], Path]]] = {
    "pass": examples.passed,
    "fail": examples.failed,
    "example": examples.example,
    "inconclusive": examples.inconclusive,
}


@pytest.fixture(scope="module", params=MAKERS)
def shown(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    """An open page, and its evidence."""
    out = MAKERS[request.param](tmp_path_factory.mktemp(request.param) / "out")
    with opened(browser, reports.write_page(out)) as page:
        page.open_everything()
        yield Shown(page, out)


class Shown:
    """A page, and the documents that it was made from, as JSON that no class of the harness has read."""

    def __init__(self, page: Opened, out: Path) -> None:
        self.page, self.out = page, out
        self.gate = _read(out / "gate.json")
        self.verdicts = {path.parent.name: _read(path) for path in sorted(out.glob("*/verdict.json"))}

    def findings(self) -> Iterator[tuple[str, Document]]:
        """Every finding with its scenario."""
        for name, verdict in self.verdicts.items():
            yield from ((name, one) for one in convert(verdict["findings"], list[Document]))

    def counts(self, *, condemn: bool) -> Counter[tuple[object, ...]]:
        """The sum of the counts of findings that are one incident, by scenario, kind, place and step."""
        sums: Counter[tuple[object, ...]] = Counter()
        for name, one in self.findings():
            if condemns(one) is condemn:
                key = (name, *(one.get(key) for key in ("kind", "topic", "partition", "step")))
                sums[key] += convert(one["count"], int)
        return sums


def _read(path: Path) -> Document:
    return convert(json.loads(path.read_text(encoding="utf-8")), Document)


def condemns(finding: Document) -> bool:
    return finding.get("excused_by") is None and finding.get("explained_by") is None


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def test_the_counts_of_incidents_are_the_sums_of_their_findings(shown: Shown) -> None:
    for look, condemn in (("fail", True), ("permitted", False)):
        heads = shown.page.page.locator(f"#incidents .incident.{look} .head").all_inner_texts()
        sums = shown.counts(condemn=condemn)
        found = sorted((head.split()[0].lower(), numbers(head.split(maxsplit=1)[1])[0]) for head in heads)
        assert found == sorted((str(kind), float(count)) for (_, kind, *_), count in sums.items())
    (told,) = shown.page.page.locator("nav a[href='#incidents']").all_inner_texts()
    assert numbers(told) == [len(shown.counts(condemn=True))]


def test_offsets_and_places_of_incidents_are_those_of_their_findings(shown: Shown) -> None:
    for article in shown.page.page.locator("#incidents .incident").all():
        head = article.locator(".head").inner_text()
        kind, place = head.split()[0].lower(), re.search(r"(\w+)-(\d+), offsets? (\d+)(?: to (\d+))?", head)
        of_kind = [one for _, one in shown.findings() if one["kind"] == kind]
        if not of_kind or of_kind[0].get("topic") is None:
            continue
        assert place, head
        there = [f for f in of_kind if (f["topic"], f["partition"]) == (place[1], int(place[2]))]
        assert int(place[3]) in [f["offset_first"] for f in there]
        assert int(place[4] or place[3]) in [f["offset_last"] for f in there]


def test_each_scenario_has_the_figures_of_its_verdict(shown: Shown) -> None:
    for name, verdict in shown.verdicts.items():
        facts = convert(verdict["facts"], Document)
        said = shown.page.page.locator(f"#scenario-{name} > div > p.dim").all_inner_texts()
        durable = next(text for text in said if "promised records durable" in text)
        assert numbers(durable) == [verdict["durable"], verdict["promised"]]
        totals = facts.get("records")
        if totals is not None:
            known = convert(totals, dict[str, float])
            sent = next(text for text in said if "records sent" in text)
            assert numbers(sent) == [known[key] for key in ("attempted", "acked", "refused", "unknown")]
        score = convert(verdict["score"], Document | None)
        if score is not None:
            lost = next(text for text in said if "fault episodes lost" in text)
            assert numbers(lost) == [score["episodes_with_loss"], score["episodes"]]
        assert shown.page.page.locator(f"#scenario-{name} summary .word").first.inner_text() == verdict["verdict"]


def test_the_chart_counts_the_acknowledgements_of_the_verdict(shown: Shown) -> None:
    for name, verdict in shown.verdicts.items():
        chart = shown.page.page.locator(f"#scenario-{name} .chart")
        if chart.count():
            acked = convert(convert(verdict["facts"], Document)["records"], Document)["acked"]
            assert f" {acked:,} records acknowledged" in (chart.get_attribute("aria-label") or "")


def test_the_matrix_has_the_sums_of_the_findings(shown: Shown) -> None:
    for look, condemn in (("fail", True), ("permitted", False)):
        cells: Counter[str] = Counter()
        for row in shown.page.page.locator(f"#matrix tr:has(td.{look})").all():
            kind = row.locator("th").inner_text()
            cells[kind] += sum(round(numbers(text)[0]) for text in row.locator(f"td.{look}").all_inner_texts())
        expected: Counter[str] = Counter()
        for key, count in shown.counts(condemn=condemn).items():
            expected[str(key[1])] += count
        condemned = {str(kind) for _, kind, *_ in shown.counts(condemn=True)}
        if not condemn:  # a cell says the worse one of the two
            expected = Counter({kind: count for kind, count in expected.items() if kind not in condemned})
        assert cells == expected


def test_the_top_adds_up_all_verdicts(shown: Shown) -> None:
    scores = [convert(verdict["score"], Document) for verdict in shown.verdicts.values()]
    lost, all_of = (sum(convert(one[key], int) for one in scores) for key in ("episodes_with_loss", "episodes"))
    top = shown.page.page.locator("header.top").inner_text()
    assert f"{lost} of {all_of} fault episodes lost" in top
    doubts = {
        (n, d["name"], d.get("origin")) for n, v in shown.verdicts.items() for d in convert(v["doubts"], list[Document])
    }
    (told,) = shown.page.page.locator("nav a[href='#doubts']").all_inner_texts()
    assert numbers(told) == [len(doubts)]
    assert str(shown.gate["seed"]) in top
    assert shown.page.page.locator("h1").inner_text().startswith(str(shown.gate["verdict"]))


def test_no_number_of_three_digits_comes_from_elsewhere(shown: Shown) -> None:
    """Each is in the evidence, if need be rounded, or a sum over findings or scenarios. Times of steps are left out."""
    known = {abs(one) for one in _all_numbers([shown.gate, *shown.verdicts.values()])}
    known |= {float(round(one)) for one in known}
    known |= {float(count) for condemn in (True, False) for count in shown.counts(condemn=condemn).values()}
    by_kind: Counter[tuple[object, bool]] = Counter()
    for _, one in shown.findings():
        by_kind[one["kind"], condemns(one)] += convert(one["count"], int)
    known |= {float(count) for count in by_kind.values()}
    scores = [convert(verdict["score"], Document) for verdict in shown.verdicts.values()]
    for key, of in (
        ("promised", shown.verdicts.values()),
        ("durable", shown.verdicts.values()),
        ("acked", scores),
        ("durable_raw", scores),
    ):
        known.add(abs(sum(convert(one[key], float) for one in of)))
    shown.page.page.evaluate("document.querySelectorAll('footer, .timeline, .steps').forEach((one) => one.remove())")
    text = shown.page.text.replace(str(shown.out), "")
    found = [
        (float(one[0].replace(",", "")), text[max(0, one.start() - 40) : one.end() + 30])
        for one in NUMBER.finditer(text)
    ]
    assert [words for number, words in found if number >= 100 and number not in known] == []


def _all_numbers(value: object) -> Iterator[float]:
    """The numbers of a document, those within its texts included."""
    if isinstance(value, str):
        yield from numbers(value)
    elif isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, list):
        for one in value:
            yield from _all_numbers(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _all_numbers(one)
