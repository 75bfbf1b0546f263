"""metadata_divergence: the metadata logs of two nodes have different committed records at one offset.

Two logs that have one record in common have all earlier ones in common (the log matching property, section 5.3 of the
Raft paper; KIP-595). A node that finds its log ahead of that of a new leader truncates it to where the two agree.

The logs are read from disks. A step that damages a disk or its files, or gives a node another disk, may change them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from harness.model.finding import Finding, Kind
from harness.model.history.changes import Problem, ProblemKind
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.steps import facts_in
from harness.verify.engine.timelines import OF_DISKS
from harness.verify.promise import Check
from harness.verify.sentences import promise


def _logs(known: Known) -> Addition:
    return Addition(findings=[*divergent_logs(known.case)])


def divergent_logs(case: Case) -> Iterator[Finding]:
    """One finding for each node whose log differs from that of another one."""
    if case.history is None or any(facts_in(case.steps, *OF_DISKS)):
        return
    by_node: defaultdict[int | None, list[Problem]] = defaultdict(list)
    for problem in case.history.gaps:
        if problem.kind is ProblemKind.CONFLICT:
            by_node[problem.node].append(problem)
    for node, problems in by_node.items():
        yield _finding(case, node, problems)


def _finding(case: Case, node: int | None, problems: Sequence[Problem]) -> Finding:
    first = min(problems, key=lambda problem: problem.offset)
    return Finding(
        kind=Kind.METADATA_DIVERGENCE,
        reader=f"node {node}",
        count=len(problems),
        detail=(
            f"the metadata log of node {node} has other committed records at {len(problems)} offsets; the first is "
            f"{first.offset}, which {first.detail}"
        ),
        contract=promise(Kind.METADATA_DIVERGENCE, None, None, case.contract),
    )


CHECK: Final = Check(
    promise="The metadata logs of all nodes have the same committed records.",
    breaks="the metadata logs of all nodes have the same committed records (KIP-595)",
    shares=(Kind.METADATA_DIVERGENCE,),
    adds=_logs,
    order=Order(findings=13),
    planted=("metadata_divergence_of_two_logs", "near_metadata_divergence_of_two_logs_on_a_damaged_disk"),
)
