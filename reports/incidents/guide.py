"""Facts near the cause of an incident: the active faults, the ends of transactions, end markers, and log lines.

Nothing here concludes a cause. Each sentence is a fact of the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.documents.steps import Step
from harness.model.outcome import TxnOutcome
from reports.incidents.broker_logs import LogLine, LogLines
from reports.incidents.evidence import Evidence
from reports.incidents.markers import Marker, markers_behind
from reports.incidents.moments import RecordTimes, faults_at, state_at
from reports.incidents.partition import offsets_of
from reports.review.bands import Place
from reports.review.content import Incident
from reports.review.timeline import tried
from reports.summary import clock

TRANSACTIONS_SHOWN: Final = 3
_TEXT_MAX: Final = 240
_AN: Final = {"commit": " commit", "abort": "n abort"}
_NO_MARKERS: Final[tuple[Marker, ...]] = ()


def facts_near(
    incident: Incident, times: RecordTimes, evidence: Evidence, place: Place | None, logs: LogLines, missing: list[str]
) -> tuple[str, ...]:
    """Sentences, in the order in which a reader needs them. What cannot be read goes into `missing`."""
    return (
        *_fault_window(times, evidence),
        *_transactions(times, evidence, place),
        *_markers(incident, times, evidence, place, missing),
        *_first_logged(times, logs),
    )


def _fault_window(times: RecordTimes, evidence: Evidence) -> Iterator[str]:
    """The faults that were active when the records were acknowledged, or the distance to the next ones."""
    span_ns, what = (times.acked_ns, "acknowledged") if times.acked_ns else (times.sent_ns, "sent")
    if span_ns is None:
        return
    first_ns, last_ns = span_ns
    active = list(dict.fromkeys([*faults_at(evidence.steps, first_ns), *faults_at(evidence.steps, last_ns)]))
    if active:
        yield f"The records were {what} while {_and(active)} {'was' if len(active) == 1 else 'were'} active"
        return
    faults = [step for step in evidence.steps if step.is_fault and step.started_ns is not None]
    after = min((step for step in faults if _began(step) > last_ns), key=_began, default=None)
    before = max((step for step in faults if _over(step) < first_ns), key=_over, default=None)
    near = []
    if before is not None:
        near.append(f"{before.name} was over {_apart(_over(before), first_ns)} before")
    if after is not None:
        near.append(f"{after.name} began {_apart(last_ns, _began(after))} after")
    yield f"No fault was active when the records were {what}{': ' if near else ''}{', and '.join(near)}"


def _began(step: Step) -> int:
    return step.started_ns or 0


def _over(step: Step) -> int:
    return step.healed_ns or step.ended_ns or step.started_ns or 0


def _apart(from_ns: int, to_ns: int) -> str:
    return f"{(to_ns - from_ns) / 1e9:.2f} s"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _transactions(times: RecordTimes, evidence: Evidence, place: Place | None) -> Iterator[str]:
    """The state of the partition at the end of each transaction."""
    for one in times.transactions[:TRANSACTIONS_SHOWN]:
        if one.ended_ns is None:
            continue
        state, faults = state_at(evidence, place, one.ended_ns), faults_at(evidence.steps, one.ended_ns)
        then = [f"{place[0]}-{place[2]} had {state}"] if state and place is not None else []
        then.append(f"the fault {_and(faults)} was active" if faults else "no fault was active")
        word = "ended with an unknown outcome" if one.outcome is TxnOutcome.UNKNOWN else f"was {one.outcome.value}"
        ended = f"Transaction {one.txn_id} of {one.producer} {word} at {clock(one.ended_ns)} UTC"
        yield f"{ended}. At that time, {_and(then)}"
    if times.transaction_count > TRANSACTIONS_SHOWN:
        yield f"{times.transaction_count - TRANSACTIONS_SHOWN:,} more transactions have records of this incident"


def _markers(
    incident: Incident, times: RecordTimes, evidence: Evidence, place: Place | None, missing: list[str]
) -> Iterator[str]:
    """The end marker of the transaction of the last record, where there is one."""
    offsets = None if place is None else offsets_of(incident, place)
    if place is None or offsets is None or not times.transactions:
        return
    name, last = f"{place[0]}-{place[2]}", offsets[1]
    for marker in tried(lambda: tuple(markers_behind(evidence, place, last)), _NO_MARKERS, missing):
        where = f"In the log of {name} on broker {marker.broker},"
        if marker.control is None:
            yield f"{where} no end marker of their producer is behind offset {last}: the transaction is open there"
            continue
        at = f"at offset {marker.offset}, written in leader epoch {marker.leader_epoch}"
        found = (
            f"{where} the first end marker of their producer behind offset {last} is of a{_AN[marker.control]}: {at}"
        )
        outcomes = {one.outcome.value for one in times.transactions}
        committed = outcomes == {TxnOutcome.COMMITTED.value} and marker.control == "abort"
        yield f"{found}. So read_committed drops them, although their transaction was committed" if committed else found


def _first_logged(times: RecordTimes, logs: LogLines) -> Iterator[str]:
    """The first line after the records were sent that is about the partition, and the first warning or error."""
    since_ns = times.sent_ns[0] if times.sent_ns else 0
    later = [line for line in logs.lines if line.at_ns >= since_ns]
    chosen = {
        "The first line about a change of the partition": next((line for line in later if line.telling), None),
        "The first warning or error": next((line for line in later if line.loud), None),
    }
    said: set[LogLine] = set()
    for what, line in chosen.items():
        if line is not None and line not in said:
            said.add(line)
            text = line.text if len(line.text) <= _TEXT_MAX else f"{line.text[:_TEXT_MAX]} ..."
            yield f"{what} in the broker logs after the send: {line.at} {line.node} {line.level} {text}"
