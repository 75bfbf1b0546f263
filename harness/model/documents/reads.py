"""reads.json: how far each read of the drain came."""

from __future__ import annotations

from typing import Annotated, Literal

from harness.model.documents.record import Isolation, OfPartition, Record, meaning

ReadKind = Literal["drain", "replica"]


class OffsetGap(Record, frozen=True, kw_only=True):
    """Offsets that the leader called out of range until the read continued behind them."""

    from_offset: Annotated[int, meaning("the first offset of the gap")]
    to_offset: Annotated[int, meaning("the first offset behind the gap")]


class Refusal(Record, frozen=True, kw_only=True):
    """A broker that was asked, without a client library, for the records at the offset where its read had ended early,
    again and again, and never returned any."""

    offset: Annotated[int, meaning("the offset that it was asked for")]
    error: Annotated[str | None, meaning("Kafka's name of its last error; null = it answered without records")]
    high_watermark: Annotated[int, meaning("its high watermark in its last answer; -1 = not reported")]
    first_ns: Annotated[int, meaning("when it was asked first")]
    last_ns: Annotated[int, meaning("when it gave its last answer")]


class Read(OfPartition, frozen=True, kw_only=True):
    """The read of one partition by one reader of the drain."""

    reader: Annotated[str, meaning("name of the reader, as in `observations`")]
    kind: Annotated[ReadKind, meaning("`drain`: of the leader; `replica`: of one broker's copy")]
    isolation: Annotated[Isolation, meaning("isolation of the reader")]
    replica: Annotated[int | None, meaning("the broker of the copy that was to be read")]
    start: Annotated[int, meaning("the offset where the read began")]
    target: Annotated[
        int,
        meaning("the highest of: highest acked offset + 1, log end of any replica, sentinel + 1"),
    ]
    position: Annotated[
        int,
        meaning(
            "the consumer's position at the end, because the last offsets may belong to aborted, compacted or control "
            "records; a read that stopped short of its target is a doubt"
        ),
    ]
    reached: Annotated[bool, meaning("whether it reached its target, served by the wanted broker")]
    stuck_reason: Annotated[str | None, meaning("why it did not")]
    holes: Annotated[tuple[OffsetGap, ...] | None, meaning("gaps that the read met in the log")] = None
    served_by: Annotated[tuple[int, ...] | None, meaning("the brokers that served it")] = None
    refused: Annotated[
        Refusal | None,
        meaning("only for a read of a leader that ended early: its leader refused the next records long after healing"),
    ] = None
    sentinel_offset: Annotated[int | None, meaning("offset of the sentinel in this partition; not judged")] = None
    cut_short: Annotated[
        bool | None,
        meaning(
            "true: an earlier wait of the run had ended in vain, so that this read had less time than others; "
            "`stuck_reason` says it, too; not judged"
        ),
    ] = None


Reads = tuple[Read, ...]
