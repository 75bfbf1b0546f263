"""Reads that were given nothing, as the broker is asked for them once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.model.place import Place
from harness.model.scenario.scenario import Reader
from harness.workload.settings import reader_settings

# The default of both clients.
_MAX_BYTES: Final = 1 << 20


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
    settings = reader_settings(spec, "", "", {})
    return Unanswered(
        reader=spec.name,
        place=place,
        offset=offset,
        topic_id=topic_id,
        min_bytes=int(str(settings["fetch.min.bytes"])),
        max_bytes=int(str(settings.get("max.partition.fetch.bytes", _MAX_BYTES))),
    )
