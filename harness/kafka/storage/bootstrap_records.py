"""Adds bootstrap records to a formatted folder, so that the numbers of a new cluster begin above 127.

The first controller that leads writes the bootstrap records of its folder into the metadata log, before any broker
registers. In a cluster of a few minutes, broker epochs (which are offsets of that log) and producer ids are small. Java
shares the objects of numbers from -128 to 127 (`Long.valueOf`, JLS 5.1.7), so a broker that compares larger ones with
== instead of equals() would pass every test on a young cluster, and fail in production.

The added records change nothing else. Every controller writes NoOpRecords when it is idle, and the record of producer
ids is that of a block which a broker got and never used.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from harness.kafka.storage.log_directory import METADATA_LOG
from harness.kafka.storage.record_batch import Batch, Walk
from harness.model.errors import HarnessFailure

SHARED_MAX: Final = 127  # the largest number of which Java has only one object
FIRST_PRODUCER_ID: Final = 1000  # a block has so many
# Since KIP-1170 the records are in the first snapshot. In earlier releases, that one has the voters only (KIP-853).
_FILES: Final = ("bootstrap.checkpoint", f"{METADATA_LOG}/{0:020}-{0:010}.checkpoint")
_FRAME: Final = b"\1"  # the version of the frame around each record
_NO_OP: Final = _FRAME + b"\x14\0" + b"\0"  # number and version, no tagged fields
_NOBODY: Final = -1  # the broker, and its epoch, that got the block
_PRODUCER_IDS: Final = _FRAME + b"\x0f\0" + struct.pack(">iqq", _NOBODY, _NOBODY, FIRST_PRODUCER_ID) + b"\0"
# As many as are needed where nothing else is in the log, so that this does not depend on the release.
RECORDS: Final = (*[_NO_OP] * (SHARED_MAX + 1), _PRODUCER_IDS)


def add_bootstrap_records(folder: Path, records: Sequence[bytes] = RECORDS) -> None:
    """Adds a batch of records, each with its frame, before the footer. HarnessFailure if no file has such records."""
    path = next((path for name in _FILES if (path := folder / name).is_file()), None)
    if path is None:
        raise HarnessFailure(f"kafka-storage format wrote bootstrap records neither to {' nor to '.join(_FILES)}")
    data = path.read_bytes()
    with path.open("rb") as file:
        *_, footer = Walk(file, len(data))
    last = bytearray(data[footer.position :])
    struct.pack_into(">q", last, 0, footer.base_offset + len(records))  # the checksum does not cover it
    path.write_bytes(data[: footer.position] + _batch(records, footer) + last)


def _batch(records: Sequence[bytes], place: Batch) -> bytes:
    """A batch at the offset and with the time of another one, and of leader epoch 0, like all in a formatted folder."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for delta, record in enumerate(records):
        builder.append(delta, place.max_timestamp_ms, None, record, [])
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, place.base_offset)
    return bytes(batch)
