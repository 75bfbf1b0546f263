"""The timeline as an SVG: the data of the interactive one, the same text each time, readable, without outside parts."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.model.verdict import Status
from reports.review import write_page
from reports.review.bands import Fault, Leaders, Leadership
from reports.review.picture import FAULTS_MAX, LEADERS_MAX, svg_of
from reports.review.rates import Rates
from reports.review.timeline import Marked, Timeline, timeline_of
from suites.unit.evidence_examples import judged, verdict
from suites.unit.reports.timeline_examples import at, write_run

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a<script>alert("1")</script>$x^2$&_'


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    bundle = write_run(tmp_path_factory.mktemp("run") / "kill")
    found = timeline_of(bundle, [Marked(text="lost: 3 records, plain-0", first_ns=at(1), last_ns=at(2))])
    assert found is not None
    return found


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()).strip() for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def points(svg: str, colour: str) -> list[list[float]]:
    """The heights of the corners of each line with this colour."""
    paths = [p for p in ElementTree.fromstring(svg).iter(f"{SVG}path") if f"stroke: {colour}" in p.get("style", "")]
    drawn = [re.findall(r"[ML] [\d.]+ ([\d.]+)", path.get("d", "")) for path in paths]
    return [[float(y) for y in one] for one in drawn if len(one) > 2]


def test_it_has_every_part_of_the_timeline(timeline: Timeline) -> None:
    shown = texts(svg_of(timeline, "kill"))
    for text in (
        "kill",
        "kill_leader",
        "lost",
        "3 records, plain-0",
        "acks",
        "errors",
        "p50",
        "p99",
        "plain-0",
        "seconds",
    ):
        assert text in shown
    assert "1, epoch 0, ISR 1 2" in shown
    assert f"0 s is {timeline.start} UTC" in shown


def test_lines_have_the_counts_of_the_timeline(timeline: Timeline) -> None:
    counts = [10, 20, 40, 20]
    rates = Rates(acked=counts, refused=[0] * 4, unknown=[0] * 4, reads=[0] * 4, p50_ms=[1.0] * 4, p99_ms=[2.0] * 4)
    svg = svg_of(replace(timeline, rates=rates, buckets=4, width_s=1.0), "kill")
    [heights] = [one for one in points(svg, "#009e73") if len(one) == 4]
    lowest, highest = heights[0], heights[2]
    unit = (lowest - highest) / 30  # points for one record a second; SVG counts from the top
    assert [round((lowest - y) / unit) for y in heights] == [count - 10 for count in counts]


def test_a_bucket_without_acks_is_a_gap(timeline: Timeline) -> None:
    rates = Rates(
        acked=[5, 5, 0, 5, 5], refused=[0] * 5, unknown=[0] * 5, reads=[0] * 5, p50_ms=[None] * 5, p99_ms=[None] * 5
    )
    svg = svg_of(replace(timeline, rates=rates, buckets=5, width_s=1.0), "kill")
    lines = [p.get("d", "") for p in ElementTree.fromstring(svg).iter(f"{SVG}path") if "#009e73" in p.get("style", "")]
    assert any(line.count("M") == 2 and line.count("L") == 2 for line in lines)


def test_the_same_data_gives_the_same_text(timeline: Timeline) -> None:
    assert svg_of(timeline, "kill") == svg_of(timeline, "kill")
    assert svg_of(timeline, "kill") != svg_of(replace(timeline, incidents=()), "kill")


def test_it_is_the_same_in_another_process(timeline: Timeline, tmp_path: Path) -> None:
    write_run(tmp_path / "kill")
    code = (
        "import sys; from pathlib import Path; from reports.review.timeline import timeline_of;"
        "from reports.review.picture import svg_of; print(svg_of(timeline_of(Path(sys.argv[1])), 'kill'), end='')"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "kill")]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert done.stdout == svg_of(replace(timeline, incidents=()), "kill")


def test_foreign_text_stays_text(timeline: Timeline) -> None:
    fault = replace(timeline.faults[0], name=HOSTILE)
    svg = svg_of(replace(timeline, faults=(fault,)), HOSTILE)
    root = ElementTree.fromstring(svg)
    assert not [one for one in root.iter() if one.tag.lower().endswith("script")]
    assert HOSTILE in texts(svg)
    assert any(text.startswith("a<script>") for text in texts(svg) if text.endswith("…"))  # beside its row


def test_letters_of_any_language_cost_no_warning(timeline: Timeline, recwarn: pytest.WarningsRecorder) -> None:
    assert "主题" in texts(svg_of(timeline, "主题"))
    assert not recwarn.list


def test_it_names_nothing_outside(timeline: Timeline) -> None:
    svg = svg_of(timeline, "kill")
    assert "DOCTYPE" not in svg
    assert "@import" not in svg
    assert not re.findall(r'(?:href|src)="(?!#)[^"]*"', svg)
    assert not re.findall(r"url\((?!#)", svg)


def test_text_and_paper_have_colours_for_a_dark_screen(timeline: Timeline) -> None:
    svg = svg_of(timeline, "kill")
    [rules] = re.findall(r"prefers-color-scheme: dark\) \{(.*?)\}\}?</style>", svg, re.DOTALL)
    pairs = re.findall(r'\[style\*="(\w+): (#\w+)"\] \{ \w+: (#\w+) !important', rules)
    light, dark = {old for _, old, _ in pairs}, {new for _, _, new in pairs}
    assert {"#ffffff", "#1d2329"} <= light
    assert contrast("#1d2329", "#ffffff") > 7
    assert contrast("#e4e8eb", "#14181c") > 7
    assert {"#e4e8eb", "#14181c"} <= dark
    inks = {
        match for style in re.findall(r'<text style="([^"]*)"', svg) for match in re.findall(r"fill: (#\w+)", style)
    }
    assert inks <= {"#1d2329", "#000000", "#fefefe"}  # the last two lie on bands of colour


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it."""
    lights = sorted((_light(one), _light(other)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def _light(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_large_timeline_stays_small(timeline: Timeline) -> None:
    count = 600
    values = [float(i % 37 + 1) for i in range(count)]
    numbers = [i * 7919 % 5000 for i in range(count)]
    rates = Rates(acked=numbers, refused=numbers, unknown=numbers, reads=numbers, p50_ms=values, p99_ms=values)
    spans = tuple(Leadership(from_s=float(i), to_s=i + 1.0, leader=i % 3, epoch=i, isr=(0, 1, 2)) for i in range(40))
    leaders = tuple(Leaders(partition=f"topic-{i}", spans=spans) for i in range(40))
    fault = timeline.faults[0]
    faults: tuple[Fault, ...] = tuple(replace(fault, name=f"fault_{i}") for i in range(40))
    svg = svg_of(replace(timeline, rates=rates, leaders=leaders, faults=faults, buckets=count, width_s=0.2), "large")
    assert len(svg) < 400_000
    assert sum(text.startswith("topic-") for text in texts(svg)) == LEADERS_MAX
    assert sum(text.startswith("fault_") for text in texts(svg)) == FAULTS_MAX
    assert any("24 more are not shown" in text for text in texts(svg))


def test_a_timeline_without_data_says_so(timeline: Timeline) -> None:
    bare = replace(timeline, rates=None, faults=(), incidents=(), leaders=())
    assert "The evidence has nothing to show" in texts(svg_of(bare, "kill"))


@pytest.mark.parametrize("module", ["harness.commands.cli", "reports", "reports.allure"])
def test_commands_do_not_load_the_libraries_of_pictures_and_results(module: str) -> None:
    code = f"import sys, {module}; print([n for n in ('matplotlib', 'allure_commons') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_review_page_has_the_picture_beside_it_for_browsers_without_scripts(tmp_path: Path) -> None:
    write_run(judged(tmp_path / "kill", verdict("kill", Status.PASS)))
    page = write_page(tmp_path / "kill", pictures=True).read_text(encoding="utf-8")
    [address] = re.findall(r'<noscript><img src="([^"]+)" alt="Timeline of kill"', page)
    picture = (tmp_path / "kill/report" / address).read_text(encoding="utf-8")
    assert "kill_leader" in texts(picture)
    assert f'<a href="{address}">timeline.svg</a>' in page
    assert "img-src 'self'" in unescape(page)
    assert not list((tmp_path / "kill/report").rglob("*.tmp"))


def test_a_scenario_without_times_has_no_picture(tmp_path: Path) -> None:
    judged(tmp_path / "kill", verdict("kill", Status.PASS))
    (tmp_path / "kill/scenario.json").write_text("{}", encoding="utf-8")
    page = write_page(tmp_path / "kill", pictures=True).read_text(encoding="utf-8")
    assert "<noscript><img" not in page
    assert not list((tmp_path / "kill/report").rglob("*.svg"))


def test_a_name_that_is_an_address_leads_nowhere_else(tmp_path: Path) -> None:
    write_run(judged(tmp_path / "kill", verdict("../../etc/x", Status.PASS)))
    write_page(tmp_path / "kill", pictures=True)
    found = [path.relative_to(tmp_path / "kill/report").as_posix() for path in tmp_path.rglob("*.svg")]
    assert found == ["scenario-0/timeline.svg"]
