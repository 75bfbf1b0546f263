"""The pages of incidents as HTML, each with its data, styles and scripts inside."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from harness.evidence.layout import LOGS
from harness.model.verdict import Verdict
from reports.incidents.broker_logs import LogLine, LogLines, log_lines
from reports.incidents.evidence import Evidence, evidence_of
from reports.incidents.guide import facts_near
from reports.incidents.moments import Moment, moments_of, times_of
from reports.incidents.partition import EpochLine, Partition, partition_of
from reports.incidents.picture import packed, picture_of
from reports.incidents.promised import about_elections
from reports.incidents.records import CSV, CSV_PACKED, PARQUET, Records, records_of
from reports.policy import policy, script
from reports.review.bands import Place
from reports.review.content import Incident, described, incidents, with_page
from reports.review.loaded import Loaded
from reports.review.page import link, replay, template
from reports.review.same_records import Same, same_records
from reports.sources import issues_in
from reports.summary import clock, replay_lacks, replay_with
from reports.whole_files import written_whole

SIZE_MAX: Final = 5_000_000  # bytes of a page
PICTURE_MAX: Final = 2_000_000  # characters
EPOCHS_SHOWN: Final = 50
OPEN_LINES: Final = 12  # of a log; the others are folded, so that they leave the next part of the page on the screen
_TEMPLATE: Final = "incident.html"
_MARK: Final = b'<meta name="generator" content="durability: incident">'
_MARK_WITHIN: Final = 2_000  # bytes
_LIBRARY: Final = "charts/echarts.min.js"
_SCRIPTS: Final = ("charts/common.js", "charts/incident.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Everything that a page says about an incident besides the incident itself.

    picture: base64 of gzipped JSON; empty = it does not fit. by_time, by_offset: which pictures there are data for.
    moments: what happened, in the order of time; `moments_left`: how many others. facts: what is known near the cause.
    elections: why the records are promised, where a log speaks of an unclean election. missing: the parts that the
    evidence lacks, a sentence each.
    """

    partition: Partition | None
    epochs: tuple[EpochLine, ...]
    picture: str
    by_time: bool
    by_offset: bool
    moments: tuple[Moment, ...]
    moments_left: int
    facts: tuple[str, ...]
    elections: tuple[str, ...]
    records: Records
    logs: LogLines
    missing: tuple[str, ...]

    @property
    def open_lines(self) -> tuple[LogLine, ...]:
        """The log lines that are shown at once: the first about the partition after the records were sent, and the last
        before that if there is room."""
        own = [line.at_ns for line in self.moments if line.own]
        telling = [line for line in self.logs.lines if line.telling]
        after = [line for line in telling if own and line.at_ns >= own[0]][:OPEN_LINES]
        before = [line for line in telling if line not in after and not (own and line.at_ns >= own[0])]
        room = OPEN_LINES - len(after)
        return (*(before[-room:] if room else ()), *after)

    @property
    def folded_lines(self) -> tuple[LogLine, ...]:
        """The other log lines."""
        shown = {id(line) for line in self.open_lines}
        return tuple(line for line in self.logs.lines if id(line) not in shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """Parts that the pages of one scenario share. folder: of the pages. stems: of those with a page. same: see
    same_records."""

    loaded: Loaded
    bundle: Path
    folder: Path
    stems: frozenset[str]
    same: Mapping[str, tuple[Same, ...]]


def write_pages(loaded: Loaded, folder: Path) -> frozenset[str]:
    """Writes the pages of incidents and the files of their records into `folder`, each whole or not at all.

    Returns the stems of the names of the pages. Raises OSError if a file cannot be written. Damaged or missing evidence
    is named on the page.
    """
    every = [incidents(loaded.verdicts, condemning=condemning) for condemning in (True, False)]
    chosen = with_page(*every)
    stems = frozenset(one.stem for one in chosen)
    same = same_records([*every[0], *every[1]])
    by_scenario: defaultdict[str, list[Incident]] = defaultdict(list)
    for one in chosen:
        by_scenario[one.scenario].append(one)
    for scenario, own in by_scenario.items():
        bundle = loaded.bundles.get(scenario, loaded.evidence)
        around = _Around(loaded=loaded, bundle=bundle, folder=folder, stems=stems, same=same)
        for incident, shown in _of_scenario(own, loaded.verdicts[scenario], evidence_of(bundle), folder):
            page = _fitting(incident, shown, around)
            with written_whole(folder / f"{incident.stem}.html") as stream:
                stream.write(page)
    return stems


def remove_others(folder: Path, stems: frozenset[str]) -> None:
    """Removes pages of incidents that an earlier judgement found and this one did not, with their records."""
    for page in folder.glob("incident-*.html"):
        if page.stem not in stems and _is_ours(page):
            for suffix in (".html", CSV, CSV_PACKED, PARQUET):
                (folder / (page.stem + suffix)).unlink(missing_ok=True)


def _is_ours(page: Path) -> bool:
    with page.open("rb") as stream:
        return _MARK in stream.read(_MARK_WITHIN)


def _of_scenario(
    own: Sequence[Incident], verdict: Verdict, evidence: Evidence, folder: Path
) -> Iterator[tuple[Incident, Shown]]:
    """One incident after another, those of one partition together, because it is read once for all of them."""
    logs = log_lines(own, evidence)
    by_place: defaultdict[Place | None, list[Incident]] = defaultdict(list)
    for one in own:
        by_place[evidence.place(one)].append(one)
    for place, group in by_place.items():
        partition = None if place is None else partition_of(place, group, evidence)
        for incident in group:
            yield incident, _shown(incident, verdict, evidence, partition, logs[incident.stem], folder)


def _shown(
    incident: Incident,
    verdict: Verdict,
    evidence: Evidence,
    partition: Partition | None,
    logs: LogLines,
    folder: Path,
) -> Shown:
    missing = [*evidence.missing, *(partition.missing if partition else ())]
    if partition is None:
        missing.append("The findings name no single partition, so there is no history of one to show.")
    place = None if partition is None else partition.place
    times = times_of(incident, verdict, evidence.bundle, missing)
    picture = picture_of(incident, verdict, evidence, partition, times, missing)
    data = packed(picture)
    if len(data) > PICTURE_MAX:
        missing.append("The offsets by time do not fit into this page.")
        picture = replace(picture, positions=None, acked=(), leaders=())
        data = packed(picture)
    by_time = bool(picture.buckets and (picture.faults or picture.leaders or picture.span or picture.acked))
    moments, moments_left = moments_of(incident, times, evidence, place)
    epochs = () if partition is None else _nearest(partition.lines, incident, evidence)
    return Shown(
        partition=partition,
        epochs=epochs,
        picture=data if len(data) <= PICTURE_MAX else "",
        by_time=by_time,
        by_offset=bool(picture.by_offset),
        moments=moments,
        moments_left=moments_left,
        facts=facts_near(incident, times, evidence, place, logs, missing),
        elections=about_elections(incident, evidence, partition, epochs, logs),
        records=records_of(incident, verdict, evidence.bundle, folder),
        logs=logs,
        missing=tuple(dict.fromkeys(missing)),
    )


def _nearest(lines: Sequence[EpochLine], incident: Incident, evidence: Evidence) -> tuple[EpochLine, ...]:
    """The leader epochs that began nearest to the incident, in their order."""
    at_s = 0.0
    if incident.span_ns is not None and evidence.buckets is not None:
        at_s = (incident.span_ns[1] - evidence.buckets.start_ns) / 1e9
    nearest = sorted(lines, key=lambda line: abs(line.from_s - at_s))[:EPOCHS_SHOWN]
    return tuple(sorted(nearest, key=lambda line: line.from_s))


def _fitting(incident: Incident, shown: Shown, around: _Around) -> bytes:
    """The page with as many log lines as fit into SIZE_MAX."""
    while True:
        page = _page(incident, shown, around)
        lines = shown.logs.lines
        if len(page) <= SIZE_MAX or not lines:
            return page
        kept = lines[: len(lines) // 2]
        left_out = shown.logs.left_out + len(lines) - len(kept)
        shown = replace(shown, logs=replace(shown.logs, lines=kept, left_out=left_out))


def _page(incident: Incident, shown: Shown, around: _Around) -> bytes:
    scripts = [script(name) for name in _SCRIPTS]
    loaded, bundle = around.loaded, around.bundle
    title, promise = described(bundle)
    text = template(_TEMPLATE).render(
        title=f"{incident.kind}: {incident.amount}{f', {incident.where}' if incident.where else ''} - durability",
        one=incident,
        title_of_scenario=title,
        property=promise,
        same=around.same.get(incident.stem, ()),
        pages=around.stems,
        look="permitted" if incident.reasons else "fail",
        shown=shown,
        addresses=_addresses(bundle, around.folder),
        sources=issues_in([title, incident.scenario]),
        replay=replay(loaded, incident.scenario),
        replay_with=replay_with(loaded.summary),
        replay_lacks=replay_lacks(loaded.summary),
        other_release=replay(loaded, incident.scenario, "VERSION"),
        again=f"durability verify {shlex.quote(str(bundle))}",
        library=_packed_library(),
        scripts=scripts,
        clock=clock,
        policy=policy([script(_LIBRARY), *scripts]),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    return text.encode("utf-8", errors="backslashreplace")


@cache
def _packed_library() -> str:
    """The library of charts, as base64 of gzip: only pages of incidents need it, and most runs have none."""
    return base64.b64encode(gzip.compress(script(_LIBRARY).encode(), 9, mtime=0)).decode("ascii")


def _addresses(bundle: Path, folder: Path) -> Mapping[str, str]:
    """Links to the evidence, by the name of the file."""
    names = ("verdict.json", "findings.parquet", "history.json", "steps.json", LOGS)
    return {name: link(bundle / name, folder) for name in names if (bundle / name).exists()}
