"""How a check declares itself: the promise, the kinds of findings that break it, their sentences, and its queries.

Each module or package of harness/verify/checks with a `CHECK` is a check; `registry.py` finds them. All that a verdict
says about its findings comes from this declaration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from harness.model.documents.contract import Contract, ProducerContract, TopicContract
from harness.model.finding import FindingKind, Kind, OwnKind
from harness.model.verdict import Doubt
from harness.verify.engine.rows import Reason
from harness.verify.engine.runs import RecordRange
from harness.verify.excuse import Excuse

if TYPE_CHECKING:
    from harness.verify.engine.case import Case

Sentence = str | Callable[[RecordRange], str]
Query = Callable[..., DataFrame]
# The parts of `engine.inputs.Inputs`, which a query names as its parameters.
PARTS: Final = ("given", "read", "drained", "drill", "compared", "tiers")


@dataclass(frozen=True, slots=True)
class Settings:
    """The declared settings that a promise depends on. topic and producer: None where they are not known."""

    contract: Contract
    topic: TopicContract | None = None
    producer: ProducerContract | None = None

    def over_time(self, key: str, declared: int) -> str:
        """A setting of the topic, followed by the values that declared steps gave it."""
        changes = (c for c in self.contract.changes or () if self.topic and c.topic == self.topic.topic)
        later = [change.config[key] for change in changes if key in change.config]
        return ", then ".join(map(str, (declared, *later)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduced:
    """A kind of finding in the declaration of the one check that introduces it.

    promise: what a finding of this kind breaks, in one sentence that begins in lower case.
    rank: of two findings about one record or offset only that with the lower rank is reported. None: both are.
    """

    promise: str | Callable[[Settings], str]
    rank: int | None = None


def _no_doubts(case: Case) -> Iterable[Doubt]:
    del case
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The declaration of a check.

    promise: what it checks, in one full sentence.
    kinds: the kinds of findings that it introduces.
    seen: the observation, in one sentence that begins in lower case, by kind and by the reason that a query gives, a
    member of the check's own enum. The kinds may be those of other checks.
    breaks: the promise that its findings of other checks' kinds break; "" where it is that of the kind.
    finer: the order of reasons within a kind, added to the rank of the kind.
    beside: reasons of findings that are reported also if a finding with a lower rank is.
    of_committed: reasons that a read_committed reader received the record, with the reason that counts if its
    transaction was not aborted; else it becomes an aborted_read.
    planted: names of plants in suites/planted: defects in a real run that it finds, and near misses (`near_`).
    queries: by name, functions from parts of the inputs (`PARTS`, by their parameters) to rows in the form of
    `engine.rows.found`. Checks of small evidence have none: conclude.py calls them.
    excuses: those of kinds in this declaration only (`excuse.py`).
    doubts: reasons why the evidence of a case proves too little for this check.
    """

    promise: str
    kinds: Mapping[FindingKind, Introduced] = field(default_factory=dict)
    seen: Mapping[tuple[FindingKind, Reason], Sentence] = field(default_factory=dict)
    breaks: str = ""
    finer: Mapping[Reason, int] = field(default_factory=dict)
    beside: frozenset[Reason] = frozenset()
    of_committed: Mapping[Reason, Reason] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    planted: tuple[str, ...] = ()
    excuses: tuple[Excuse, ...] = ()
    doubts: Callable[[Case], Iterable[Doubt]] = _no_doubts

    @property
    def reports(self) -> tuple[FindingKind, ...]:
        """Every kind in this declaration."""
        return tuple(dict.fromkeys([*self.kinds, *(kind for kind, _ in self.seen)]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The parts of the inputs that its queries need, in the order of `PARTS`."""
        needed = {name for query in self.queries.values() for name in parameters(query)}
        return tuple(part for part in PARTS if part in needed)


_DECLARED: Final[dict[str, Check]] = {}
_SHARED: Final[list[Excuse]] = []


def declared() -> Mapping[str, Check]:
    """Every check by its name."""
    return _DECLARED


def declare(name: str, check: Check) -> None:
    """Adds a check. ValueError, in one sentence, for a declaration that contradicts itself or another one."""
    if name in _DECLARED:
        raise ValueError(f"there already is a check {name!r}; rename this one")
    for what, mine, others in (
        ("kind", check.kinds, [one.kinds for one in _DECLARED.values()]),
        ("sentence for", check.seen, [one.seen for one in _DECLARED.values()]),
        ("query", check.queries, [one.queries for one in _DECLARED.values()]),
    ):
        if twice := sorted(str(key) for key in mine if any(key in other for other in others)):
            raise ValueError(f"another check already has the {what} {twice[0]}; rename it here")
    _check_form(check)
    check_names(check.excuses)
    for excuse in check.excuses:
        if foreign := sorted({str(kind) for kind in excuse.kinds} - {*map(str, check.reports)}):
            raise ValueError(f"its excuse {excuse.name} is for the kind {foreign[0]}, which it does not report")
    if not check.promise:
        raise ValueError("its promise is empty; write the promise in one sentence")
    for query, function in check.queries.items():
        if unknown := [part for part in parameters(function) if part not in PARTS]:
            raise ValueError(f"query {query} needs {unknown[0]!r}, which is no input; its parameters may be {PARTS}")
    _DECLARED[name] = check


def _check_form(check: Check) -> None:
    """ValueError for parts of a declaration of another type, which a check without a type checker may have."""
    for kind in check.kinds:
        if not isinstance(kind, (Kind, OwnKind)):
            raise ValueError(f"its kind {kind!r} is plain text; write OwnKind(name, meaning)")
    if not isinstance(check.excuses, tuple):
        raise ValueError("its excuses are not a tuple; write excuses=(NAME,), with the comma")


def share(found: Sequence[Excuse]) -> None:
    """Adds excuses that several checks share."""
    check_names(found)
    _SHARED.extend(found)


def excuses() -> list[tuple[str, Excuse]]:
    """Every excuse, with the name of the check that declares it; "" for those that several promises share."""
    own = [(name, excuse) for name, check in _DECLARED.items() for excuse in check.excuses]
    return [*(("", excuse) for excuse in _SHARED), *own]


def check_names(found: Sequence[Excuse]) -> None:
    """ValueError, in one sentence, for excuses that contradict each other or another one."""
    others = [excuse for _, excuse in excuses()]
    for excuse in found:
        if excuse.name in {other.name for other in others}:
            raise ValueError(f"there already is an excuse {excuse.name!r}; rename this one")
        if not excuse.permits:
            raise ValueError(f"its excuse {excuse.name} does not say what permits it; write `permits` in one sentence")
        if not excuse.permits_something:
            raise ValueError(f"its excuse {excuse.name} has no function, so it permits nothing; give it `clauses`")
        same = [other for other in others if other.rows and excuse.rows and other.turn is excuse.turn]
        if twice := [other.name for other in same if set(other.kinds) & set(excuse.kinds)]:
            raise ValueError(f"the excuses {excuse.name} and {twice[0]} of one turn are for the same kind; change one")
        others.append(excuse)


def withdraw(name: str) -> None:
    """Removes a check, of a plugin that is no longer used."""
    del _DECLARED[name]


def introduced(kind: FindingKind) -> Introduced:
    """The declaration of a kind. KeyError for a kind that no check introduces."""
    return {found: how for check in _DECLARED.values() for found, how in check.kinds.items()}[kind]


def parameters(query: Query) -> tuple[str, ...]:
    """The names of the inputs that a query needs."""
    return tuple(inspect.signature(query).parameters)


def span(run: RecordRange, what: str) -> str:
    """ "offset 7", or "offsets 7 to 9", from the second figure of a range."""
    first, last = run.other_first, run.other_last
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def by_idempotence(settings: Settings) -> str:
    """The reason why a producer's own retries write no record twice or out of order."""
    idempotent = settings.producer is None or settings.producer.idempotent
    return "idempotence" if idempotent else "a producer without retries"
