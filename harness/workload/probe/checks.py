"""Compares what a replica returned with what was acknowledged to the probe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.workload.probe.ledger import Acked
from harness.workload.records.payload import decode


class Wrong(StrEnum):
    """The ways in which a record is wrong."""

    LOST = "lost"  # there is no record at its offset, or another one
    CORRUPT = "corrupt"  # its bytes are not those that were written
    REFUSED = "refused"  # its leader answers with an error for a long time, as for an object that the tier lost


@dataclass(frozen=True, slots=True)
class Found:
    """A record that a replica returned. seq None: it is none of this probe's stream in this partition."""

    offset: int
    seq: int | None
    intact: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """The log of a replica from `first` to before `end`: every record in it, as data. error: Kafka's name."""

    first: int
    end: int
    records: Mapping[int, Found]
    error: str | None = None


def found(rows: Iterable[tuple[int, bytes | None, bytes | None]], run: int, stream: int) -> dict[int, Found]:
    """(offset, key, value) of each record, decoded."""
    listed = list(rows)
    decoded = decode([value for _, _, value in listed], [key for _, key, _ in listed], run)
    return {
        offset: Found(offset, int(seq) if own == stream else None, bool(intact))
        for (offset, _, _), own, seq, intact in zip(
            listed, decoded.stream.tolist(), decoded.seq.tolist(), decoded.intact.tolist(), strict=True
        )
    }


def wrong_records(expected: Sequence[Acked], piece: Piece) -> Iterator[tuple[int, Wrong]]:
    """The offsets in the piece that do not have the acknowledged record, and those with bytes that no client wrote."""
    wanted = {acked.offset: acked.seq for acked in expected if piece.first <= acked.offset < piece.end}
    for offset, seq in wanted.items():
        record = piece.records.get(offset)
        if record is None or (record.intact and record.seq != seq):
            yield offset, Wrong.LOST
        elif not record.intact:
            yield offset, Wrong.CORRUPT
    for offset, record in piece.records.items():
        if offset not in wanted and not record.intact:
            yield offset, Wrong.CORRUPT


def elsewhere(acked: Acked, piece: Piece) -> int | None:
    """Where the record is instead; a client may report a wrong offset. None if the piece does not have it."""
    return next((r.offset for r in piece.records.values() if r.intact and r.seq == acked.seq), None)
