"""Which offsets of a partition were acknowledged, found, read back and stored, by time and by offset.

The tables of a run may have millions of rows. Only counts for a fixed number of cells are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.model.outcome import Outcome
from reports.incidents.scan import Wanted, equals, rows
from reports.review.bands import Place
from reports.review.rates import Buckets, Numbers, parts_of

CELLS: Final = 1000  # of the picture by offset, which is about as many points wide
READERS_MAX: Final = 12  # rows of that picture
LIVE: Final = "live readers"
_READER: Final = ("reader", "kind", "isolation")
_NEVER: Final = -1
_MARGIN: Final = 0.25  # of the offsets of the incident, on both sides of them
_MARGIN_LEAST: Final = 20
_Shares: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Records that were answered within one bucket in one leader epoch, by their offsets.

    Times are seconds since the start. epoch: None = not known.
    """

    from_s: float
    to_s: float
    low: int
    high: int
    count: int
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Offsets from `low` to `high`. share: of them that are there, from 0 to 1. epoch: None = not known, or several."""

    low: int
    high: int
    share: float
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the picture by offset. look: `acked`, `found`, `read`, `live` or `log`. total: of its records."""

    name: str
    look: str
    total: int
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """The leader epochs of a partition: the times from which each counted, epoch nanoseconds, in their order."""

    from_ns: Numbers
    numbers: Sequence[int]

    def at(self, times_ns: Numbers) -> Numbers:
        """The index of the epoch at each time; times before the first one count as 0."""
        return np.asarray(np.clip(np.searchsorted(self.from_ns, times_ns, side="right") - 1, 0, None), np.int64)

    def number(self, index: int) -> int | None:
        """The number of an epoch by its index; None if none is known."""
        return self.numbers[index] if self.numbers else None


