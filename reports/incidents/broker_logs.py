"""Lines of the broker logs around incidents.

The logs of a run may have millions of lines, and a line may have any length. Each file is read once for all incidents
of its bundle, and of each line only the begin is kept.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from statistics import median_low
from typing import BinaryIO, Final

from harness.evidence.layout import LOGS
from harness.model.history.history import History
from reports.incidents.evidence import Evidence
from reports.review.bands import Place
from reports.review.content import Incident
from reports.summary import clock

LINES_SHOWN: Final = 200
FILES_MAX: Final = 100
TEXT_MAX: Final = 2_000  # characters of a line
CONTINUED_MAX: Final = 6  # lines of a stack trace
CONTINUED_TEXT_MAX: Final = 300
ALIKE_MAX: Final = 3  # lines of one node that differ in numbers alone
BEFORE_NS: Final = 5_000_000_000
AFTER_NS: Final = 10_000_000_000
_ELECTION_WITHIN_NS: Final = 120_000_000_000  # an incident often shows at the next election
_SECOND_NS: Final = 1_000_000_000
_QUARTER_NS: Final = 900 * _SECOND_NS  # time zones differ by quarters of an hour
_READ: Final = 1 << 16
_HEAD: Final = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3})\] ([A-Z]{4,5}) ")
_DIGITS: Final = re.compile(r"[0-9a-f]*\d[0-9a-f]*")
# Words of lines about changes of leaders, ISRs and logs.
_TELLING: Final = re.compile(
    r"unclean|truncat|\bISR\b|leader epoch|leaderEpoch: |high ?watermark|recover|diverg|out of range", re.IGNORECASE
)
_TELLS: Final = 0
_NAMES: Final = 1
_LOUD: Final = {"ERROR": 2, "FATAL": 2, "WARN": 3}
_QUIET: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One entry of a log, with the time in UTC.

    node: the name of its file without the suffix. telling: it is about the leader, the ISR or the logs of the
    partition.
    more: the lines after it, such as a stack trace.
    """

    at_ns: int
    at: str
    node: str
    level: str
    text: str
    telling: bool
    more: tuple[str, ...]

    @property
    def loud(self) -> bool:
        """Whether it is a warning or an error."""
        return self.level in _LOUD


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time around an incident, epoch nanoseconds. because: what it is about."""

    from_ns: int
    to_ns: int
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Log lines around one incident, in the order of time. left_out: others in the window. zone: hours from UTC."""

    window: Window | None
    lines: tuple[LogLine, ...]
    left_out: int
    zone: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    at_ns: int
    node: str
    level: str
    text: str
    more: list[str]


@dataclass(slots=True)
class _Chosen:
    """The most telling lines of one incident: those that name the partition first, then errors, then the nearest."""

    window: Window
    span_ns: tuple[int, int]
    named: re.Pattern[str] | None
    seen: int = 0
    _heap: list[tuple[tuple[int, int], int, _Entry]] = field(default_factory=list)
    _alike: Counter[tuple[str, str]] = field(default_factory=Counter)
    _order: Iterator[int] = field(default_factory=count)

    def add(self, entry: _Entry) -> None:
        self.seen += 1
        shape = entry.node, _DIGITS.sub("#", entry.text[:300])
        self._alike[shape] += 1
        if self._alike[shape] > ALIKE_MAX:
            return
        weight = self._weight(entry)
        item = (-weight[0], -weight[1]), -next(self._order), entry
        if len(self._heap) < LINES_SHOWN:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)

    def _weight(self, entry: _Entry) -> tuple[int, int]:
        first_ns, last_ns = self.span_ns
        away_ns = max(0, first_ns - entry.at_ns, entry.at_ns - last_ns)
        if self.named is not None and self.named.search(entry.text):
            return (_TELLS if _TELLING.search(entry.text) else _NAMES), away_ns
        return _LOUD.get(entry.level, _QUIET), away_ns

    @property
    def lines(self) -> tuple[LogLine, ...]:
        chosen = sorted(((weight, entry) for weight, _, entry in self._heap), key=lambda pair: pair[1].at_ns)
        return tuple(
            LogLine(
                at_ns=entry.at_ns,
                at=clock(entry.at_ns),
                node=entry.node,
                level=entry.level,
                text=entry.text,
                telling=-weight[0] == _TELLS,
                more=tuple(entry.more),
            )
            for weight, entry in chosen
        )


