"""Reads the next batches of the metadata log from bytes of it: of a file, or of a controller's answer."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

from harness.kafka.storage.metadata_log import damage, decoded
from harness.kafka.storage.record_batch import Batch, Walk
from harness.model.errors import HarnessFailure
from harness.model.history.log import LogBatch


class OtherLog(HarnessFailure):
    """The log is not the one that was read up to this place. The text says what shows that."""


@dataclass(slots=True)
class Piece:
    """Batches in the order of the log, and the bytes that are done with: theirs, and those before them.

    at_end: the next batch reaches the end up to which was read. problem: why the next batch cannot be used. Neither:
    the bytes end, perhaps within a batch.
    """

    batches: list[LogBatch] = field(default_factory=list)
    used_bytes: int = 0
    at_end: bool = False
    problem: str | None = None


def read_piece(data: bytes, offset: int, epoch: int, end: int) -> Piece:
    """The batches with offsets from `offset` to below `end`. epoch: of the record before `offset`.

    Batches before `offset` are skipped. OtherLog when `offset` lies within a batch.
    """
    piece = Piece()
    for batch in Walk(io.BytesIO(data), len(data)):
        piece.problem = damage(batch)
        if piece.problem is None and batch.last_offset >= offset:
            piece.problem = _out_of_place(batch, offset, epoch)
            piece.at_end = batch.last_offset >= end
        if piece.problem is not None or piece.at_end:
            break
        if batch.last_offset >= offset:
            piece.batches.append(decoded(batch, data[batch.position : batch.position + batch.size_bytes]))
            offset, epoch = batch.last_offset + 1, batch.leader_epoch
        piece.used_bytes = batch.position + batch.size_bytes
    return piece


def _out_of_place(batch: Batch, offset: int, epoch: int) -> str | None:
    if batch.base_offset < offset:
        raise OtherLog(f"a batch has the offsets {batch.base_offset} to {batch.last_offset}, and {offset} comes next")
    if batch.base_offset > offset:
        return f"offset {batch.base_offset} follows {offset - 1}"
    if batch.leader_epoch < epoch:
        return f"leader epoch {batch.leader_epoch} follows {epoch}"
    return None
