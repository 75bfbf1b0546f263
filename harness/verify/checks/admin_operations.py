"""What admins were promised, held against what every node said at the end: one small state machine a thing.

The rows are few (an operation takes milliseconds of an admin's time), so the driver has them all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from harness.model.entities import Legal, Operation, Sort, legal
from harness.model.errors import BadEvidence
from harness.model.finding import Finding, Kind
from harness.model.outcome import Outcome
from harness.model.verdict import Doubt
from harness.verify.engine.case import FINAL_PHASES, Case
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import BUNDLE
from harness.verify.sentences import promise

ROWS_MAX: Final = 1_000_000  # of all bundles together; a run of an hour leaves a tenth of that
LISTED_MAX: Final = 50  # of a kind
MEANINGS: Final[Mapping[Kind, str]] = {
    Kind.ADMIN_LOST: "An operation that was acknowledged to an admin is not to be seen afterwards.",
    Kind.ADMIN_RESURRECTED: "What an acknowledged operation unmade (topic, setting, ACL, user) is there again.",
    Kind.ADMIN_PHANTOM: "A topic, setting, ACL or user that nobody asked for, or that was refused for certain.",
    Kind.METADATA_DIVERGENCE: "Nodes tell different things of the metadata, and no operation is under way.",
}


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
class Told:
    """The rows of one bundle."""

    ops: tuple[Operation, ...] = ()
    views: tuple[View, ...] = ()

    @property
    def last_phase(self) -> str | None:
        """The last look after healing is the one that counts: what takes its time may have it."""
        phases = {view.phase for view in self.views}
        return next((phase for phase in FINAL_PHASES if phase in phases), None)


@dataclass(slots=True)
class Operations:
    """What comes of them. standing: acknowledged ones that alone decide what is to be seen; held: that are seen."""

    findings: list[Finding] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    acked: int = 0
    standing: int = 0
    held: int = 0


def operations_of(given: Prepared) -> list[Told]:
    """The rows of each bundle, on the driver. BadEvidence when there are more than any admin could have made."""
    ops: dict[int, list[Operation]] = defaultdict(list)
    views: dict[int, list[View]] = defaultdict(list)
    for row in _rows(given.admin_ops):
        ops[row.pop(BUNDLE)].append(Operation(**row))
    for row in _rows(given.admin_views):
        views[row.pop(BUNDLE)].append(View(**row))
    return [
        Told(tuple(sorted(ops[n], key=lambda op: (op.called_ns, op.op))), tuple(views[n]))
        for n in range(len(given.cases))
    ]


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    rows = table.limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise BadEvidence(f"more than {ROWS_MAX} rows of admins; judge fewer bundles at once")
    return (row.asDict() for row in rows)


def judged(case: Case, reported: Told) -> Operations:
    """The findings, doubts and figures of one case."""
    out = Operations(acked=sum(_acked(op) for op in reported.ops))
    if not case.complete:
        return out
    out.doubts += _doubts(case, reported)
    if _silent(case, reported):  # nobody knows then who asked for what is there
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
    """One entity: what was done to it, and what each node says of it. before: None where nobody asked at first."""

    entity: str
    ops: Sequence[Operation]
    before: set[str | None] | None
    views: Sequence[View]
    case: Case

    @property
    def may_be(self) -> Legal:
        """Asked of all nodes together, so that none is held to more than another."""
        asked_ns, at_ns = min(v.asked_ns for v in self.views), max(v.at_ns for v in self.views)
        first = self._values if self.before is None else self.before
        calm_ns = ((self.case.run.get("windows") or {}).get("after") or [0])[0]
        return legal(self.ops, first, asked_ns, at_ns, calm_ns=calm_ns)

    @property
    def decided(self) -> bool:
        """Whether one acknowledged operation says what it has to be."""
        return self.may_be.decisive is not None and len(self.may_be.values) == 1

    @property
    def _values(self) -> set[str | None]:
        return {view.value for view in self.views}

    def findings(self) -> Iterator[Finding]:
        """One for each value that has to be explained and cannot be; none when every node tells the same legal one.

        A value that nobody asked for is a phantom, whoever tells it. When some node tells a legal value, the operation
        was not lost, and the others are behind or astray: they diverge.
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
        reported = [self._say(one) for one in sorted(self._values, key=str)]
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
        last = _done(op) if op else "no operation on it was acknowledged"
        if kind is not Kind.ADMIN_PHANTOM:
            return last
        refused = next((o for o in self.ops if o.value == value and o.outcome == Outcome.REFUSED.value), None)
        if refused is None:
            return f"nobody asked for {value}; {last}"
        asked = (
            f"only operation {refused.op} of {refused.writer} asked for {value}, and it was refused ({refused.error})"
        )
        return f"{asked}; {last}"

    def _say(self, value: str | None) -> str:
        nodes = [view.node for view in self.views if view.value == value]
        what = "that it is not there" if value is None else value
        return f"{_nodes(nodes)} {'says' if len(set(nodes)) == 1 else 'say'} {what}"


