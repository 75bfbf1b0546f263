"""The timeline of one scenario: when what happened, as the data that the chart of the page draws."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from harness.evidence.documents import is_there, read_json
from harness.evidence.history import history_in
from harness.evidence.parsing import parse
from harness.model.documents.steps import Step, Steps
from harness.model.errors import BadEvidence
from harness.model.history.history import History
from reports.review.bands import (
    ROWS_MAX,
    Fault,
    Leaders,
    Mark,
    Place,
    Positions,
    faults_of,
    leaders_of,
    places_of,
    positions_of,
    seconds,
    short,
)
from reports.review.details import Details, write_details
from reports.review.rates import Buckets, Rates, buckets_of, rates_of, span_of

BUCKETS: Final = 600
INCIDENTS_MAX: Final = 12  # a row of the chart each; the page lists all
_COARSEST: Final = 75  # fewer buckets would hide a fault of some seconds
_NO_STEPS: Final[Steps] = ()
_NO_POSITIONS: Final[tuple[Positions, ...]] = ()
_NO_LEDGER: Final = "The ledger has no rows, so acks and latencies are not shown."
_NO_HISTORY: Final = "There is no history.json, so leaders and ISRs are not shown."
_NO_OFFSETS: Final = "The table positions has no rows, so offsets of replicas are not shown."
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The data of the chart.

    start: UTC, to a second. start_ns: epoch nanoseconds. start_ms: the same in milliseconds, because numbers of
    JavaScript do not hold nanoseconds. width_s: of one bucket, in seconds. rates: None = there is no ledger to count.
    missing: the parts that the evidence lacks, a sentence each. details: the files beside the page; None = none.
    """

    start: str
    start_ns: int
    start_ms: float
    width_s: float
    buckets: int
    rates: Rates | None
    faults: Sequence[Fault]
    incidents: Sequence[Mark]
    leaders: Sequence[Leaders]
    positions: Sequence[Positions]
    missing: Sequence[str]
    details: Details | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """An incident with the first and the last time of its records, epoch nanoseconds. moments: see `Mark`."""

    text: str
    first_ns: int
    last_ns: int
    moments: tuple[tuple[str, int], ...] = ()


def timeline_of(
    bundle: Path, incidents: Sequence[Marked] = (), count: int = BUCKETS, details: Path | None = None
) -> Timeline | None:
    """The timeline of a bundle with up to `count` buckets; None if neither its ledger nor its steps say a time.

    It raises nothing for damaged or missing files: `missing` says what the chart lacks because of them. details: the
    folder for files of details, which are written if it is given; OSError where that is not possible.
    """
    missing: list[str] = []
    steps = tried(lambda: steps_of(bundle), _NO_STEPS, missing)
    span = tried(lambda: span_of(bundle), None, missing, _NO_LEDGER)
    buckets = buckets_in(span, steps, count)
    if buckets is None:
        return None
    history = tried(lambda: history_in(bundle), None, missing, _NO_HISTORY)
    places: Sequence[Place] = tried(lambda: places_of(bundle), (), missing)
    positions = tried(lambda: positions_of(bundle, history, buckets), _NO_POSITIONS, missing, _NO_OFFSETS)
    leaders = _led(history, places, buckets)
    if len(leaders) == ROWS_MAX:
        missing.append(f"Leaders of the {ROWS_MAX} partitions with the most changes are shown.")
    beside = None
    if details is not None:
        beside = tried(lambda: write_details(bundle, buckets, history, positions, details, missing), None, missing)
    return Timeline(
        start=_utc(buckets.start_ns),
        start_ns=buckets.start_ns,
        start_ms=buckets.start_ns / 1e6,
        width_s=buckets.width_ns / 1e9,
        buckets=buckets.count,
        rates=None if span is None else tried(lambda: rates_of(bundle, buckets), None, missing),
        faults=faults_of(steps, buckets, history),
        incidents=tuple(
            Mark(
                text=one.text,
                from_s=seconds(one.first_ns, buckets),
                to_s=seconds(one.last_ns, buckets),
                moments=tuple((text, seconds(at_ns, buckets)) for text, at_ns in one.moments),
            )
            for one in incidents[:INCIDENTS_MAX]
        ),
        leaders=leaders,
        positions=positions,
        missing=tuple(short(text) for text in dict.fromkeys(missing)),
        details=beside,
    )


def packed(
    bundle: Path, limit: int, incidents: Sequence[Marked] = (), whole: Timeline | None = None
) -> tuple[str, Timeline | None]:
    """The timeline as base64 of gzipped JSON of at most `limit` characters, with fewer buckets where that is needed.

    Offsets of replicas are left out where even that does not suffice. Without a timeline the text is empty. whole: the
    timeline with BUCKETS buckets, if it is known already.
    """
    count, timeline = BUCKETS, whole or timeline_of(bundle, incidents)
    while timeline is not None:
        text = base64.b64encode(gzip.compress(msgspec.json.encode(timeline), 9, mtime=0)).decode("ascii")
        if len(text) <= limit:
            return text, timeline
        if count > _COARSEST:
            count //= 2
            coarser = timeline_of(bundle, incidents, count)
            timeline = None if coarser is None else replace(coarser, details=timeline.details)
        elif timeline.positions:
            lacks = "Offsets of replicas do not fit into this page: run durability report on this bundle alone."
            timeline = replace(timeline, positions=(), missing=(*timeline.missing, lacks))
        else:
            break
    return "", timeline


def steps_of(bundle: Path) -> Steps:
    """The steps of a bundle; () if it has no steps.json. Raises BadEvidence if the document is damaged."""
    path = bundle / "steps.json"
    return parse(path, read_json(path), Steps) if is_there(path) else ()


def _led(history: History | None, places: Sequence[Place], buckets: Buckets) -> tuple[Leaders, ...]:
    return () if history is None else leaders_of(history, places, buckets)


def buckets_in(span: tuple[int, int] | None, steps: Sequence[Step], count: int) -> Buckets | None:
    """From the first to the last time that the ledger or a step has."""
    times = [*(span or ())]
    times += [t for step in steps for t in (step.started_ns, step.ended_ns, step.healed_ns) if t is not None]
    return buckets_of(min(times), max(times), count) if times else None


def tried(read: Callable[[], _T], otherwise: _T, missing: list[str], empty: str = "") -> _T:
    """Returns the result, or `otherwise` with the reason in `missing`. A part without a column is a KeyError.

    empty: what to say of a result without anything, if nothing is damaged; "" = nothing.
    """
    try:
        found = read()
    except BadEvidence as damage:
        missing.append(f"{damage}.")
    except (KeyError, TypeError, ValueError) as damage:
        missing.append(f"A table of the evidence is not as FORMAT.md says ({type(damage).__name__}: {damage}).")
    else:
        if empty and not found:
            missing.append(empty)
        return found
    return otherwise


def _utc(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"
