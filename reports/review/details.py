"""Files beside the page, which the chart loads where a reader zooms in: finer counts, and the single operations.

The page counts the operations of a run in at most 600 intervals. Where too few of them are on the screen, the chart
loads the operations of that time, and counts and shows them exactly. A long run has too many of them for a wide range,
so it has the same counts in intervals that are 8 and 64 times as short, too.

Each file is a script that hands over base64 of gzipped JSON, because a page that is opened from disk may load scripts
only. Columns are differences between neighbours, which takes less than a byte for most operations.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from harness.evidence.parts import opened
from harness.model.history.history import History
from reports.review.bands import Positions, names_of, positions_of, short
from reports.review.levels import LEVEL_BUCKETS, Level, Levels
from reports.review.operations import (
    FIRST_NS,
    LAST_NS,
    OUTCOMES,
    READS,
    SENDS,
    Operations,
    operations_at_most,
    operations_of,
    times_of,
)
from reports.review.rates import Buckets, Numbers, parts_of
from reports.whole_files import written_whole

OPERATIONS_MAX: Final = 20_000_000  # of a run: their files have up to 100 MB
# In memory. A part of a table spans the whole run, so that each read of a range of time reads nearly all row groups.
AT_ONCE_MAX: Final = 4_000_000
PART_ROWS: Final = 250_000  # operations that are counted and sorted together
FILE_ROWS: Final = 50_000  # operations of a file
POSITIONS_MAX: Final = 200_000  # samples of offsets
_LEVEL: Final = 4  # of compression: higher ones cost twice as much for 2 % less
_BEGIN: Final = b"charts.arrived("
_OPERATIONS: Final = "operations"
_POSITIONS: Final = "positions"
_SENT: Final = ("place", "stream", "seq", "offset", "outcome", "error", "called_ns", "returned_ns")
_READ: Final = ("reader", "place", "offset", "given_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The files beside the page.

    folder: their place, from the page. stamp: is in each file, so that files of another page are noticed. starts_ns,
    rows: of each file of operations, its begin since the start of the timeline, and how many it has; it ends where the
    next one begins. level_buckets: intervals in a file of a level. positions: whether there is a file with all samples
    of offsets.
    """

    folder: str
    stamp: str
    starts_ns: Sequence[int]
    rows: Sequence[int]
    levels: Sequence[Level]
    level_buckets: int
    positions: bool


@dataclass(frozen=True, slots=True)
class _Window:
    """A range of time. starts_ns: of its parts; each ends where the next one starts, and the last one before
    `end_ns`."""

    starts_ns: Sequence[int]
    end_ns: int


def write_details(
    bundle: Path,
    buckets: Buckets,
    history: History | None,
    shown: Sequence[Positions],
    folder: Path,
    missing: list[str],
) -> Details | None:
    """Writes the files into a folder and removes those of an earlier page; None if there is no operation to show.

    buckets: of the timeline. shown: the samples of offsets that are in the page. missing: gets a sentence if there are
    too many operations. Raises BadEvidence for a damaged part, and OSError if a file cannot be written.
    """
    rows = operations_at_most(bundle)
    files = _Files(folder, f"{buckets.start_ns} {buckets.width_ns} {rows}")
    levels = Levels(buckets, rows)
    windows = _windows(bundle, levels.slots, rows) if rows <= OPERATIONS_MAX else None
    if windows is None:
        missing.append(
            f"The chart gets no finer than its intervals: single operations are shown up to {OPERATIONS_MAX:,} of a "
            f"run and {AT_ONCE_MAX:,} at once, and this run has {rows:,}."
        )
        files.remove_others()
        return None
    starts_ns: list[int] = []
    counts: list[int] = []
    for window in windows:
        for found in operations_of(bundle, np.asarray(window.starts_ns, np.int64), window.end_ns):
            levels.add(found)
            firsts_ns = _firsts_ns(found)
            for first_ns, some in zip(firsts_ns.tolist(), found.parts(firsts_ns), strict=True):
                files.write(f"{_OPERATIONS}-{len(counts)}", _document(some, buckets.start_ns))
                starts_ns.append(first_ns - buckets.start_ns)
                counts.append(some.count)
    positions = _all_positions(bundle, history, buckets, shown)
    if positions:
        files.write(_POSITIONS, positions)
    for name, document in levels.documents():
        files.write(name, document)
    files.remove_others()
    if not counts:
        return None
    return Details(
        folder=folder.name,
        stamp=files.stamp,
        starts_ns=starts_ns,
        rows=counts,
        levels=levels.made,
        level_buckets=LEVEL_BUCKETS,
        positions=bool(positions),
    )


