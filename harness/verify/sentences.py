"""Sentences of findings, from the declarations of the checks; sentences of notes and doubts about clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from harness.model.documents.contract import Contract
from harness.model.finding import FindingKind, Kind, kind_of
from harness.verify.engine.rows import (
    ACKED_TWICE_NOTE,
    LOOKUP_HIDDEN,
    WRONG_ACK_OFFSET_NOTE,
    WRONG_ACK_OFFSET_WEAK,
    Reason,
    reason_of,
)
from harness.verify.engine.runs import RecordRange
from harness.verify.promise import Settings, declared, introduced

_ELSEWHERE: Final = "wrong_ack_offset: {records} records are at another offset than the acknowledged one ({places}); "
# Notes, by the kind of their rows, see engine/rows.py.
_NOTES: Final[dict[str, str]] = {
    WRONG_ACK_OFFSET_NOTE: _ELSEWHERE + "librdkafka was observed to report such offsets with correct brokers",
    WRONG_ACK_OFFSET_WEAK: _ELSEWHERE
    + "with less than acks=all the acknowledged copy may be lost, and an earlier copy of the record may stay",
    ACKED_TWICE_NOTE: (
        "conflicting: {records} missing records were acknowledged at the offset of another acknowledged record "
        "({places}); librdkafka was observed to report wrong offsets with correct brokers"
    ),
    LOOKUP_HIDDEN: (
        "offset_lookup: the leader of a compacted topic finds no record of a time or later, and {records} such records "
        "must be there ({places}); every release looks into the first segment with such a time, also if compaction has "
        "removed the records of that time"
    ),
}
# Defects that a client of which nothing is known may have caused, by the kind of the finding that each would be.
_BY_WHOM: Final[dict[str, str]] = {
    Kind.DUPLICATED: "are second copies under another producer id or epoch, which no broker can recognise",
    Kind.REORDERED: "are out of order under another producer id or epoch, which no broker can recognise",
    Kind.WRONG_ACK_OFFSET: "are at another offset than the client reported as acknowledged",
    Kind.CONFLICTING: "are missing, and the client reported the offset of each as acknowledged for another one, too",
}
_DECLARE: Final = frozenset({Kind.DUPLICATED, Kind.REORDERED})


def seen(run: RecordRange) -> str:
    """The observation, in one sentence; place and count of the records are not part of it."""
    reason = run.reason
    key = (kind_of(run.kind), reason_of(reason))
    by_reason = (check.seen.get(cast(tuple[FindingKind, Reason], key)) for check in declared().values())
    found = next((sentence for sentence in by_reason if sentence is not None), reason)
    return found(run) if callable(found) else found


def note(kind: str, records: int, places: Sequence[str]) -> str:
    """The note about records with this kind of row."""
    return _NOTES[kind].format(records=records, places=", ".join(places))


def unattributed(kind: str, client: str, place: str, records: int) -> str:
    """Why it is unknown whether the release or a client caused what would be a finding of this kind."""
    text = f"{records} records of {place} from client {client!r} {_BY_WHOM[kind]}; the evidence does not show whether "
    text += "the release or the client caused it"
    declare = "; if the client sends records again so, declare new_epoch_retries in the contract of its producer"
    return text + (declare if kind in _DECLARE else "")


def promise(kind: FindingKind, topic: str | None, producer: str | None, contract: Contract, reason: str = "") -> str:
    """The promise that a finding of this kind breaks, with the settings that make it."""
    for check in declared().values():
        if check.breaks and kind not in check.kinds and (kind, reason_of(reason)) in check.seen:
            return check.breaks
    said = introduced(kind).promise
    settings = Settings(contract, contract.topics.get(topic or ""), contract.producers.get(producer or ""))
    return said(settings) if callable(said) else said
