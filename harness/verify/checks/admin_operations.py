"""Acknowledged admin operations, compared with what every node reports at the end: one state machine for each entity.

The rows are few, because an operation takes milliseconds, so they fit on the driver.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Row

from harness.model.documents.run import Floors, Windows
from harness.model.documents.scenario import PlannedAdmin, PlannedShape
from harness.model.doubt_names import DoubtName
from harness.model.entities import Legal, Operation, Sort, legal
from harness.model.errors import BadEvidence
from harness.model.finding import Finding, FindingKind, Kind
from harness.model.outcome import Outcome
from harness.model.verdict import Doubt
from harness.verify.addition import Addition
from harness.verify.engine.case import FINAL_PHASES, Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import BUNDLE
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise
from harness.verify.work_done import too_few

ROWS_MAX: Final = 1_000_000  # over all bundles; a run of an hour leaves about a tenth of that
LISTED_MAX: Final = 50  # of a kind
UNOPERATED: Final = "acknowledged admin operations: topics, settings, ACLs, users and reassignments"
_NO_NODE: Final = "no node"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A row of `admin_views`."""

    phase: str
    node: int
    entity: str
    value: str | None
    asked_ns: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class AdminReport:
    """The rows of `admin_ops` and `admin_views` of one bundle."""

    ops: tuple[Operation, ...] = ()
    views: tuple[View, ...] = ()

    @property
    def last_phase(self) -> str | None:
        """The last snapshot after healing, which decides: propagation may take its time until then."""
        phases = {view.phase for view in self.views}
        return next((phase for phase in FINAL_PHASES if phase in phases), None)


@dataclass(slots=True)
class Operations:
    """The result. standing: acknowledged operations that alone determine an entity's value; held: those with a value
    that was found."""

    findings: list[Finding] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    acked: int = 0
    standing: int = 0
    held: int = 0


def operations_of(given: Prepared) -> list[AdminReport]:
    """The rows of each bundle, on the driver. BadEvidence when there are too many."""
    ops: dict[int, list[Operation]] = defaultdict(list)
    views: dict[int, list[View]] = defaultdict(list)
    for row in _rows(given.admin_ops):
        columns = row.asDict()
        ops[columns.pop(BUNDLE)].append(Operation(**columns))
    for row in _rows(given.admin_views):
        columns = row.asDict()
        views[columns.pop(BUNDLE)].append(View(**columns))
    return [
        AdminReport(tuple(sorted(ops[n], key=lambda op: (op.called_ns, op.op))), tuple(views[n]))
        for n in range(len(given.cases))
    ]


def _rows(table: DataFrame) -> list[Row]:
    rows = table.limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise BadEvidence(
            f"the evidence has more than {ROWS_MAX} rows of admin operations; judge fewer bundles at once"
        )
    return rows


def judged(case: Case, reported: AdminReport) -> Operations:
    """The findings, doubts and figures of one case."""
    out = Operations(acked=sum(_acked(op) for op in reported.ops))
    if not case.complete:
        return out
    out.doubts += _doubts(case, reported)
    if _has_silent_admin(case, reported):  # then it is unknown which operations caused the values
        return out
    ops: dict[str, list[Operation]] = defaultdict(list)
    for op in reported.ops:
        ops[op.entity].append(op)
    before: dict[str, set[str | None]] = defaultdict(set)
    last: dict[str, list[View]] = defaultdict(list)
    for view in reported.views:
        if view.phase == "start":
            before[view.entity].add(view.value)
        if view.phase == reported.last_phase:
            last[view.entity].append(view)
    asked_first = any(view.phase == "start" for view in reported.views)
    for entity, views in sorted(last.items()):
        first = (before[entity] or {None}) if asked_first else None
        metadata_entity = _Entity(entity, ops[entity], first, views, case)
        findings, decided = list(metadata_entity.findings()), metadata_entity.decided
        out.standing += decided
        out.held += decided and not findings
        out.findings += findings
    out.findings = _listed(out.findings)
    return out


