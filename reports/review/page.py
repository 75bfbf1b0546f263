"""The page as HTML: one file without any request, with data, styles and scripts inside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from harness.evidence.figures import FIGURES
from harness.evidence.gate import PASS_WITH_KNOWN, backends_and_duration
from harness.evidence.layout import RELEASE_JARS
from harness.evidence.past_runs import PastGate
from harness.model.documents.manifest import DigestOf, NamedRelease
from harness.model.verdict import Status, Verdict
from reports.incidents.moments import marks_of
from reports.known import matched_lines, unused_lines
from reports.policy import policy, script
from reports.review.comparison.against import WITHOUT, Against
from reports.review.comparison.lines import found_text, interval_text, single_text
from reports.review.comparison.spread import CONFIDENCE
from reports.review.content import (
    INCIDENTS_SHOWN,
    DoubtLine,
    Incident,
    Section,
    doubts,
    incidents,
    not_tested,
    sections,
    step_lines,
    with_page,
)
from reports.review.coverage import NO_FAULT, coverage_of
from reports.review.loaded import Loaded
from reports.review.same_records import same_records
from reports.review.timeline import Timeline, packed, timeline_of
from reports.review.trace import TRACE
from reports.summary import (
    FLAKY,
    availability_lines,
    counted,
    headline_lines,
    promised_lines,
    release_name,
    replay_command,
    replay_lacks,
    replay_with,
    score_lines,
    status_of,
)
from reports.terminal import Line, clean
from reports.trend import HEADING, LAST, chart_document, points, steadiness

TIMELINES_MAX: Final = 2_500_000  # characters of all timelines; the library takes 1.1 MB, and a page is below 5 MB
_TIMELINE_MAX: Final = 250_000
_TEXT_MAX: Final = 4_000
WORST_SHOWN: Final = 3  # scenarios at the top, and incidents or doubts of each
PICTURE: Final = "timeline.svg"  # in a folder for each scenario, beside the page
_TEMPLATE: Final = "review.html"
NOT_RECORDED: Final = "not recorded"
_DIGEST_OF: Final[Mapping[DigestOf, str]] = {
    "tarball": "SHA-512 of the tarball",
    "jars": "SHA-512 of the list of {jars} jars",
    "image": "id of the image",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The timeline of a section.

    data: base64 of gzipped JSON; empty = there is none, and `missing` says why. place: the partition to show first.
    replay: the command that plays the scenario again; empty = not known. timeline: what `data` was made from, in full.
    picture: address of the same as an SVG; empty = there is none.
    """

    section: Section
    data: str
    missing: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    place: str = ""
    replay: str = ""
    timeline: Timeline | None = None
    picture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A scenario at the top of the page. incidents: its first ones; `rest`: how many others. doubts: the first of one
    without an incident. replay: the command that plays it again; empty = not known."""

    scenario: str
    title: str
    incidents: tuple[Incident, ...]
    rest: int
    doubts: tuple[str, ...]
    replay: str


def page_of(
    loaded: Loaded,
    folder: Path,
    charts: Sequence[Chart],
    *,
    contracts: str,
    against: Against | None = None,
    past: Sequence[PastGate] = (),
) -> str:
    """Returns the page. folder, charts: see `charts_of`. contracts: address of the matrix of contracts; "" = none.

    against: the comparison with an earlier gate. past: earlier gates, the oldest first.
    """
    summary, verdicts = loaded.summary, loaded.verdicts
    word, *why = _texts(headline_lines(summary, verdicts, loaded.without))
    status = status_of(summary, loaded.without)
    if not word.startswith(status.value):  # such as "PASS of 0 of 1 bundles; 1 could not be judged"
        word = f"{status.value}: {word}"
    of_figures = counted(summary, verdicts)
    condemning = incidents(verdicts, condemning=True)
    permitted = incidents(verdicts, condemning=False)
    drawn = ("echarts.min.js", "common.js", "zoom.js", "timeline.js", *(["trend.js"] if past else []))
    scripts = [script(f"charts/{name}") for name in drawn]
    return template(_TEMPLATE).render(
        title=f"{word} - durability",
        word=word,
        look="known" if word.startswith(PASS_WITH_KNOWN) else status.value.lower(),
        why=why,
        contracts=contracts,
        facts=[*facts_of(loaded), *([("compared with", f"{against.a.release}. {against.word}")] if against else [])],
        jars=link(loaded.evidence / RELEASE_JARS, folder) if (loaded.evidence / RELEASE_JARS).is_file() else "",
        score=[*_texts(score_lines(of_figures.values())), *promised_lines(of_figures.values())],
        availability=_texts(availability_lines(of_figures)),
        worst=_worst(condemning, doubts(verdicts), charts, loaded),
        replay_with=replay_with(summary),
        replay_lacks=replay_lacks(summary),
        same=same_records([*condemning, *permitted]),
        condemning=condemning[:INCIDENTS_SHOWN],
        condemning_count=len(condemning),
        permitted=permitted[:INCIDENTS_SHOWN],
        permitted_count=len(permitted),
        with_page={one.stem for one in with_page(condemning, permitted)},
        doubts=doubts(verdicts),
        known=summary.known,
        known_matched=matched_lines(summary),
        known_unused=unused_lines(summary),
        not_tested=not_tested(loaded),
        coverage=coverage_of(verdicts, loaded.bundles),
        no_fault=NO_FAULT,
        charts=[replace(one, replay=replay(loaded, one.section.name)) for one in charts],
        titles={one.section.name: one.section.title for one in charts},
        anchors={one.section.name: one.section.anchor for one in charts},
        scripts=scripts,
        policy=policy(scripts, loads=True),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        again=f"durability verify {loaded.evidence}",
        passed=Status.PASS.value,
        against=against,
        found_text=found_text,
        interval_text=interval_text,
        single_text=single_text,
        percent=round(CONFIDENCE * 100),
        trend_heading=HEADING,
        trend=points(past[-LAST:])[::-1],
        trend_data=chart_document(past[-LAST:]),
        trend_figures=[f"{figure.short}: {figure.meaning}" for figure in FIGURES],
        steadiness=steadiness(past),
        flaky=FLAKY,
        no_verdict=WITHOUT,
    )


def _worst(
    condemning: Sequence[Incident], doubted: Sequence[DoubtLine], charts: Sequence[Chart], loaded: Loaded
) -> list[Worst]:
    """The first scenarios with incidents, else those with doubts."""
    names = dict.fromkeys(one.scenario for one in condemning) or dict.fromkeys(one.scenario for one in doubted)
    titles = {one.section.name: one.section.title for one in charts}
    made = []
    for name in [*names][:WORST_SHOWN]:
        own = [one for one in condemning if one.scenario == name]
        texts = [one.texts[0] for one in doubted if one.scenario == name] if not own else []
        made.append(
            Worst(
                scenario=name,
                title=titles.get(name, ""),
                incidents=tuple(own[:WORST_SHOWN]),
                rest=max(0, len(own) - WORST_SHOWN) + max(0, len(texts) - WORST_SHOWN),
                doubts=tuple(texts[:WORST_SHOWN]),
                replay=replay(loaded, name),
            )
        )
    return made


@cache
def template(name: str) -> Template:
    """A template in which all foreign text is shown as text."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    return environment.get_template(name)


