"""Exact percentiles of latencies, from the tables of a bundle.

Verdicts have approximations of them. An earlier judge gave a value of another rank, up to one in a thousand away.
Today's judge counts latencies in classes and gives the longest of a class. Each is compared with the exact figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.evidence import Bundle
from harness.model.contract.contract import APPEND_TIME
from harness.model.documents.run import Run, Windows
from harness.model.outcome import Outcome
from suites.differential.translation import Json

PERCENTILES: Final = {"p50": 50, "p99": 99}
# The stated precisions: the width of a class today, in the logarithm, and the share of ranks that were wrong before.
CLASS_WIDTH: Final = 0.005
WRONG_RANKS: Final = 0.001
_ROUNDED_MS: Final = 0.0005  # verdicts have three decimals

Times = npt.NDArray[np.int64]
_TYPES: Final = {"outcome": pa.string(), "topic": pa.string(), "intact": pa.bool_()}


@dataclass(frozen=True, slots=True)
class Waits:
    """When each of some records was waited for, and until when, in ns."""

    from_ns: Times
    to_ns: Times


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latencies of one run: of acknowledgements and of reads."""

    windows: Windows
    acks: Waits
    reads: Waits

    def now_is_right(self, what: str, window: str, percentile: str, ms: Json) -> bool:
        """Whether today's judge may give this figure: it is up to one class above the exact one."""
        took = self.of(what, window)
        if not isinstance(ms, int | float) or not len(took):
            return False
        exact_ms = took[_rank(len(took), percentile) - 1] / 1e6
        return bool(exact_ms - _ROUNDED_MS <= ms <= exact_ms * math.exp(CLASS_WIDTH) + _ROUNDED_MS)

    def then_was_right(self, what: str, window: str, percentile: str, ms: Json) -> bool:
        """Whether an earlier judge may have given this figure: its rank is up to one in a thousand away."""
        took = self.of(what, window)
        if not isinstance(ms, int | float) or not len(took):
            return False
        rank, away = _rank(len(took), percentile), math.ceil(len(took) * WRONG_RANKS)
        least, most = took[max(rank - away, 1) - 1], took[min(rank + away, len(took)) - 1]
        return bool(least / 1e6 - _ROUNDED_MS <= ms <= most / 1e6 + _ROUNDED_MS)

    def of(self, what: str, window: str) -> Times:
        """The latencies `ack_ms` or `read_ms` of a window, in ns and in order. What waited during a part of a fault is
        `during`."""
        waits = self.acks if what == "ack_ms" else self.reads
        during = np.zeros(len(waits.from_ns), dtype=bool)
        for from_ns, to_ns in self.windows.during or ():
            during |= (waits.from_ns <= to_ns) & (waits.to_ns >= from_ns)
        span = self.windows.before if window == "before" else self.windows.after
        chosen = during
        if window != "during":
            assert span is not None
            chosen = ~during & (waits.from_ns >= span[0]) & (waits.to_ns <= span[1])
        return np.sort(np.maximum((waits.to_ns - waits.from_ns)[chosen], 1))


def _rank(number: int, percentile: str) -> int:
    """The rank of a percentile among that many values, from 1 on."""
    return max(-(-number * PERCENTILES[percentile] // 100), 1)


@dataclass(frozen=True)
class Evidence:
    """The part of a bundle that shows whether figures are right.

    ledger, observations: the files of these tables; without_history: the changes of the cluster are not in the bundle.
    """

    run: Run
    ledger: Sequence[Path]
    observations: Sequence[Path]
    without_history: bool

    @classmethod
    def of(cls, bundle: Bundle) -> Evidence:
        """The evidence of a bundle in today's format."""
        return cls(
            run=bundle.documents.run,
            ledger=bundle.table_files("ledger"),
            observations=bundle.table_files("observations"),
            without_history=bundle.history is None or not bundle.history.whole,
        )

    @property
    def without_faults(self) -> bool:
        """Whether no fault was played."""
        return self.run.windows is None or not self.run.windows.during

    @cached_property
    def latencies(self) -> Latencies:
        """Read only for a bundle in which a percentile differs."""
        contract = self.run.contract
        topics = {name for name, topic in contract.topics.items() if topic.timestamp_type != APPEND_TIME}
        timed = self.run.timestamps == "send" and not any(of.backdated_ms for of in contract.producers.values())
        reads = _reads(self.observations, topics if timed else set())
        return Latencies(windows=self.run.windows or Windows(), acks=_acks(self.ledger), reads=reads)


def _acks(files: Iterable[Path]) -> Waits:
    """Acknowledged records: from the call to the report."""
    rows = _rows(files, ["outcome", "called_ns", "returned_ns"])
    rows = rows.filter(pc.field("outcome") == Outcome.ACKED.value)
    return _waits(rows["called_ns"], rows["returned_ns"])


def _reads(files: Iterable[Path], topics: Collection[str]) -> Waits:
    """Records of these topics that live readers received: from their timestamp to that moment."""
    rows = _rows(files, ["topic", "intact", "timestamp_ms", "given_ns"])
    rows = rows.filter(pc.field("intact") & pc.field("topic").isin(pa.array(sorted(topics), pa.string())))
    return _waits(pc.multiply(rows["timestamp_ms"], 10**6), rows["given_ns"])


def _rows(files: Iterable[Path], columns: list[str]) -> pa.Table:
    schema = pa.schema([(column, _TYPES.get(column, pa.int64())) for column in columns])
    tables = [pq.read_table(file, columns=columns).cast(schema) for file in files]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _waits(from_ns: pa.ChunkedArray, to_ns: pa.ChunkedArray) -> Waits:
    known = pc.and_(from_ns.is_valid(), to_ns.is_valid())
    return Waits(*(column.filter(known).to_numpy().astype(np.int64) for column in (from_ns, to_ns)))
