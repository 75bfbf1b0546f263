"""One number for each partition, in 4 or 8 bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Protocol


class Numbered(Protocol):
    """Anything that names a partition."""

    @property
    def topic_id(self) -> str: ...
    @property
    def partition(self) -> int: ...


class PerPartition:
    """Numbers of one type code of `array`, by topic id and partition. `nothing`: where none was put."""

    def __init__(self, code: str, nothing: int) -> None:
        self._code = code
        self._nothing = nothing
        self._topics: dict[str, array[int]] = {}

    def get(self, of: Numbered) -> int:
        numbers = self._topics.get(of.topic_id)
        return self._nothing if numbers is None or of.partition >= len(numbers) else numbers[of.partition]

    def put(self, of: Numbered, number: int) -> None:
        numbers = self._topics.get(of.topic_id)
        if numbers is None:
            numbers = self._topics[of.topic_id] = array(self._code)
        missing = of.partition + 1 - len(numbers)
        if missing > 0:
            numbers.extend([self._nothing] * missing)
        numbers[of.partition] = number

    def keep(self, exists: Callable[[str], bool]) -> None:
        """Frees what it has of topics that do not exist any more."""
        for topic_id in [topic_id for topic_id in self._topics if not exists(topic_id)]:
            del self._topics[topic_id]