def log_lines(incidents: Sequence[Incident], evidence: Evidence) -> dict[str, LogLines]:
    """The log lines around each incident, by the stem of its name. It raises nothing for damaged or missing files."""
    files = _files(evidence.bundle / LOGS)
    if not files:
        why = ("The bundle has no broker logs.",)
        nothing = LogLines(window=None, lines=(), left_out=0, zone="", missing=why)
        return {one.stem: nothing for one in incidents}
    missing: list[str] = []
    ahead_ns = _ahead_of_utc(files, evidence.ended_ns, missing)
    chosen = {one.stem: made for one in incidents if (made := _chosen(one, evidence)) is not None}
    times = _merged([one.window for one in chosen.values()])
    for file in files[:FILES_MAX]:
        _read(file, ahead_ns, times, [*chosen.values()], missing)
    if len(files) > FILES_MAX:
        missing.append(f"Only the first {FILES_MAX} of {len(files)} files of logs were read.")
    hours = ahead_ns / 3600 / _SECOND_NS
    zone = "" if not ahead_ns else f"{abs(hours):g} h {'ahead of' if hours > 0 else 'behind'} UTC"
    return {one.stem: _lines_of(chosen.get(one.stem), zone, missing) for one in incidents}


def _lines_of(chosen: _Chosen | None, zone: str, missing: Sequence[str]) -> LogLines:
    if chosen is None:
        why = "No time is known of this incident or of a fault, so no log lines are shown."
        return LogLines(window=None, lines=(), left_out=0, zone=zone, missing=(why, *missing))
    lines = chosen.lines
    left_out = chosen.seen - len(lines)
    return LogLines(window=chosen.window, lines=lines, left_out=left_out, zone=zone, missing=tuple(missing))


def _chosen(incident: Incident, evidence: Evidence) -> _Chosen | None:
    """An empty collection for an incident; None if no time is known."""
    place = evidence.place(incident)
    named = None
    if place is not None:
        named = re.compile(rf"(?<![\w.-]){re.escape(f'{place[0]}-{place[2]}')}(?!\w)")
    span_ns, because = incident.span_ns, "the incident"
    if span_ns is None:
        steps = [step for step in evidence.steps if step.is_fault and step.started_ns is not None]
        own = [step for step in steps if step.name == incident.step]
        times = [t for s in own or steps for t in (s.started_ns, s.ended_ns, s.healed_ns) if t is not None]
        if not times:
            return None
        span_ns = min(times), max(times)
        because = (
            f"the fault {incident.step}, as the incident has no time"
            if own
            else ("all faults, as the incident has no time")
        )
    from_ns, to_ns = span_ns[0] - BEFORE_NS, span_ns[1] + AFTER_NS
    election_ns = _next_election(evidence.history, place, span_ns[1])
    if election_ns is not None and election_ns > to_ns - BEFORE_NS:
        to_ns, because = election_ns + BEFORE_NS, f"{because}, up to the next election of a leader"
    return _Chosen(window=Window(from_ns=from_ns, to_ns=to_ns, because=because), span_ns=span_ns, named=named)


def _next_election(history: History | None, place: Place | None, after_ns: int) -> int | None:
    if history is None or place is None:
        return None
    times = [one.after.time_ns for one in history.elections(place[1], place[2])]
    later = [at_ns for at_ns in times if after_ns <= at_ns <= after_ns + _ELECTION_WITHIN_NS]
    return min(later, default=None)


