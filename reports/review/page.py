"""The page as HTML: one file without any request, with data, styles and scripts inside."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from harness.evidence.gate import backends_and_duration
from harness.model.documents.manifest import NamedRelease
from harness.model.verdict import Status
from reports.review.content import (
    INCIDENTS_SHOWN,
    Incident,
    Section,
    doubts,
    incidents,
    not_tested,
    sections,
    step_lines,
    with_page,
)
from reports.review.coverage import coverage_of
from reports.review.loaded import Loaded
from reports.review.timeline import Marked, packed
from reports.summary import availability_lines, headline_lines, release_name, score_lines, status_of
from reports.terminal import Line, clean

TIMELINES_MAX: Final = 2_500_000  # characters of all timelines; the library takes 1.1 MB, and a page is below 5 MB
_TIMELINE_MAX: Final = 250_000
_TEXT_MAX: Final = 4_000
_PUBLISHED: Final = "Maven Central"  # the source of a release whose version alone names it
_TEMPLATE: Final = "review.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The timeline of a section.

    data: base64 of gzipped JSON; empty = there is none, and `missing` says why. place: the partition to show first.
    replay: the command that plays the scenario again; empty = not known.
    """

    section: Section
    data: str
    missing: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    place: str = ""
    replay: str = ""


def page_of(loaded: Loaded, folder: Path) -> str:
    """Returns the page. folder: where it will be written, from which its links to the evidence lead."""
    summary, verdicts = loaded.summary, loaded.verdicts
    word, *why = _texts(headline_lines(summary, verdicts, loaded.without))
    status = status_of(summary, loaded.without)
    if not word.startswith(status.value):  # such as "PASS of 0 of 1 bundles; 1 could not be judged"
        word = f"{status.value}: {word}"
    scenarios = sections(loaded)
    condemning = incidents(verdicts, condemning=True)
    permitted = incidents(verdicts, condemning=False)
    charts = _charts(scenarios, condemning, folder)
    scripts = [script(name) for name in ("echarts.min.js", "common.js", "timeline.js")]
    return template(_TEMPLATE).render(
        title=f"{word} - durability",
        word=word,
        look=status.value.lower(),
        why=why,
        facts=_facts(loaded),
        score=_texts(score_lines(verdicts.values())),
        availability=_texts(availability_lines(verdicts)),
        condemning=condemning[:INCIDENTS_SHOWN],
        condemning_count=len(condemning),
        permitted=permitted[:INCIDENTS_SHOWN],
        permitted_count=len(permitted),
        with_page={one.stem for one in with_page(condemning, permitted)},
        doubts=doubts(verdicts),
        not_tested=not_tested(loaded),
        coverage=coverage_of(verdicts, loaded.bundles),
        charts=[replace(one, replay=replay(loaded, one.section.name)) for one in charts],
        anchors={one.name: one.anchor for one in scenarios},
        scripts=scripts,
        policy=policy(scripts),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        again=f"durability verify {loaded.evidence}",
        passed=Status.PASS.value,
    )


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


def _facts(loaded: Loaded) -> list[tuple[str, str]]:
    """The release and the run, by name. What is not known is left out."""
    summary = loaded.summary
    reported = (verdict.facts.release for verdict in loaded.verdicts.values())
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
        ("upgraded from", ", ".join(began)),
        ("seed", "" if seed is None else str(seed)),
        ("ran", backends_and_duration(summary.backends, summary.took_s).removeprefix(", ")),
        ("evidence", str(loaded.evidence)),
    ]
    return [(name, text) for name, text in facts if text]


def replay(loaded: Loaded, name: str) -> str:
    """The command that plays a scenario of the catalogue again. A negative control has no command of its own."""
    verdict = loaded.verdicts.get(name)
    release = (verdict.facts.release if verdict else None) or loaded.summary.release
    seed = loaded.summary.seed if loaded.summary.seed is not None else verdict.facts.seed if verdict else None
    published = release.version and (release.source or "").startswith(_PUBLISHED)
    if verdict is None or verdict.facts.negative_control or verdict.facts.plugins or seed is None or not published:
        return ""
    backend = f" --backend {loaded.summary.backends[0]}" if len(loaded.summary.backends) == 1 else ""
    return f"durability run {shlex.quote(name)} --kafka {release.version} --seed {seed}{backend}"


def _charts(scenarios: Sequence[Section], condemning: Sequence[Incident], folder: Path) -> list[Chart]:
    limit = min(_TIMELINE_MAX, TIMELINES_MAX // max(1, len(scenarios)))
    return [_chart(one, [i for i in condemning if i.scenario == one.name], folder, limit) for one in scenarios]


def _chart(section: Section, condemning: Sequence[Incident], folder: Path, limit: int) -> Chart:
    if section.bundle is None:
        return Chart(section=section, data="", missing=section.missing, links=())
    marks = [
        Marked(text=clean(f"{one.kind}: {one.amount}, {one.place}"), first_ns=one.span_ns[0], last_ns=one.span_ns[1])
        for one in condemning
        if one.span_ns
    ]
    data, timeline = packed(section.bundle, limit, marks)
    missing = [*section.missing, *(timeline.missing if timeline else ())]
    if timeline is None:
        missing.append("Neither the ledger nor steps.json has a time, so there is no timeline.")
    elif not data:
        missing.append("The timeline is too large for this page: run durability report on this bundle alone.")
    links = tuple((name, link(section.bundle / name, folder)) for name in _linked(section.bundle))
    if section.played:
        section = replace(section, steps=step_lines(section.played, timeline.start_ns if timeline else 0))
    place = next((one.place for one in condemning if one.place), "")
    return Chart(section=section, data=data, missing=tuple(dict.fromkeys(missing)), links=links, place=place)


def _linked(bundle: Path) -> list[str]:
    names = ("verdict.json", "findings.parquet", "steps.json", "run.json", "logs")
    return [name for name in names if (bundle / name).exists()]


def link(target: Path, folder: Path) -> str:
    """A relative address of a file of the evidence, as the page in `folder` needs it."""
    return quote(os.fsencode(os.path.relpath(target.absolute(), folder.absolute())))  # names may not be UTF-8


@cache
def script(name: str) -> str:
    """A program of this package, as it may stand in a page."""
    text = files("reports").joinpath("charts").joinpath(name).read_text(encoding="utf-8")
    if "</script" in text.lower():  # the browser would end the script there, and its digest would differ
        raise ValueError(f"{name} cannot be put into a page")
    return text


def policy(scripts: Sequence[str]) -> str:
    """The content security policy: these scripts alone, and no request. ECharts sets styles of single elements."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
