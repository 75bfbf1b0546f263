"""Reads that were given nothing, as the broker is asked for them once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from harness.model.place import Place

_MAX_BYTES: Final = 1 << 20  # the default of both clients


@dataclass(frozen=True, slots=True, kw_only=True)
class UnservedRead:
    """A read from an offset that was given nothing. min_bytes, max_bytes: how much it asked for."""

    reader: str
    place: Place
    offset: int
    topic_id: str
    min_bytes: int
    max_bytes: int

    @classmethod
    def of(cls, reader: str, place: Place, offset: int, topic_id: str, settings: Mapping[str, object]) -> Self:
        """That of a client with these settings."""
        return cls(
            reader=reader,
            place=place,
            offset=offset,
            topic_id=topic_id,
            min_bytes=int(str(settings["fetch.min.bytes"])),
            max_bytes=int(str(settings.get("max.partition.fetch.bytes", _MAX_BYTES))),
        )