def _files(folder: Path) -> list[Path]:
    """The regular files of the logs. A link may lead out of the bundle, and is not followed."""
    try:
        return sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
    except OSError:
        return []


def _ahead_of_utc(files: Sequence[Path], ended_ns: int | None, missing: list[str]) -> int:
    """By how much the logs are ahead of UTC, as their lines have the local time without a zone.

    The last lines were written at about the end of the run. Most nodes decide, because a fault may change a clock.
    """
    if ended_ns is None:
        missing.append("It is not known when the run ended, so the times of the logs are taken for UTC.")
        return 0
    lasts = [last for file in files[:FILES_MAX] if (last := _last_time(file)) is not None]
    return median_low([round((last - ended_ns) / _QUARTER_NS) * _QUARTER_NS for last in lasts]) if lasts else 0


def _last_time(file: Path) -> int | None:
    """The last time near the end of a file, epoch nanoseconds, if its zone was UTC."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - 4 * _READ))
            heads = [_time_of(found) for found in _HEAD.finditer(stream.read(4 * _READ))]
    except OSError:
        return None
    return next((at_ns for at_ns in reversed(heads) if at_ns is not None), None)


def _merged(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """The times of all windows as intervals that do not overlap, in their order."""
    merged: list[tuple[int, int]] = []
    for window in sorted(windows, key=lambda one: one.from_ns):
        if merged and window.from_ns <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], window.to_ns)
        else:
            merged.append((window.from_ns, window.to_ns))
    return merged


def _within(at_ns: int, times: Sequence[tuple[int, int]]) -> bool:
    found = bisect_right(times, at_ns, key=lambda one: one[0])
    return found > 0 and at_ns <= times[found - 1][1]


def _read(
    file: Path, ahead_ns: int, times: Sequence[tuple[int, int]], wanted: Sequence[_Chosen], missing: list[str]
) -> None:
    """Offers each entry of a file to the incidents around which it was written."""
    node = file.stem
    current: _Entry | None = None
    try:
        with file.open("rb") as stream:
            for begin, length in _lines(stream):
                head = _HEAD.match(begin)
                at_ns = None if head is None else _time_of(head)
                if head is None or at_ns is None:
                    if current is not None and len(current.more) < CONTINUED_MAX:
                        current.more.append(_shortened(begin, length, CONTINUED_TEXT_MAX))
                    continue
                if current is not None:
                    _offer(current, wanted)
                at_ns -= ahead_ns
                current = None
                if _within(at_ns, times):
                    text = _shortened(begin[head.end() :], length)
                    current = _Entry(at_ns=at_ns, node=node, level=head[3].decode("ascii"), text=text, more=[])
            if current is not None:
                _offer(current, wanted)
    except OSError as refusal:
        missing.append(f"{file.name} cannot be read ({refusal.strerror}).")


def _offer(entry: _Entry, wanted: Sequence[_Chosen]) -> None:
    for one in wanted:
        if one.window.from_ns <= entry.at_ns <= one.window.to_ns:
            one.add(entry)


def _lines(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The begin of each line, and its whole length in bytes."""
    while piece := stream.readline(_READ):
        begin, length = piece, len(piece)
        while piece and not piece.endswith(b"\n"):
            piece = stream.readline(_READ)
            length += len(piece)
        yield begin.rstrip(b"\r\n"), length


def _shortened(begin: bytes, length: int, most: int = TEXT_MAX) -> str:
    text = begin.decode("utf-8", errors="replace")
    return text if len(text) <= most and length <= _READ else f"{text[:most]} … (a line of {length:,} bytes)"


def _time_of(head: re.Match[bytes]) -> int | None:
    second = _second_of(head[1])
    return None if second is None else second * _SECOND_NS + int(head[2]) * 1_000_000


@lru_cache(maxsize=1024)  # many lines have the same second
def _second_of(text: bytes) -> int | None:
    try:
        return int(datetime.strptime(text.decode("ascii"), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
