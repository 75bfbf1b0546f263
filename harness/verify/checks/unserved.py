"""unserved: records below the high watermark, or acknowledged ones, that the leader of a log serves to no client, or
only to those that begin elsewhere or ask for more, or that another replica in sync refuses although its leader has
served them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.documents.cluster import ReadRefused
from harness.model.documents.reads import Read, Refusal
from harness.model.finding import Finding, Kind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case, Place
from harness.verify.engine.known import Known
from harness.verify.engine.rows import NOT_READ
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise
from harness.verify.unreadable import Unreadable, covering, unreadable

_DRAIN: Final = "drain"
_GONE: Final = "OFFSET_OUT_OF_RANGE"  # it was deleted meanwhile, or `read_from` judges it


def _refused(known: Known) -> Addition:
    """Nothing for a run that ended early, or in which a node was not running: then a leader need not serve."""
    case = known.case
    if not case.complete or not case.nodes_were_up:
        return Addition()
    spans = unreadable(known)
    return Addition(findings=[*_findings(known, spans), *_of_readers(known, spans)])


def _findings(known: Known, spans: Sequence[Unreadable]) -> Iterator[Finding]:
    said: set[Place] = set()
    for read in known.case.reads:
        refused, place = read.refused, read.place
        if refused is None or place in said:
            continue
        if _is_unreadable(spans, place, refused.offset):
            continue
        if read.kind == _DRAIN:
            records = sum(
                run.fate_records
                for run in known.runs
                if run.kind == NOT_READ and (run.topic, run.topic_id, run.partition) == place
            )
            # Offsets below the high watermark are readable by its meaning, whatever wrote the records.
            committed = refused.high_watermark - refused.offset if refused.error is None else 0
            if records or committed > 0:
                said.add(place)
                left = (
                    f"{records} acknowledged records from there on are in no read"
                    if records
                    else "so it hides what is committed"
                )
                detail = _ended_early(refused, "the leader", left)
                yield _finding(known, read, detail, offset=refused.offset, count=records or committed)
        elif _must_serve(known.case, read, refused.offset):
            said.add(place)
            who = f"broker {read.replica}, a replica in sync,"
            detail = _ended_early(refused, who, "the leader served what is there")
            yield _finding(known, read, detail, offset=refused.offset)


def _is_unreadable(spans: Sequence[Unreadable], place: Place, offset: int) -> bool:
    return bool(covering([span for span in spans if span.place == place], offset, offset + 1))


def _of_readers(known: Known, spans: Sequence[Unreadable]) -> Iterator[Finding]:
    """One finding for each partition in which a reader was given nothing at an offset, and so were we. The drain was
    given what is there, so that the answer depends on where a read begins, or on how much it asks for."""
    said: set[Place] = set()
    for read in known.case.cluster.reads_refused or ():
        place, refused = read.place, read.refused
        drained = (one.position for one in known.case.reads if one.kind == _DRAIN and one.place == place)
        if place in said or refused.error == _GONE or refused.offset >= max(drained, default=0):
            continue
        if _is_unreadable(spans, place, refused.offset):
            continue
        said.add(place)
        detail = (
            f"a read from offset {refused.offset} was given nothing; then the leader was asked for it for "
            f"{_asked_s(refused):.0f} s, for {read.min_bytes:,} to {read.max_bytes:,} bytes, and answered "
            f"{_answered(refused)}; the read of the whole log was given what is there"
        )
        yield _finding(known, read, detail, offset=refused.offset, reader=read.reader)


def _must_serve(case: Case, read: Read, offset: int) -> bool:
    """Whether a copy is in sync and has an offset in its log from which the leader served everything (KIP-392)."""
    served = any(
        one.kind == _DRAIN and one.reached and (one.place, one.isolation) == (read.place, read.isolation)
        for one in case.reads
    )
    state = next((state for state in case.last_partitions if state.place == read.place), None)
    if not served or state is None or read.replica not in state.isr:
        return False
    return any(log.broker == read.replica and log.log_start <= offset < log.log_end for log in state.logs)


def _finding(
    known: Known, read: Read | ReadRefused, detail: str, *, offset: int, count: int = 1, reader: str | None = None
) -> Finding:
    return Finding(
        kind=Kind.UNSERVED,
        topic=read.topic,
        topic_id=read.topic_id,
        partition=read.partition,
        offset_first=offset,
        count=count,
        reader=reader,
        detail=detail,
        contract=promise(Kind.UNSERVED, read.topic, None, known.case.contract),
    )


def _ended_early(refused: Refusal, who: str, left: str) -> str:
    return (
        f"after the read had ended early, {who} was asked for offset {refused.offset} for {_asked_s(refused):.0f} s "
        f"and answered {_answered(refused)}; {left}"
    )


def _asked_s(refused: Refusal) -> float:
    return (refused.last_ns - refused.first_ns) / 10**9


def _answered(refused: Refusal) -> str:
    return refused.error or f"no records, with the high watermark {refused.high_watermark}"


CHECK: Final = Check(
    promise="A leader serves the acknowledged records of its log, and so does every replica in sync.",
    kinds={
        Kind.UNSERVED: Introduced(
            promise="every acknowledged record from the log start on can be read from its leader, and from the other "
            "replicas in sync (KIP-392)"
        )
    },
    adds=_refused,
    order=Order(findings=13),
    planted=(
        "unserved",
        "unserved_below_the_high_watermark",
        "unserved_by_a_copy_in_sync",
        "unserved_from_an_offset",
        "near_unserved_from_an_offset_that_is_deleted",
        "near_unserved_by_a_copy_behind_its_log",
        "near_unserved_and_nothing_acknowledged_there",
        "near_unserved_with_a_node_down",
    ),
)