def shown(value: object) -> object:
    """Foreign text as it may be shown: on one line, without control characters, and not longer than a screen."""
    if not isinstance(value, str) or hasattr(value, "__html__"):  # markup of the template itself
        return value
    if len(value) <= _TEXT_MAX:
        return clean(value)
    return f"{clean(value[:_TEXT_MAX])} … ({len(value) - _TEXT_MAX:,} more characters)"


def _texts(lines: Sequence[Line]) -> list[str]:
    return [text.strip() for text, _ in lines if text.strip()]


def facts_of(loaded: Loaded) -> list[tuple[str, str]]:
    """The release and the run, by name. What is not known is left out."""
    summary = loaded.summary
    reported = [verdict.facts.release for verdict in loaded.verdicts.values()]
    known = (release for release in (summary.release, *reported) if release is not None and release != NamedRelease())
    release = next(known, NamedRelease())
    began = sorted({v.facts.starts_on.version or "" for v in loaded.verdicts.values() if v.facts.starts_on})
    seeds = sorted({v.facts.seed for v in loaded.verdicts.values() if v.facts.seed is not None})
    seed = summary.seed if summary.seed is not None else seeds[0] if len(seeds) == 1 else None
    facts = [
        ("release", release_name(summary, loaded.verdicts)),
        ("version", release.version or ""),
        ("commit", release.commit or ""),
        ("source", release.source or ""),
        *_builds([one for one in (summary.release, *reported) if one is not None]),
        ("upgraded from", ", ".join(began)),
        ("seed", "" if seed is None else str(seed)),
        ("ran", backends_and_duration(summary.backends, summary.took_s).removeprefix(", ")),
        ("evidence", str(loaded.evidence)),
    ]
    return [(name, text) for name, text in facts if text]


