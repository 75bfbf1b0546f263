"""The data of the pictures of one incident: its partition by time, and by offset."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from harness.evidence.verdicts import FINDINGS
from harness.model.verdict import Verdict
from reports.incidents.evidence import Evidence
from reports.incidents.moments import RecordTimes
from reports.incidents.offsets import Row, Stretch, Stretches, Track, numbers
from reports.incidents.partition import WHOLE, Partition, log_row, offsets_of
from reports.incidents.records import wanted_of
from reports.incidents.scan import rows
from reports.review.bands import Fault, Leadership, Mark, Positions, faults_of, seconds, short
from reports.review.content import Incident
from reports.review.rates import Buckets
from reports.review.timeline import tried

_SCALES: Final = {True: "whole log", False: "around the incident"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOffset:
    """The picture by offset. low, high: the offsets that it shows."""

    name: str
    low: int
    high: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The data of the pictures. start, start_ms, width_s, buckets: as in a timeline; buckets 0 = no time is known.

    span: the first and the last time of the incident. moments: the first acknowledgement of its records, and the ends
    of their transactions; the same text is one entry of the legend. acked, found: acknowledged records, and those of
    the incident. offsets: its lowest and its highest one.
    """

    start: str
    start_ms: float
    width_s: float
    buckets: int
    faults: Sequence[Fault]
    partition: str
    kind: str
    span: Mark | None
    moments: Sequence[Mark]
    leaders: Sequence[Leadership]
    positions: Positions | None
    acked: Sequence[Stretch]
    found: Sequence[Stretch]
    offsets: tuple[int, int] | None
    by_offset: Sequence[ByOffset]


def picture_of(
    incident: Incident,
    verdict: Verdict,
    evidence: Evidence,
    partition: Partition | None,
    times: RecordTimes,
    missing: list[str],
) -> Picture:
    """The data of an incident. partition: None if its findings name none. What cannot be read goes into `missing`."""
    buckets = evidence.buckets
    found: tuple[Stretch, ...] = ()
    own: Track | None = None
    if partition is not None:
        found, own = _found(incident, verdict, evidence, partition, missing)
    return Picture(
        start="" if buckets is None else f"{datetime.fromtimestamp(buckets.start_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}",
        start_ms=0 if buckets is None else buckets.start_ns / 1e6,
        width_s=0 if buckets is None else buckets.width_ns / 1e9,
        buckets=0 if buckets is None else buckets.count,
        faults=() if buckets is None else faults_of(evidence.steps, buckets, evidence.history),
        partition="" if partition is None else short(f"{partition.place[0]}-{partition.place[2]}"),
        kind=short(incident.kind),
        span=None if buckets is None else _span(incident, buckets),
        moments=() if buckets is None else tuple(_moments(times, buckets)),
        leaders=() if partition is None else partition.leaders,
        positions=None if partition is None else partition.positions,
        acked=() if partition is None else partition.acked,
        found=found,
        offsets=None if partition is None else offsets_of(incident, partition.place),
        by_offset=() if partition is None else tuple(_by_offset(incident, partition, own)),
    )


def packed(picture: Picture) -> str:
    """The picture as base64 of gzipped JSON."""
    return base64.b64encode(gzip.compress(msgspec.json.encode(picture), 9, mtime=0)).decode("ascii")


def _span(incident: Incident, buckets: Buckets) -> Mark | None:
    if incident.span_ns is None:
        return None
    first_ns, last_ns = incident.span_ns
    text = short(f"{incident.kind}: {incident.amount}")
    return Mark(text=text, from_s=seconds(first_ns, buckets), to_s=seconds(last_ns, buckets))


def _moments(times: RecordTimes, buckets: Buckets) -> Iterator[Mark]:
    for text, at_ns in times.named:
        at_s = seconds(at_ns, buckets)
        yield Mark(text=text, from_s=at_s, to_s=at_s)


def _found(
    incident: Incident, verdict: Verdict, evidence: Evidence, partition: Partition, missing: list[str]
) -> tuple[tuple[Stretch, ...], Track]:
    """The records of findings.parquet, by when they were answered (else sent), and by offset."""
    track = Track(short(incident.kind), "found", [*partition.scales.values()], partition.epochs)
    stretches = None if evidence.buckets is None else Stretches(evidence.buckets, partition.epochs)

    def read() -> None:
        wanted = wanted_of(incident, verdict) & pc.field("offset").is_valid()
        columns = ["offset", "called_ns", "returned_ns"]
        for batch in rows(evidence.bundle / FINDINGS, wanted, columns) if track_needed else ():
            track.add(numbers(batch["offset"]))
            if stretches is not None:
                table = pa.Table.from_batches([batch])
                times = table.append_column("at", pc.coalesce(table["returned_ns"], table["called_ns"]))
                timed = times.filter(times["at"].is_valid())
                stretches.add(numbers(timed["offset"]), numbers(timed["at"]))

    track_needed = (evidence.bundle / FINDINGS).is_file()
    tried(read, None, missing)
    return () if stretches is None else stretches.made(), track


def _by_offset(incident: Incident, partition: Partition, found: Track | None) -> Sequence[ByOffset]:
    """The whole log, and the offsets around the incident if they are only a part of it."""
    made = []
    for index, (stem, scale) in enumerate(partition.scales.items()):
        if stem not in (WHOLE, incident.stem):
            continue
        tracks = [one for one in (*partition.tracks[:1], found, *partition.tracks[1:]) if one is not None and one.total]
        made.append(
            ByOffset(
                name=_SCALES[stem == WHOLE],
                low=scale.first,
                high=scale.end - 1,
                rows=(*(one.row(index) for one in tracks), *(log_row(one, scale) for one in partition.replicas)),
            )
        )
    different = {(one.low, one.high): one for one in reversed(made)}
    return [*different.values()][::-1]