@dataclass(frozen=True, slots=True)
class _Entity:
    """One entity: the operations on it, and what each node reports. before: None when no node was asked at the
    start."""

    entity: str
    ops: Sequence[Operation]
    before: set[str | None] | None
    views: Sequence[View]
    case: Case

    @property
    def may_be(self) -> Legal:
        """The legal values, over the time span in which all nodes were asked, so that every node is judged by the
        same rule."""
        asked_ns, at_ns = min(v.asked_ns for v in self.views), max(v.at_ns for v in self.views)
        first = self._values if self.before is None else self.before
        windows = self.case.run.windows
        calm_ns = windows.after[0] if windows and windows.after else 0
        return legal(self.ops, first, asked_ns, at_ns, calm_ns=calm_ns)

    @property
    def decided(self) -> bool:
        """Whether one acknowledged operation determines the value."""
        return self.may_be.decisive is not None and len(self.may_be.values) == 1

    @property
    def _values(self) -> set[str | None]:
        return {view.value for view in self.views}

    def findings(self) -> Iterator[Finding]:
        """One finding for each value that no operation explains; none when every node reports the same legal value.

        A value that was never requested is a phantom, whichever node reports it. When some node reports a legal value,
        the operation was not lost, and the other nodes diverge.
        """
        may_be = self.may_be
        phantoms = set() if self.before is None else self._values - self._asked_for() - self.before - {None}
        for strange in sorted(phantoms, key=str):
            yield self._finding(Kind.ADMIN_PHANTOM, strange, may_be)
        rest = self._values - phantoms
        wrong = rest - may_be.values
        if wrong == rest:
            undone = may_be.decisive is not None and may_be.decisive.value is None
            for value in sorted(wrong, key=str):
                yield self._finding(Kind.ADMIN_RESURRECTED if undone else Kind.ADMIN_LOST, value, may_be)
        elif wrong or (len(rest) > 1 and not may_be.moving):
            yield self._finding(Kind.METADATA_DIVERGENCE, None, may_be)

    def _asked_for(self) -> set[str | None]:
        return {op.value for op in self.ops if op.outcome != Outcome.REFUSED.value}

    def _finding(self, kind: Kind, value: str | None, may_be: Legal) -> Finding:
        op = may_be.decisive
        every = kind is Kind.METADATA_DIVERGENCE
        reported = [self._report(one) for one in sorted(self._values, key=str)]
        return Finding(
            kind=kind,
            topic=_topic(self.entity),
            reader=_nodes(view.node for view in self.views if every or view.value == value),
            first_ns=op.called_ns if op else None,
            last_ns=op.returned_ns if op else None,
            step=step_at(self.case.steps, op.returned_ns) if op else None,
            detail="; ".join([f"{self.entity}: {self._because(kind, value, op)}", *reported]),
            contract=promise(kind, None, None, self.case.contract),
        )

    def _because(self, kind: Kind, value: str | None, op: Operation | None) -> str:
        last = _did(op) if op else "no operation on it was acknowledged"
        if kind is not Kind.ADMIN_PHANTOM:
            return last
        refused = next((o for o in self.ops if o.value == value and o.outcome == Outcome.REFUSED.value), None)
        if refused is None:
            return f"no operation requested {value}; {last}"
        asked = (
            f"only operation {refused.op} of {refused.writer} requested {value}, and it was refused ({refused.error})"
        )
        return f"{asked}; {last}"

    def _report(self, value: str | None) -> str:
        nodes = [view.node for view in self.views if view.value == value]
        what = "that it does not exist" if value is None else value
        return f"{_nodes(nodes)} {'reports' if len(set(nodes)) == 1 else 'report'} {what}"


def _did(op: Operation) -> str:
    """The result of an acknowledged operation, and its time."""
    what = "deleted it" if op.value is None else f"set it to {op.value}"
    return f"operation {op.op} of {op.writer} ({op.kind}), acknowledged at {_clock(op.returned_ns)} UTC, {what}"


def _nodes(nodes: Iterable[int]) -> str:
    named = sorted(set(nodes))
    return f"node{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"


def _clock(at_ns: int) -> str:
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest_ns // 1_000_000:03d}"


def _topic(entity: str) -> str | None:
    """The topic that an entity is, or belongs to."""
    sort, _, rest = entity.partition(" ")
    return rest.split(" ")[0] if sort in (Sort.TOPIC, Sort.TOPIC_CONFIG, Sort.REPLICAS) else None


def _acked(op: Operation) -> bool:
    return op.outcome == Outcome.ACKED.value


