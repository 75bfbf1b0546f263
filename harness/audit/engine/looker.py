"""The thread that looks at partitions: it takes orders of the engine one by one and gives back what was answered."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.audit.engine.failure import Failed
from harness.audit.look import PartitionLook
from harness.model.errors import HarnessFailure


@dataclass(frozen=True, slots=True)
class Asked:
    """A partition to look at, as the metadata log has it now. leader: -1 without one; then only log ends are read."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    tiered: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to an order. `refused`: one sentence when no broker could be asked at all."""

    asked: Sequence[Asked]
    looks: Sequence[PartitionLook]
    refused: str | None = None


class Looker(Protocol):
    """Asks brokers. A partition that no broker answered for has a look with an `error`."""

    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]: ...
    def close(self) -> None: ...


class LookThread:
    """At most one order is under way, until its answer was used: answers of many orders would take much memory.

    The answers go to `done`.
    """

    def __init__(self, looker: Looker, done: Callable[[Looked | Failed], None]) -> None:
        self._looker = looker
        self._done = done
        self._orders: queue.Queue[Sequence[Asked] | None] = queue.Queue(maxsize=1)
        self._busy = threading.Event()
        self._thread = threading.Thread(target=self._work, name="audit-looks", daemon=True)
        self._thread.start()

    @property
    def free(self) -> bool:
        return not self._busy.is_set()

    def order(self, asked: Sequence[Asked]) -> None:
        """Only when it is free."""
        self._busy.set()
        self._orders.put_nowait(asked)

    def used(self) -> None:
        """The answer was used: the next order may come."""
        self._busy.clear()

    def close(self) -> None:
        self._looker.close()
        self._busy.set()
        self._orders.put(None)
        self._thread.join(timeout=10)

    def _work(self) -> None:
        while (asked := self._orders.get()) is not None:
            try:
                looked: Looked | Failed = Looked(asked, tuple(self._looker.look(asked)))
            except HarnessFailure as refused:
                looked = Looked(asked, (), str(refused))
            except Exception as defect:
                looked = Failed("a look at partitions", defect)
            self._done(looked)
