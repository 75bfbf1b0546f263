"""Histories of a tiered partition: ten records, the first nine in the remote tier in segments of three.

In `AAA|AAAAAAA` a new leader starts at offset 3, and with it the second segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from suites.verify.edits import contract, start_at
from suites.verify.history import BROKERS, MS, START_NS, Built, History

SEGMENTS: Final = {"first": 0, "second": 3, "third": 6}
KINDS: Final = ("log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot")
SIZE_BYTES: Final = 300
_PLACE: Final = {"topic": "t", "topic_id": "T", "partition": 0}
_NOTHING: Final = dict.fromkeys(
    ("base_offset", "end_offset", "max_timestamp_ms", "size_bytes", "epochs", "custom_bytes", "txn_index_empty")
)
STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"
DELETING, DELETED = "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"

Edit = Callable[[Built], Any]


def tiered(
    edit: Edit = lambda _: None, *, text: str = "AAA|AAAAAAA", epochs: str = "0:0,1:3", begins: int = 0
) -> Built:
    """The evidence that correct brokers leave, changed by the edit. epochs: of every replica; begins: the start of
    each log."""
    history = contract(History(text).build(start_at(begins)), tiered=True)
    for segment, base in SEGMENTS.items():
        epoch = 0 if base == 0 else 1
        wrote(history, segment, STARTED, base, f"{epoch}:{base}")
        wrote(history, segment, FINISHED)
        for look in ("loaded", "healed", "end"):
            history.tables["tier_objects"] += [object_row(segment, base, kind, look) for kind in KINDS]
    for broker in BROKERS:
        for look in ("loaded", "healed", "end"):
            history.tables["tier_replicas"].append(
                {
                    **_PLACE,
                    "look": look,
                    "looked_ns": START_NS + 10**12,
                    "broker": broker,
                    "log_start": begins,
                    "local_log_start": 9,
                    "log_end": 10,
                    "highest_tiered": 8,
                    "epochs": epochs,
                }
            )
    edit(history)
    return history


def wrote(
    history: Built,
    segment: str,
    state: str,
    base: int | None = None,
    epochs: str | None = None,
    *,
    broker: int = 1,
    read: int = 1,
) -> None:
    """One more metadata record; with a base offset one that starts a copy."""
    at = len(history.tables["tier_metadata"])
    history.tables["tier_metadata"].append(
        {
            **_NOTHING,
            "read": read,
            "partition": 2,
            "offset": at,
            "timestamp_ms": START_NS // MS + at,
            "kind": "segment_update" if base is None else "segment",
            "topic": "t",
            "topic_id": "T",
            "topic_partition": 0,
            "segment_id": segment,
            "broker": broker,
            "event_ms": START_NS // MS + at,
            "state": state,
            "why": None,
        }
    )
    if base is not None:
        history.tables["tier_metadata"][-1].update(
            base_offset=base, end_offset=base + 2, max_timestamp_ms=0, size_bytes=SIZE_BYTES, epochs=epochs
        )


def object_row(segment: str, base: int, kind: str, look: str) -> dict[str, Any]:
    log = kind == "log"
    return {
        **_PLACE,
        "look": look,
        "looked_ns": START_NS + 10**12,
        "segment_id": segment,
        "base_offset": base,
        "kind": kind,
        "size_bytes": SIZE_BYTES if log else 8,
        "sha256": f"{segment} {kind}",
        "records": 3 if log else None,
        "first_offset": base if log else None,
        "last_offset": base + 2 if log else None,
        "faulty": None,
    }