def _windows(bundle: Path, slots: Buckets, rows: int) -> list[_Window] | None:
    """Ranges of time with up to AT_ONCE_MAX operations each. Their parts have about PART_ROWS, and begin and end with a
    slot. None: one slot has more than fit into memory."""
    if rows <= PART_ROWS:
        return [_Window([FIRST_NS], LAST_NS)]
    counts = sum((slots.counted(times) for table in (SENDS, READS) for times in times_of(bundle, table)), start=0)
    assert isinstance(counts, np.ndarray)
    if counts.max() > AT_ONCE_MAX:
        return None
    windows: list[_Window] = []
    starts_ns, in_window, in_part = [FIRST_NS], 0, 0
    for slot, count in enumerate(counts.tolist()):
        slot_ns = slots.start_ns + slot * slots.width_ns
        if in_window + count > AT_ONCE_MAX:
            windows.append(_Window(starts_ns, slot_ns))
            starts_ns, in_window, in_part = [slot_ns], 0, 0
        elif in_part and in_part + count > PART_ROWS:
            starts_ns.append(slot_ns)
            in_part = 0
        in_window, in_part = in_window + count, in_part + count
    return [*windows, _Window(starts_ns, LAST_NS)]


def _firsts_ns(found: Operations) -> Numbers:
    """The first time in each file. The operations of one time are in one file."""
    each = [of[at] for of, at in ((found.sends, SENDS.at), (found.reads, READS.at)) if of]
    return np.unique(np.sort(np.concatenate(each))[::FILE_ROWS]) if each else np.zeros(0, np.int64)


def _document(found: Operations, start_ns: int) -> dict[str, object]:
    """The content of a file of operations. Times are nanoseconds since `start_ns`."""
    sends = _ordered(found.sends, ("stream", "seq"), start_ns)
    reads = _ordered(found.reads, ("reader", "place", "offset"), start_ns)
    names = names_of(found.places)
    return {
        "places": [names[place] for place in found.places],
        "readers": [short(name) for name in found.readers],
        "errors": [short(text) for text in found.errors],
        "outcomes": [outcome.value for outcome in OUTCOMES],
        "sends": {name: sends[name] for name in _SENT if sends},
        "reads": {name: reads[name] for name in _READ if reads},
    }


def _ordered(columns: Mapping[str, Numbers], by: Sequence[str], start_ns: int) -> dict[str, list[int]]:
    """The columns as differences between neighbours, in an order in which these are small."""
    if not columns:
        return {}
    order = np.lexsort([columns[name] for name in reversed(by)])
    since = {name: start_ns if name.endswith("_ns") else 0 for name in columns}
    return {name: np.diff(column[order] - since[name], prepend=0).tolist() for name, column in columns.items()}


def _all_positions(
    bundle: Path, history: History | None, buckets: Buckets, shown: Sequence[Positions]
) -> Sequence[Positions]:
    """All samples of offsets; () if the page has them already, or they are too many."""
    there = sum(value is not None for of in shown for points in of.ends.values() for _, value in points)
    total = 0
    for file in parts_of(bundle, "positions"):
        with opened(file) as part:
            total += part.metadata.num_rows
    return positions_of(bundle, history, replace(buckets, width_ns=1)) if there < total <= POSITIONS_MAX else ()


class _Files:
    """The files of a folder."""

    def __init__(self, folder: Path, of: str) -> None:
        self.folder = folder
        self.stamp = hashlib.sha256(of.encode()).hexdigest()[:12]
        self._written: set[str] = set()

    def write(self, name: str, document: object) -> None:
        """Writes a file whole. `charts.arrived` is in common.js."""
        packed = base64.b64encode(gzip.compress(msgspec.json.encode(document), _LEVEL, mtime=0)).decode("ascii")
        self.folder.mkdir(parents=True, exist_ok=True)
        with written_whole(self.folder / f"{name}.js") as stream:
            stream.write(_BEGIN + f'"{self.stamp}", "{name}", "{packed}");\n'.encode("ascii"))
        self._written.add(f"{name}.js")

    def remove_others(self) -> None:
        """Removes the files that an earlier page had and this one has not."""
        for file in self.folder.glob("*.js"):
            if file.name not in self._written and _is_ours(file):
                file.unlink()


def _is_ours(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_BEGIN)) == _BEGIN
