"""crashed: a node ended although no fault ends it.

Faults that make a node end by itself state that as a fact, with the node and the times. Nothing else covers an end: not
another fault at that time, not that the node was about to be killed, and not that it had never started. A SIGKILL from
outside, a machine without disk or memory left, an address that another process has and the end of a process beside the
nodes are the machine's, and doubts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.documents.process_exit import ProcessExit
from harness.model.facts import Fact, FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.history.changes import PartitionChange
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_LINES: Final = 3  # of the log, in the sentence
_LED: Final = 5  # partitions, in the sentence


def crashes(case: Case) -> list[ProcessExit]:
    """The ends of nodes that neither a fact nor the machine explains."""
    return [one for one in case.once(_not_covered) if one.machine_doubt is None]


def _not_covered(case: Case) -> list[ProcessExit]:
    by_design = [fact for fact in facts_in(case.steps, FactKind.STOPPED) if fact.how is Stop.CRASHED]
    return [one for one in case.run.exits or () if not any(_covers(fact, one) for fact in by_design)]


def _covers(fact: Fact, one: ProcessExit) -> bool:
    """A fact that does not name its nodes covers none: the fault had not begun."""
    inside = fact.from_ns <= one.at_ns and (fact.to_ns is None or one.at_ns <= fact.to_ns)
    return inside and fact.nodes is not None and one.node in fact.nodes


def _crashed(known: Known) -> Addition:
    case = known.case
    findings = [_finding(case, one) for one in crashes(case)]
    counts = {} if case.run.exits is None else {"exits": len(case.run.exits)}
    return Addition(findings=findings, doubts=[*_of_the_machine(case)], counts=counts)


def _of_the_machine(case: Case) -> Iterator[Doubt]:
    for one in case.once(_not_covered):
        if doubt := one.machine_doubt:
            yield doubt


def _finding(case: Case, one: ProcessExit) -> Finding:
    parts = [f"{one.name} ended by itself ({one.status})", _led(case, one)]
    parts += [f"its last error: {one.error}"] if one.error else []
    parts += [
        f"its log ends: {' / '.join(line.strip() for line in one.log[-_LINES:])}" if one.log else "its log is empty"
    ]
    return Finding(
        kind=Kind.CRASHED,
        first_ns=one.at_ns,
        last_ns=one.at_ns,
        step=step_at(case.steps, one.at_ns),
        detail="; ".join(parts),
        contract=promise(Kind.CRASHED, None, None, case.contract),
    )


def _led(case: Case, one: ProcessExit) -> str:
    """The partitions that it led, by the last decision of the controllers before its end."""
    if case.history is None:
        return "the bundle has no history, so it is unknown which partitions it led"
    places = {(row.topic, row.topic_id, row.partition) for row in case.history.of(PartitionChange)}
    states = {place: case.history.partition_at(*place[1:], one.at_ns) for place in places}
    led = sorted(f"{topic}/{p}" for (topic, _, p), state in states.items() if state and state.leader == one.node)
    more = f" and {len(led) - _LED} more" if len(led) > _LED else ""
    return f"it led {', '.join(led[:_LED])}{more}" if led else "it led no partition"


CHECK: Final = Check(
    promise="No broker and no controller ends by itself, unless a fault ends it.",
    kinds={
        Kind.CRASHED: Introduced(promise="a node runs until it is stopped, whatever its network, peers and clients do")
    },
    adds=_crashed,
    order=Order(findings=5, doubts=45),
    planted=(
        "crashed",
        "crashed_before_it_was_killed",
        "crashed_inside_another_fault",
        "crashed_on_metadata_of_another_cluster",
        "crashed_though_unfinished",
        "near_crashed_by_a_fault_that_ends_it",
        "near_crashed_on_metadata_that_was_cut",
        "near_crashed_killed_from_outside",
    ),
)
