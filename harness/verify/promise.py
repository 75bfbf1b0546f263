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
from harness.model.schemas import TABLES
from harness.verify.addition import Addition, Order
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.rows import Reason
from harness.verify.engine.runs import RecordRange
from harness.verify.excuse import Excuse

if TYPE_CHECKING:
    from harness.verify.engine.known import Known

Sentence = str | Callable[[RecordRange], str]
Query = Callable[..., DataFrame | None]  # None: it finds nothing
# The parts of `engine.inputs.Inputs`, which a query names as its parameters.
PARTS: Final = ("given", "shown", "read", "ack_times", "drained", "sessions", "drill", "compared", "tiers")
_CHECKS: Final = ".checks."  # in the name of a module of a check, in this tree and in plugins


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

    def with_retention(self, said: str) -> str:
        """A sentence, followed by the limits of the topic's retention if the topic is known."""
        if self.topic is None:
            return said
        declared = {"retention.ms": self.topic.retention_ms, "retention.bytes": self.topic.retention_bytes}
        return f"{said} ({', '.join(f'{key}={self.over_time(key, value)}' for key, value in declared.items())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduced:
    """A kind of finding in the declaration of the one check that introduces it.

    promise: what a finding of this kind breaks, in one sentence that begins in lower case.
    rank: of two findings about one record or offset only that with the lower rank is reported. None: both are.
    """

    promise: str | Callable[[Settings], str]
    rank: int | None = None


def _adds_nothing(known: Known) -> Addition:
    del known
    return Addition()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The declaration of a check.

    promise: what it checks, in one full sentence.
    kinds: the kinds of findings that it introduces.
    seen: the observation, in one sentence that begins in lower case, by kind and by the reason that a query gives, a
    member of the check's own enum. The kinds may be those of other checks.
    shares: kinds of other checks, of which `adds` has findings, too.
    breaks: the promise that its findings of other checks' kinds break; "" where it is that of the kind.
    finer: the order of reasons within a kind, added to the rank of the kind.
    beside: reasons of findings that are reported also if a finding with a lower rank is.
    of_committed: reasons that a read_committed reader received the record, with the reason that counts if its
    transaction was not aborted; else it becomes an aborted_read.
    no_findings: reasons of rows that are doubts or notes, so that they need no sentence in `seen`.
    planted: names of plants in suites/planted: defects in a real run that it finds, and near misses (`near_`).
    queries: by name, functions from parts of the inputs (`PARTS`, by their parameters) to rows in the form of
    `engine.rows.found`. Checks of small evidence have none.
    nothing_without: by query, a table of the evidence without whose rows it finds nothing, so that it plans nothing;
    or a frame of an input, such as `drill.sent`.
    on_driver: rows that it needs for `adds`.
    adds: what it adds to the verdict on a case besides the findings of its queries, such as findings from documents,
    doubts and counts. order: where that stands in the verdict.
    excuses: those of kinds in this declaration only (`excuse.py`).
    """

    promise: str
    kinds: Mapping[FindingKind, Introduced] = field(default_factory=dict)
    seen: Mapping[tuple[FindingKind, Reason], Sentence] = field(default_factory=dict)
    shares: tuple[FindingKind, ...] = ()
    breaks: str = ""
    finer: Mapping[Reason, int] = field(default_factory=dict)
    beside: frozenset[Reason] = frozenset()
    of_committed: Mapping[Reason, Reason] = field(default_factory=dict)
    no_findings: frozenset[Reason] = frozenset()
    queries: Mapping[str, Query] = field(default_factory=dict)
    nothing_without: Mapping[str, str] = field(default_factory=dict)
    on_driver: tuple[OnDriver[object], ...] = ()
    adds: Callable[[Known], Addition] = _adds_nothing
    order: Order = field(default_factory=Order)
    planted: tuple[str, ...] = ()
    excuses: tuple[Excuse, ...] = ()

    @property
    def reports(self) -> tuple[FindingKind, ...]:
        """Every kind in this declaration."""
        return tuple(dict.fromkeys([*self.kinds, *self.shares, *(kind for kind, _ in self.seen)]))

    @property
    def readers(self) -> dict[str, Callable[..., object]]:
        """Its functions of parts of the inputs, each by the name under which it may fail."""
        return {**self.queries, **{rows.name: rows.read for rows in self.on_driver}}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The parts of the inputs that it needs, in the order of `PARTS`."""
        needed = {name for reader in self.readers.values() for name in parameters(reader)}
        return tuple(part for part in PARTS if part in needed)

    @property
    def can_find(self) -> bool:
        """Whether it has any function that may find something."""
        return bool(self.queries) or self.adds is not _adds_nothing


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
        ("query", check.readers, [one.readers for one in _DECLARED.values()]),
    ):
        if twice := sorted(str(key) for key in mine if any(key in other for other in others)):
            raise ValueError(f"another check already has the {what} {twice[0]}; rename it here")
    _check_form(check)
    _check_sentences(name, check)
    check_names(check.excuses)
    for excuse in check.excuses:
        if foreign := sorted({str(kind) for kind in excuse.kinds} - {*map(str, check.reports)}):
            raise ValueError(f"its excuse {excuse.name} is for the kind {foreign[0]}, which it does not report")
    if not check.promise:
        raise ValueError("its promise is empty; write the promise in one sentence")
    for query, function in check.readers.items():
        if unknown := [part for part in parameters(function) if part not in PARTS]:
            raise ValueError(f"query {query} needs {unknown[0]!r}, which is no input; its parameters may be {PARTS}")
    for query, rows in check.nothing_without.items():
        if query not in check.queries:
            raise ValueError(f"nothing_without names {query!r}, which is no query of this check")
        if rows not in TABLES and rows.partition(".")[0] not in PARTS:
            raise ValueError(
                f"query {query} finds nothing without {rows!r}, which is no table of the evidence and of no input"
            )
    _DECLARED[name] = check