@dataclass(slots=True)
class Stretches:
    """Collects records by bucket and leader epoch."""

    buckets: Buckets
    epochs: Epochs
    _low: Numbers = field(init=False)
    _high: Numbers = field(init=False)
    _count: Numbers = field(init=False)

    def __post_init__(self) -> None:
        size = self.buckets.count * self._each
        self._low = np.full(size, np.iinfo(np.int64).max, np.int64)
        self._high = np.full(size, _NEVER, np.int64)
        self._count = np.zeros(size, np.int64)

    @property
    def _each(self) -> int:
        return max(1, len(self.epochs.numbers))

    def add(self, offsets: Numbers, times_ns: Numbers) -> None:
        """Counts records at these offsets and times."""
        at = self.buckets.of(times_ns) * self._each + self.epochs.at(times_ns)
        np.minimum.at(self._low, at, offsets)
        np.maximum.at(self._high, at, offsets)
        np.add.at(self._count, at, 1)

    def made(self) -> tuple[Stretch, ...]:
        """The stretches that have records, in the order of time."""
        width_s = self.buckets.width_ns / 1e9
        return tuple(
            Stretch(
                from_s=round(at // self._each * width_s, 3),
                to_s=round((at // self._each + 1) * width_s, 3),
                low=int(self._low[at]),
                high=int(self._high[at]),
                count=int(self._count[at]),
                epoch=self.epochs.number(at % self._each),
            )
            for at in np.flatnonzero(self._count).tolist()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Equal cells of offsets. first: the lowest offset. width: offsets in a cell."""

    first: int
    width: int
    count: int

    @property
    def end(self) -> int:
        """The offset behind the last cell."""
        return self.first + self.width * self.count

    def within(self, offsets: Numbers) -> npt.NDArray[np.bool_]:
        """Which offsets are in a cell."""
        return np.asarray((offsets >= self.first) & (offsets < self.end), np.bool_)


def scale_of(low: int, high: int) -> Scale:
    """At most CELLS cells that hold the offsets from `low` to `high`."""
    width = max(1, -(-(high - low + 1) // CELLS))
    return Scale(first=low, width=width, count=-(-(high - low + 1) // width))


def near(low: int, high: int, whole: tuple[int, int]) -> tuple[int, int]:
    """The offsets around those of an incident, within the whole log."""
    margin = max(_MARGIN_LEAST, round((high - low) * _MARGIN))
    return max(whole[0], low - margin), min(whole[1], high + margin)


@dataclass(slots=True)
class Cells:
    """Collects offsets by cell, with the epoch of each if it is known."""

    scale: Scale
    epochs: Epochs
    _counts: Numbers = field(init=False)
    _lowest: Numbers = field(init=False)
    _highest: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self._counts = np.zeros(self.scale.count, np.int64)
        self._lowest = np.full(self.scale.count, np.iinfo(np.int64).max, np.int64)
        self._highest = np.full(self.scale.count, _NEVER, np.int64)

    def add(self, offsets: Numbers, epoch_at: Numbers | None = None) -> None:
        """Counts these offsets. epoch_at: the index of the epoch of each."""
        chosen = self.scale.within(offsets)
        at = (offsets[chosen] - self.scale.first) // self.scale.width
        self._counts += np.bincount(at, minlength=self.scale.count)
        if epoch_at is not None:
            np.minimum.at(self._lowest, at, epoch_at[chosen])
            np.maximum.at(self._highest, at, epoch_at[chosen])

    def parts(self) -> Iterator[Part]:
        """Neighbouring cells with the same share and epoch as one; cells without a record are left out."""
        shares = np.minimum(1.0, self._counts / self.scale.width).round(2)
        one_epoch = np.where(self._lowest == self._highest, self._highest, _NEVER)
        changes = np.flatnonzero((np.diff(shares) != 0) | (np.diff(one_epoch) != 0)) + 1
        for first, end in zip([0, *changes.tolist()], [*changes.tolist(), self.scale.count], strict=True):
            if self._counts[first]:
                epoch = int(one_epoch[first])
                yield Part(
                    low=self.scale.first + first * self.scale.width,
                    high=self.scale.first + end * self.scale.width - 1,
                    share=float(max(0.01, shares[first])),
                    epoch=None if epoch == _NEVER else self.epochs.number(epoch),
                )


class Track:
    """One row of the picture, collected at each of several scales."""

    def __init__(self, name: str, look: str, scales: Sequence[Scale], epochs: Epochs) -> None:
        self.name, self.look, self.total = name, look, 0
        self.low: int | None = None
        self.high: int | None = None
        self._cells = [Cells(scale, epochs) for scale in scales]

    def add(self, offsets: Numbers, epoch_at: Numbers | None = None) -> None:
        """Counts these offsets at every scale."""
        if not len(offsets):
            return
        low, high = int(offsets.min()), int(offsets.max())
        self.low = low if self.low is None else min(low, self.low)
        self.high = high if self.high is None else max(high, self.high)
        self.total += len(offsets)
        for cells in self._cells:
            cells.add(offsets, epoch_at)

    def row(self, scale: int) -> Row:
        """The row at one of the scales."""
        return Row(name=self.name, look=self.look, total=self.total, parts=tuple(self._cells[scale].parts()))


def acked_in(bundle: Path, place: Place) -> Iterator[tuple[Numbers, Numbers]]:
    """Offsets of acknowledged records of a partition, with the times of their answers, epoch nanoseconds."""
    wanted = _at(place) & equals("outcome", Outcome.ACKED.value) & pc.field("offset").is_valid()
    for file in parts_of(bundle, "ledger"):
        for batch in rows(file, wanted, ["offset", "returned_ns"]):
            yield numbers(batch["offset"]), numbers(batch["returned_ns"])


def observed_in(bundle: Path, place: Place) -> Iterator[tuple[str, str, Numbers]]:
    """Offsets that readers received from a partition: the name of the row, its look, and some offsets."""
    for file in parts_of(bundle, "observations"):
        for batch in rows(file, _at(place), [*_READER, "offset"]):
            for (reader, kind, isolation), chosen in _by_reader(batch):
                offsets = numbers(chosen["offset"])
                level = f"{isolation}, " if isolation else ""
                if kind == "live":
                    yield f"{level}{LIVE}", "live", offsets
                elif kind in ("drain", "replica"):
                    yield f"{level}{_who(reader, isolation)}, after healing", "read", offsets


def _who(reader: str, isolation: str) -> str:
    """The name of a reader without its isolation level: "leader" of "leader-committed"."""
    return reader.removesuffix(f"-{isolation.removeprefix('read_')}")


def _by_reader(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str, str], pa.RecordBatch]]:
    """A part of the table has one reader, as a rule."""
    different = pa.Table.from_batches([batch]).group_by([*_READER]).aggregate([]).to_pylist()
    for one in different:
        wanted = reduce(pc.and_, (pc.equal(batch[name], one[name]) for name in _READER))
        yield (one["reader"], one["kind"], one["isolation"]), batch if len(different) == 1 else batch.filter(wanted)


def span_of_offsets(arrays: Iterable[Numbers]) -> tuple[int, int] | None:
    """The lowest and the highest offset; None without one."""
    ends = [(int(one.min()), int(one.max())) for one in arrays if len(one)]
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def numbers(column: pa.Array) -> Numbers:
    """A column without nulls as numbers."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def _at(place: Place) -> Wanted:
    topic, topic_id, partition = place
    return equals("topic", topic) & equals("topic_id", topic_id) & equals("partition", partition)