def _listed(findings: Sequence[Finding]) -> list[Finding]:
    """At most LISTED_MAX findings of each kind, and one more with the number of the others."""
    by_kind: dict[FindingKind, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    listed: list[Finding] = []
    for kind, found in by_kind.items():
        listed += found[:LISTED_MAX]
        if (more := len(found) - LISTED_MAX) > 0:
            listed.append(Finding(kind=kind, count=more, detail=f"{more} more entities"))
    return listed


def _doubts(case: Case, reported: AdminReport) -> Iterator[Doubt]:
    """Doubts when an admin did too little, or nodes were not asked: then nothing is proven about its operations."""
    for admin in case.scenario.admin or ():
        yield from _floors(case, admin, [op for op in reported.ops if op.writer == admin.name])
    if not reported.ops:
        return
    if reported.last_phase is None:
        yield Doubt(
            DoubtName.NO_ADMIN_VIEWS,
            "admins performed operations, and the nodes were not asked for the results after healing",
        )
        return
    if case.manifest.by_harness and not any(view.phase == "start" for view in reported.views):
        yield Doubt(DoubtName.NO_ADMIN_VIEWS, "the nodes were not asked for their metadata before the admins started")
    yield from _not_reported(case, reported)


def _has_silent_admin(case: Case, reported: AdminReport) -> bool:
    """Whether some admin of the scenario has no rows at all."""
    return bool({admin.name for admin in case.scenario.admin or ()} - {op.writer for op in reported.ops})


def _floors(case: Case, admin: PlannedAdmin, ops: Sequence[Operation]) -> Iterator[Doubt]:
    acked = [op for op in ops if _acked(op)]
    if not acked:
        yield Doubt(DoubtName.NO_OPERATION, f"no operation of admin {admin.name} was acknowledged")
        return
    windows = case.run.windows or Windows()
    spans = {
        "before": [windows.before] if windows.before else [],
        "during": windows.during or (),
        "after": [windows.after] if windows.after else [],
    }
    floors = admin.floors or Floors()
    wanted = {"before": floors.before, "during": floors.during, "after": floors.after}
    for window, floor in wanted.items():
        within = sum(any(first <= op.returned_ns <= last for first, last in spans[window]) for op in acked)
        if within < (floor or 0):
            text = f"{within} operations of admin {admin.name} were acknowledged {window} the faults"
            text = f"{text}, and {floor} are required"
            yield too_few(window, text, within)


def _not_reported(case: Case, reported: AdminReport) -> Iterator[Doubt]:
    """Entities that a broker did not report. For evidence of other clients one reporting node suffices."""
    answered: dict[str, set[int]] = defaultdict(set)
    for view in reported.views:
        if view.phase == reported.last_phase:
            answered[view.entity].add(view.node)
    shape = case.scenario.shape or PlannedShape()
    brokers = set(range(1, (shape.brokers or 0) + 1))
    silent: Counter[str] = Counter()
    for entity in sorted({op.entity for op in reported.ops}):
        if missing := brokers - answered[entity]:
            silent.update(f"broker {broker}" for broker in missing)
        elif not answered[entity]:
            silent[_NO_NODE] += 1
    for node, entities in sorted(silent.items()):
        verb = f"{node} reported" if node == _NO_NODE else f"{node} did not report"
        yield Doubt(DoubtName.ADMIN_UNSEEN, f"at the end {verb} {entities} entities that admins changed")


def _operations(known: Known) -> Addition:
    found = judged(known.case, known.of(REPORTED))
    return Addition(
        findings=found.findings,
        doubts=found.doubts,
        not_covered=[] if found.standing else [UNOPERATED],
        score={
            "operations_acked": found.acked,
            "operations_standing": found.standing,
            "operations_held": found.held,
        },
    )


REPORTED: Final = OnDriver(name="admin", read=operations_of, none=AdminReport)
CHECK: Final = Check(
    promise="The metadata of every node has the results of acknowledged admin operations, and nothing else.",
    kinds={
        Kind.ADMIN_LOST: Introduced(
            promise="the result of an acknowledged admin operation stays in the metadata log (KIP-500)"
        ),
        Kind.ADMIN_RESURRECTED: Introduced(
            promise="what an acknowledged admin operation deleted stays deleted until it is created again (KIP-500)"
        ),
        Kind.ADMIN_PHANTOM: Introduced(promise="the metadata contains what was requested, and nothing else"),
        Kind.METADATA_DIVERGENCE: Introduced(
            promise="every node learns the metadata that the controllers committed, and reports it (KIP-500)"
        ),
    },
    on_driver=(REPORTED,),
    adds=_operations,
    planted=(
        "admin_topic_lost",
        "admin_setting_reverted",
        "admin_reassignment_lost",
        "admin_topic_resurrected",
        "admin_acl_resurrected",
        "admin_user_never_requested",
        "admin_setting_refused",
        "metadata_broker_behind",
        "metadata_controller_behind",
        "near_admin_lost_never_answered",
        "near_admin_lost_never_answered_and_effective",
        "near_admin_lost_refused",
        "near_admin_lost_changed_again",
        "near_admin_resurrected_never_answered",
        "near_admin_resurrected_created_again",
        "near_admin_phantom_there_before",
        "near_metadata_divergence_that_passed",
        "near_metadata_divergence_in_progress",
        "doubt_admin_without_rows",
        "doubt_admin_nodes_not_asked",
        "doubt_admin_one_broker_silent",
        "doubt_admin_too_few_operations",
    ),
)