def _builds(releases: Sequence[NamedRelease]) -> Iterator[tuple[str, str]]:
    """The digests of what was tested, and the Java of the brokers. Evidence of earlier harnesses has neither."""
    builds = {one.build: None for one in releases if one.build is not None}
    for build in builds:
        yield _DIGEST_OF[build.of].format(jars=build.jars or "all"), build.digest.removeprefix("sha512:")
    if not builds:
        yield "SHA-512", NOT_RECORDED
    javas = dict.fromkeys(one.java for one in releases if one.java is not None)
    yield "Java of the brokers", ", ".join(javas) or NOT_RECORDED


def replay(loaded: Loaded, name: str, other: str = "") -> str:
    """The command that plays a scenario again. A negative control has no command of its own.

    other: a release in place of the tested one.
    """
    verdict = loaded.verdicts.get(name)
    return "" if verdict is None else replay_command(loaded.summary, verdict, other)


def charts_of(loaded: Loaded, folder: Path, *, pictures: bool = False) -> list[Chart]:
    """The sections of the page with their timelines. folder: where the page will be, from which its links lead, and
    into which the details of the timelines are written. pictures: there will be an SVG of each. OSError if a file
    cannot be written."""
    scenarios, condemning = sections(loaded), incidents(loaded.verdicts, condemning=True)
    limit = min(_TIMELINE_MAX, TIMELINES_MAX // max(1, len(scenarios)))
    charts = [
        _chart(one, [i for i in condemning if i.scenario == one.name], folder, limit, loaded.verdicts.get(one.name))
        for one in scenarios
    ]
    return [_with_picture(chart) for chart in charts] if pictures else charts


def _with_picture(chart: Chart) -> Chart:
    if chart.timeline is None:
        return chart
    picture = f"{chart.section.anchor}/{PICTURE}"
    return replace(chart, picture=picture, links=(*chart.links, (PICTURE, picture)))


def _chart(
    section: Section, condemning: Sequence[Incident], folder: Path, limit: int, verdict: Verdict | None
) -> Chart:
    if section.bundle is None:
        return Chart(section=section, data="", missing=section.missing, links=())
    marks = [] if verdict is None else marks_of(condemning, section.bundle, verdict)
    whole = timeline_of(section.bundle, marks, details=folder / section.anchor)
    data, timeline = packed(section.bundle, limit, marks, whole)
    missing = [*section.missing, *(timeline.missing if timeline else ())]
    if timeline is None:
        missing.append("Neither the ledger nor steps.json has a time, so there is no timeline.")
    elif not data:
        missing.append("The timeline is too large for this page: run durability report on this bundle alone.")
    links = [(name, link(section.bundle / name, folder)) for name in _linked(section.bundle)]
    if whole is not None:
        links.append((f"{TRACE} (for Perfetto)", f"{section.anchor}/{TRACE}"))
    if section.played:
        section = replace(section, steps=step_lines(section.played, timeline.start_ns if timeline else 0))
    return Chart(
        section=section,
        data=data,
        missing=tuple(dict.fromkeys(missing)),
        links=tuple(links),
        place=next((one.place for one in condemning if one.place), ""),
        timeline=whole,
    )


def _linked(bundle: Path) -> list[str]:
    names = ("verdict.json", "findings.parquet", "steps.json", "run.json", "logs")
    return [name for name in names if (bundle / name).exists()]


def link(target: Path, folder: Path) -> str:
    """A relative address of a file of the evidence, as the page in `folder` needs it."""
    return quote(os.fsencode(os.path.relpath(target.absolute(), folder.absolute())))  # names may not be UTF-8