def _done(op: Operation) -> str:
    """What an acknowledged operation did, and when."""
    after = "absent" if op.value is None else op.value
    return f"operation {op.op} of {op.writer} ({op.kind}), acknowledged {_clock(op.returned_ns)} UTC, made it {after}"


def _nodes(nodes: Iterable[int]) -> str:
    named = sorted(set(nodes))
    return f"node{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"


def _clock(at_ns: int) -> str:
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest_ns // 1_000_000:03d}"


def _topic(entity: str) -> str | None:
    """The topic that an entity is or belongs to."""
    sort, _, rest = entity.partition(" ")
    return rest.split(" ")[0] if sort in (Sort.TOPIC, Sort.TOPIC_CONFIG, Sort.REPLICAS) else None


def _acked(op: Operation) -> bool:
    return op.outcome == Outcome.ACKED.value


def _listed(findings: Sequence[Finding]) -> list[Finding]:
    """So many of each kind, and one more that says how many there are besides."""
    by_kind: dict[Kind, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    listed: list[Finding] = []
    for kind, found in by_kind.items():
        listed += found[:LISTED_MAX]
        if (more := len(found) - LISTED_MAX) > 0:
            listed.append(Finding(kind=kind, count=more, detail=f"{more} more things"))
    return listed


def _doubts(case: Case, reported: Told) -> Iterator[Doubt]:
    """An admin that did too little, or nodes that nobody asked afterwards: nothing is proven of what was promised."""
    for admin in case.scenario.get("admin") or []:
        yield from _floors(case, admin, [op for op in reported.ops if op.writer == admin["name"]])
    if not reported.ops:
        return
    if reported.last_phase is None:
        yield Doubt("no_admin_views", "admins did their work, and nobody asked the nodes for it after healing")
        return
    if case.manifest.get("sealed_by") == "harness" and not any(view.phase == "start" for view in reported.views):
        yield Doubt("no_admin_views", "nobody asked the nodes before the admins began")
    yield from _unasked(case, reported)


def _silent(case: Case, reported: Told) -> bool:
    """Whether some admin of the scenario has no rows at all."""
    return bool({admin["name"] for admin in case.scenario.get("admin") or []} - {op.writer for op in reported.ops})


def _floors(case: Case, admin: Mapping[str, Any], ops: Sequence[Operation]) -> Iterator[Doubt]:
    acked = [op for op in ops if _acked(op)]
    if not acked:
        yield Doubt("no_operation", f"not one operation of admin {admin['name']} was acknowledged")
        return
    windows = case.run.get("windows") or {}
    spans = {name: [windows[name]] for name in ("before", "after") if windows.get(name)}
    spans["during"] = windows.get("during") or []
    for window, floor in (admin.get("floors") or {}).items():
        within = sum(any(first <= op.returned_ns <= last for first, last in spans.get(window, [])) for op in acked)
        if within < (floor or 0):
            text = f"{within} operations of admin {admin['name']} acknowledged {window} the faults, {floor} wanted"
            yield Doubt(f"floor_{window}", text)


def _unasked(case: Case, reported: Told) -> Iterator[Doubt]:
    """Every broker has to have told of everything that was done; by hand, somebody has to."""
    answered: dict[str, set[int]] = defaultdict(set)
    for view in reported.views:
        if view.phase == reported.last_phase:
            answered[view.entity].add(view.node)
    shape = case.scenario.get("shape") or {}
    brokers = set(range(1, (shape.get("brokers") or 0) + 1))
    silent: Counter[str] = Counter()
    for entity in sorted({op.entity for op in reported.ops}):
        if missing := brokers - answered[entity]:
            silent.update(f"broker {broker}" for broker in missing)
        elif not answered[entity]:
            silent["anybody"] += 1
    for who, entities in sorted(silent.items()):
        yield Doubt("admin_unseen", f"{entities} things that admins worked on were not told of by {who} at the end")
