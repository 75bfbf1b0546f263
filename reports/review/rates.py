"""Acks, errors, live reads and ack latencies of a run, counted by time.

The tables of a run may have millions of rows. They are read part by part and only counts are kept, so the memory does
not depend on the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.evidence.layout import ignored
from harness.evidence.parts import opened
from harness.model.outcome import Outcome

Numbers: TypeAlias = npt.NDArray[np.int64]

LOWEST_NS: Final = 10_000  # shorter latencies count as 0.01 ms, below the resolution of a chart
RATIO: Final = 1.05  # the upper edge of a bin by its lower one: a percentile is exact to 2.5 %
BINS: Final = 400  # up to 50 minutes
WIDTH_LEAST_NS: Final = 200_000_000  # acks arrive in batches: in shorter buckets a steady load is a row of spikes
_BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Equal intervals of time. start_ns: epoch nanoseconds, the begin of the first one. width_ns: of each."""

    start_ns: int
    width_ns: int
    count: int

    def of(self, times_ns: Numbers) -> Numbers:
        """The number of the bucket of each time. Times before the first or after the last one count there."""
        return np.clip((times_ns - self.start_ns) // self.width_ns, 0, self.count - 1)

    def counted(self, times_ns: Numbers) -> Numbers:
        """How many of the times are in each bucket; its length is `count`."""
        return np.bincount(self.of(times_ns), minlength=self.count).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """By bucket: the rows of the ledger by outcome when it was reported, live reads, and latencies of acks.

    p50_ms, p99_ms: milliseconds from the call to the ack, by when the ack came; None = no ack in the bucket.
    """

    acked: Sequence[int]
    refused: Sequence[int]
    unknown: Sequence[int]
    reads: Sequence[int]
    p50_ms: Sequence[float | None]
    p99_ms: Sequence[float | None]


def buckets_of(first_ns: int, last_ns: int, count_max: int) -> Buckets:
    """At most `count_max` buckets that hold all times from `first_ns` to `last_ns`, epoch nanoseconds."""
    width_ns = max(WIDTH_LEAST_NS, (last_ns - first_ns) // count_max + 1)
    return Buckets(start_ns=first_ns, width_ns=width_ns, count=(last_ns - first_ns) // width_ns + 1)


def parts_of(bundle: Path, table: str) -> list[Path]:
    """The Parquet parts of a table of a bundle, in order of their names; none if the table has no rows."""
    return sorted(part for part in (bundle / table).glob("*.parquet") if not ignored(part.name))


def span_of(bundle: Path) -> tuple[int, int] | None:
    """The first call and the last answer in the ledger, epoch nanoseconds; None if it is empty.

    Raises BadEvidence for a damaged part.
    """
    spans = [span for part in parts_of(bundle, "ledger") for span in _spans(part)]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def _spans(file: Path) -> Iterator[tuple[int, int]]:
    """The first call and the last answer in each row group of a part: from its footer, or from its rows."""
    columns = ["called_ns", "returned_ns"]
    with opened(file) as part:
        at = [part.schema_arrow.get_field_index(name) for name in columns]
        for group in range(part.num_row_groups):
            called, returned = (part.metadata.row_group(group).column(n).statistics for n in at)
            if called and returned and called.has_min_max and returned.has_min_max:
                yield called.min, returned.max
            elif part.metadata.row_group(group).num_rows:
                rows = part.read_row_group(group, columns=columns)
                yield pc.min(rows["called_ns"]).as_py(), pc.max(rows["returned_ns"]).as_py()


def rates_of(bundle: Path, buckets: Buckets) -> Rates:
    """Counts the rows of `ledger` and `observations`. Raises BadEvidence for a damaged part."""
    by_outcome = {outcome: np.zeros(buckets.count, np.int64) for outcome in Outcome}
    latencies = np.zeros(buckets.count * BINS, np.int64)
    for batch in _batches(parts_of(bundle, "ledger"), "outcome", "called_ns", "returned_ns"):
        called, returned = _numbers(batch["called_ns"]), _numbers(batch["returned_ns"])
        codes = _numbers(batch["outcome"].indices)
        for code, name in enumerate(batch["outcome"].dictionary.to_pylist()):
            outcome, chosen = Outcome(name), codes == code
            by_outcome[outcome] += buckets.counted(returned[chosen])
            if outcome is Outcome.ACKED:
                places = buckets.of(returned[chosen]) * BINS + bins_of(returned[chosen] - called[chosen])
                latencies += np.bincount(places, minlength=len(latencies))
    histogram = latencies.reshape(buckets.count, BINS)
    return Rates(
        acked=by_outcome[Outcome.ACKED].tolist(),
        refused=by_outcome[Outcome.REFUSED].tolist(),
        unknown=by_outcome[Outcome.UNKNOWN].tolist(),
        reads=_reads(bundle, buckets).tolist(),
        p50_ms=percentiles_ms(histogram, 0.5),
        p99_ms=percentiles_ms(histogram, 0.99),
    )


def _reads(bundle: Path, buckets: Buckets) -> Numbers:
    """Records that live readers received for the first time. Reads after healing have no times."""
    reads = np.zeros(buckets.count, np.int64)
    for batch in _batches(parts_of(bundle, "observations"), "given_ns"):
        if "given_ns" in batch.schema.names:  # older bundles lack the column
            reads += buckets.counted(_numbers(batch["given_ns"].drop_null()))
    return reads


def bins_of(latencies_ns: Numbers) -> Numbers:
    """The logarithmic bin of each latency in nanoseconds, from 0 to BINS - 1."""
    return np.clip(np.log(np.maximum(latencies_ns, LOWEST_NS) / LOWEST_NS) / math.log(RATIO), 0, BINS - 1).astype(
        np.int64
    )


def percentiles_ms(histogram: Numbers, share: float) -> list[float | None]:
    """The percentile of each row of a histogram of (bucket, bin), in milliseconds, by nearest rank.

    It is the middle of its bin; None = the row has no latency.
    """
    ranks = np.maximum(1, np.ceil(histogram.sum(axis=1) * share))
    upto = histogram.cumsum(axis=1)
    bins = (upto >= ranks[:, None]).argmax(axis=1)
    values = LOWEST_NS * RATIO ** (bins + 0.5) / 1e6
    return [float(f"{value:.3g}") if total else None for value, total in zip(values, upto[:, -1].tolist(), strict=True)]


def _batches(parts: Sequence[Path], *columns: str) -> Iterator[pa.RecordBatch]:
    """The rows of the parts, some at a time. A part that lacks a column gives batches without it."""
    for file in parts:
        with opened(file, as_dictionaries=("outcome",)) as part:
            yield from (batch for batch in part.iter_batches(_BATCH_ROWS, columns=[*columns]) if batch.num_rows)


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
