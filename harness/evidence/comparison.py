"""Findings, verdicts and coverage of a gate compared with those of an earlier one, and the exit code of that.

Times are not compared here, because they decide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.evidence.gate import GateSummary
from harness.model.exits import Exit
from harness.model.finding import Finding, FindingKind
from harness.model.own_names import without_prefix
from harness.model.verdict import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two gates. verdicts: by scenario. unproved: scenarios with a result that their evidence lacks.

    An unproved FAIL stands; any other unproved result proves nothing.
    """

    summary: GateSummary
    verdicts: Mapping[str, Verdict]
    unproved: frozenset[str] = frozenset()

    @property
    def statuses(self) -> dict[str, Status]:
        """The verdict on each scenario that has one."""
        return {
            r.name: r.status
            for r in self.summary.results
            if r.status is not None and (r.name not in self.unproved or r.status is Status.FAIL)
        }

    @property
    def flaky(self) -> tuple[str, ...]:
        return self.summary.flaky


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Defect:
    """The findings of one kind in one place of a scenario that are the same defect in another gate.

    Offsets, times and numbers of partitions differ from run to run, so they are no part of it. place: `partition` for
    any partition of the topic, `topic` for the topic itself, `cluster` without a topic.
    """

    scenario: str
    kind: str
    topic: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A defect, and how many records, operations or nodes each gate has of it. meaning: of its kind."""

    defect: Defect
    meaning: str
    before: int
    after: int

    @property
    def where(self) -> str:
        """Such as "a partition of plain"; empty without a topic."""
        topic = self.defect.topic
        return {"partition": f"a partition of {topic}", "topic": f"the topic {topic}"}.get(self.defect.place, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A scenario with another verdict than before; None = it has none.

    not_applicable: it needs a newer Kafka than the release of B.
    """

    scenario: str
    before: Status | None
    after: Status | None
    not_applicable: bool = False

    @property
    def proves_less(self) -> bool:
        """It was PASS, and is INCONCLUSIVE or has no verdict now, although it applies to the release."""
        return self.before is Status.PASS and self.after in (Status.INCONCLUSIVE, None) and not self.not_applicable

    @property
    def new_fail(self) -> bool:
        return self.after is Status.FAIL and self.before is not Status.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Findings, verdicts and coverage of gate B beside those of gate A.

    new, gone, in_both: findings that condemn. undecided: findings of A in scenarios that B does not decide, so that
    they may be there still. changed: scenarios with another verdict. less_covered, more_covered: by
    entry of `not_covered`, the scenarios of both gates in which only B, or only A, names it.
    """

    a: Side
    b: Side
    new: tuple[Found, ...]
    gone: tuple[Found, ...]
    undecided: tuple[Found, ...]
    in_both: tuple[Found, ...]
    changed: tuple[Changed, ...]
    less_covered: Mapping[str, tuple[str, ...]]
    more_covered: Mapping[str, tuple[str, ...]]

    @property
    def proves_less(self) -> tuple[Changed, ...]:
        return tuple(one for one in self.changed if one.proves_less)

    @property
    def new_fails(self) -> tuple[Changed, ...]:
        return tuple(one for one in self.changed if one.new_fail)

    @property
    def exit(self) -> Exit:
        """FAIL for a finding or a FAIL that A does not have; INCONCLUSIVE where A proved something that B does not."""
        if self.new or self.new_fails:
            return Exit.FAIL
        return Exit.INCONCLUSIVE if self.proves_less else Exit.PASS


def compared(a: Side, b: Side) -> Comparison:
    """Compares two gates. a: before, b: after."""
    before, after = _defects(a.verdicts), _defects(b.verdicts)
    kinds = {f.kind.value: f.kind for side in (a, b) for v in side.verdicts.values() for f in v.findings}

    def found(defects: Iterable[Defect]) -> tuple[Found, ...]:
        return tuple(_found(one, kinds[one.kind], before[one], after[one]) for one in sorted(defects))

    was, now = a.statuses, b.statuses
    missed = before.keys() - after.keys()
    gone = {one for one in missed if now.get(one.scenario) in (Status.PASS, Status.FAIL)}
    names = dict.fromkeys([*was, *now])
    return Comparison(
        a=a,
        b=b,
        new=found(after.keys() - before.keys()),
        gone=found(gone),
        undecided=found(missed - gone),
        in_both=found(before.keys() & after.keys()),
        changed=tuple(
            Changed(
                scenario=name,
                before=was.get(name),
                after=now.get(name),
                not_applicable=name in b.summary.not_applicable and name not in now,
            )
            for name in names
            if was.get(name) is not now.get(name)
        ),
        less_covered=_only_in(b.verdicts, a.verdicts),
        more_covered=_only_in(a.verdicts, b.verdicts),
    )


def _defects(verdicts: Mapping[str, Verdict]) -> Counter[Defect]:
    """How many records, operations or nodes there are of each defect that condemns."""
    counts: Counter[Defect] = Counter()
    for name, verdict in verdicts.items():
        for finding in verdict.findings:
            if finding.condemns:
                counts[defect_of(name, finding)] += finding.count
    return counts


def defect_of(scenario: str, finding: Finding) -> Defect:
    """The defect that a finding shows."""
    place = "topic" if finding.partition is None else "partition"
    return Defect(
        scenario=scenario,
        kind=finding.kind.value,
        topic=without_prefix(finding.topic or ""),
        place="cluster" if finding.topic is None else place,
    )


def _found(defect: Defect, kind: FindingKind, before: int, after: int) -> Found:
    return Found(defect=defect, meaning=kind.meaning, before=before, after=after)


def _only_in(one: Mapping[str, Verdict], other: Mapping[str, Verdict]) -> dict[str, tuple[str, ...]]:
    """By entry of `not_covered`, the scenarios of both in which only `one` names it."""
    entries: dict[str, tuple[str, ...]] = {}
    for name in one.keys() & other.keys():
        for what in set(one[name].not_covered) - set(other[name].not_covered):
            entries[what] = tuple(sorted((*entries.get(what, ()), name)))
    return dict(sorted(entries.items()))
