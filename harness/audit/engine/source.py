"""Further sources, each asked from time to time: groups, transactions, broker logs, the tier's metadata."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from harness.audit.engine.failure import Failed
from harness.audit.feeds.tier_metadata import TierRow
from harness.audit.look import CommitLook, LogStartReason, ObjectLook, TransactionLook
from harness.model.errors import HarnessFailure

Row: TypeAlias = CommitLook | TransactionLook | LogStartReason | TierRow | ObjectLook


class Source(Protocol):
    """Something that is asked again and again. `covers` is its name in `View.covers`."""

    @property
    def covers(self) -> str: ...
    @property
    def every_s(self) -> float: ...
    def poll(self) -> Iterable[Row]:
        """What is new. HarnessFailure, with a reason, when nobody answers; the next poll continues there."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer of a source; `refused`: why it is not whole."""

    covers: str
    rows: Sequence[Row]
    refused: str | None = None


class SourceThread:
    """Asks every source when it is due, one after the other."""

    def __init__(self, sources: Sequence[Source], done: Callable[[Rows | Failed], None]) -> None:
        self._sources = sources
        self._done = done
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audit-sources", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        for source in self._sources:
            source.close()

    def _work(self) -> None:
        due_s = [0.0 for _ in self._sources]
        while self._sources and not self._stop.is_set():
            at = min(range(len(due_s)), key=lambda number: due_s[number])
            if self._stop.wait(max(0.0, due_s[at] - time.monotonic())):
                return
            source = self._sources[at]
            due_s[at] = time.monotonic() + source.every_s
            self._done(_polled(source))


def _polled(source: Source) -> Rows | Failed:
    """Rows that came before a refusal count: the source gives them only once."""
    rows: list[Row] = []
    try:
        for row in source.poll():
            rows.append(row)
    except HarnessFailure as refused:
        return Rows(source.covers, tuple(rows), str(refused))
    except Exception as defect:
        return Failed(f"the source of {source.covers}", defect)
    return Rows(source.covers, tuple(rows))
