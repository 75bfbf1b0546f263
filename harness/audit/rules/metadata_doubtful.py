"""The metadata log lacks records, or has records that do not fit the state before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.ending import KEEP, KEEP_S
from harness.audit.rules.rule import Limit, Rule, Suspicion
from harness.model.clock import NS_PER_S
from harness.model.history.changes import Problem, ProblemKind
from harness.model.severity import Severity

_MEANINGS: Final[Mapping[ProblemKind, str]] = {
    ProblemKind.TORN_END: "bytes behind the last batch cannot be read",
    ProblemKind.BAD_SNAPSHOT: "a snapshot cannot be used",
    ProblemKind.MISSING_VOTER: "the log of a voter is missing",
    ProblemKind.MISSING_RECORDS: "committed records are missing",
    ProblemKind.MISSING_END: "committed records at the end are missing",
    ProblemKind.CONFLICT: "two nodes have different committed records at one offset",
    ProblemKind.IMPOSSIBLE: "a record does not fit the state before it",
}


class MetadataDoubtful(Rule):
    name: ClassVar[str] = "metadata_doubtful"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "The auditor's state of the cluster may be wrong from this record on. It may be damage of the metadata log, or "
        "records that the auditor missed."
    )
    remedy: ClassVar[str] = (
        "Compare the metadata logs of the controllers (`durability history`), and restart the auditor from a snapshot."
    )
    source: ClassVar[str] = "KIP-630, KIP-868; Kafka's own ReplicationControlManager"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata"})
    limits: ClassVar[Mapping[str, Limit]] = {KEEP: KEEP_S}

    def on_problem(self, problem: Problem, view: View) -> Iterable[Suspicion]:
        of_node = "" if problem.node is None else f" of node {problem.node}"
        what = f"At offset {problem.offset} of the metadata log{of_node}, {_MEANINGS[problem.kind]}: {problem.detail}."
        return (
            Suspicion(
                rule=self.name,
                cause=problem.kind.value,
                what=what,
                at_ns=view.now_ns,
                metadata_offset=problem.offset,
                broker=problem.node,
            ),
        )

    def over(self, suspicion: Suspicion, view: View) -> bool:
        return view.now_ns - suspicion.at_ns > self.limit[KEEP] * NS_PER_S
