"""Reads that were given nothing, as the broker is asked for them once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.model.place import Place
from harness.model.scenario.scenario import Reader

# Settings of consumers with their defaults, which are those of both clients.
_MIN_BYTES: Final = ("fetch.min.bytes", "1")
_MAX_BYTES: Final = ("max.partition.fetch.bytes", "1048576")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A read from an offset that was given nothing. min_bytes, max_bytes: how much it asked for."""

    reader: str
    place: Place
    offset: int
    topic_id: str
    min_bytes: int = 1
    max_bytes: int


def of_reader(spec: Reader, place: Place, offset: int, topic_id: str) -> Unanswered:
    """That of a live reader that is not given what was acknowledged."""
    least, most = (int(spec.config.get(name, default)) for name, default in (_MIN_BYTES, _MAX_BYTES))
    return Unanswered(reader=spec.name, place=place, offset=offset, topic_id=topic_id, min_bytes=least, max_bytes=most)