def _check_form(check: Check) -> None:
    """ValueError for parts of a declaration of another type, which a check without a type checker may have."""
    for kind in check.kinds:
        if not isinstance(kind, (Kind, OwnKind)):
            raise ValueError(f"its kind {kind!r} is plain text; write OwnKind(name, meaning)")
    if not isinstance(check.excuses, tuple):
        raise ValueError("its excuses are not a tuple; write excuses=(NAME,), with the comma")


def _check_sentences(name: str, check: Check) -> None:
    """ValueError for a kind or a reason that a query may report and about which a verdict could say nothing."""
    said = {kind for kind, _ in check.seen}
    for kind in check.kinds if check.queries else ():
        if kind not in said:
            raise ValueError(f"the kind {kind} of the check {name} has no sentence; write one in its `seen`")
    explained = {reason for _, reason in check.seen} | check.no_findings | check.of_committed.keys()
    for reason in (reason for enum in _enums(check, {*explained, *check.finer, *check.beside}) for reason in enum):
        if reason not in explained:
            raise ValueError(
                f"the reason {type(reason).__name__}.{reason.name} of the check {name} has no sentence; write one in "
                "its `seen`, or name it in `no_findings` if its rows are doubts or notes"
            )


def _enums(check: Check, named: Iterable[Reason]) -> list[type[Reason]]:
    """The enums of reasons that its queries may give: those of the named reasons, unless they are of another check, and
    those that the modules of its queries know and that are its own."""
    own = {_folder(query.__module__) for query in check.queries.values()}
    known = [value for query in check.queries.values() for value in getattr(query, "__globals__", {}).values()]
    enums = [enum for enum in known if isinstance(enum, type) and issubclass(enum, Reason) and enum is not Reason]
    found = [enum for enum in enums if _folder(enum.__module__) in own]
    found += [
        type(reason)
        for reason in sorted(named)
        if _CHECKS not in type(reason).__module__ or _folder(type(reason).__module__) in own
    ]
    return list(dict.fromkeys(found))


def _folder(module: str) -> str:
    """The module or package of the check that a module belongs to."""
    above, checks, below = module.partition(_CHECKS)
    return above + checks + below.partition(".")[0]


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


def parameters(reader: Callable[..., object]) -> tuple[str, ...]:
    """The names of the inputs that a function needs."""
    return tuple(inspect.signature(reader).parameters)


def span(run: RecordRange, what: str) -> str:
    """ "offset 7", or "offsets 7 to 9", from the second figure of a range."""
    first, last = run.other_first, run.other_last
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def by_idempotence(settings: Settings) -> str:
    """The reason why a producer's own retries write no record twice or out of order."""
    idempotent = settings.producer is None or settings.producer.idempotent
    return "idempotence" if idempotent else "a producer without retries"
