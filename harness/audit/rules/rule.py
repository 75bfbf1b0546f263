"""A rule of the auditor: which events and looks it takes for an operation that loses records, or will lose them.

A rule is one file in this folder with one subclass of `Rule`, or of a base like `LastingRule`; it registers by
existing. For the rest of the auditor rules are data: severity, explanation, remedy and source stand in the class. A
file of `--rules` changes limits and severities, and switches rules off.

An event of the metadata log is certain and ordered. An offset is what one broker answered at one moment: values of two
looks are compared only where the leader epoch binds them, and are never subtracted. A suspicion that rests on offsets
is confirmed by a second look before it is an alarm.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import ClassVar, final

from harness.audit.engine.view import View
from harness.audit.look import (
    CommitLook,
    LogStartReason,
    ObjectLook,
    PartitionLook,
    RemoteSegment,
    TransactionLook,
)
from harness.audit.store.partitions import Offsets
from harness.model.history.changes import AnyChange, PartitionChange, Problem
from harness.model.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Something that a rule has seen. It becomes an alarm at once, or after a second look (`needs_look`).

    cause: the same for everything that has one reason, such as "broker 3"; one cause is one incident and one alarm.
    first_offset, end_offset: the records at risk, without the one at the end; None where they are not known.
    others: further partitions with the same cause that get no suspicion of their own, because they are many.
    remedy: an action, where the one of the rule does not suit this case.
    """

    rule: str
    cause: str
    what: str  # one sentence, with the numbers
    at_ns: int  # wall clock: of the record, or of the answer
    topic: str = ""  # "" = it is about no topic
    topic_id: str = ""
    partition: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    deleted_at_ns: int | None = None  # wall clock: from when on the records may be deleted
    leader_epoch: int | None = None
    metadata_offset: int | None = None  # of the record in the metadata log that shows it
    broker: int | None = None  # the one that it is about
    needs_look: bool = False
    severity: Severity | None = None  # None = that of the rule
    limits: Mapping[str, float] = field(default_factory=dict)  # that it exceeded
    others: int = 0
    remedy: str = ""
    again: bool = False  # of the answer of `confirmed`: this look decided nothing, and one more is needed
    detail: Mapping[str, str] = field(default_factory=dict)  # for the rule itself, at later questions

    @property
    def records(self) -> int | None:
        """The number of records at risk, as offsets count them."""
        if self.first_offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.first_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForTopics:
    """Other values of a rule for the topics that match one of the patterns (`*`, `?`, `[...]`)."""

    topics: tuple[str, ...]
    enabled: bool | None = None
    severity: Severity | None = None
    limits: Mapping[str, float] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in self.topics)


class Limit(float):
    """The default of a limit, with its meaning."""

    meaning: str

    def __new__(cls, value: float, meaning: str) -> Limit:
        made = super().__new__(cls, value)
        made.meaning = meaning
        return made


class Rule(ABC):
    """One rule.

    A rule may keep a state of its own, but only what it can lose at a restart without a false alarm.

    limits: for all topics, where they differ from the defaults. overrides: for some topics; the last match counts.
    """

    name: ClassVar[str]
    severity: ClassVar[Severity]
    explanation: ClassVar[str]  # the meaning for the records, in one or two sentences
    remedy: ClassVar[str]  # an action
    source: ClassVar[str]  # KIP, JIRA, or class of Kafka
    needs: ClassVar[frozenset[str]] = frozenset()  # coverage without which it is blind: "metadata", "offsets", ...
    limits: ClassVar[Mapping[str, Limit]] = {}  # by names with units; --rules may change them
    always: ClassVar[bool] = False  # it cannot be switched off

    def __init__(
        self,
        limits: Mapping[str, float] | None = None,
        severity: Severity | None = None,
        overrides: Sequence[ForTopics] = (),
    ) -> None:
        self.limit: Mapping[str, float] = {**self.limits, **(limits or {})}
        self._severity = severity
        self._overrides = tuple(overrides)
        self._begin()

    def _begin(self) -> None:
        """Makes the state of a rule that has one."""
        return

    # Input from the engine. A method that a rule does not have costs nothing.

    def on_known(self, state: PartitionChange, view: View) -> None:
        """A partition that the database has at the start. Nothing has happened to it."""
        return

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        """A committed record of the metadata log. `before` is the same thing before it; the view has `after`.

        When a topic was deleted, the view still has its partitions, unless a snapshot shows the deletion.
        """
        return ()

    def on_problem(self, problem: Problem, view: View) -> Iterable[Suspicion]:
        """Something that makes the replayed metadata incomplete or doubtful."""
        return ()

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        """A look at a partition; `before` is the last one. The view still has `before`, and the epochs known by then.

        A refused look comes too, with its `error`.
        """
        return ()

    def on_commit(self, look: CommitLook, before: CommitLook | None, view: View) -> Iterable[Suspicion]:
        """A look at the committed offset of a chosen group; `before` is the last one of this group and partition."""
        return ()

    def on_transaction(self, look: TransactionLook, view: View) -> Iterable[Suspicion]:
        """A look at one transaction."""
        return ()

    def on_log_start(self, reason: LogStartReason, view: View) -> Iterable[Suspicion]:
        """A line about a log start offset in a broker's log."""
        return ()

    def on_segment(self, after: RemoteSegment, before: RemoteSegment | None, view: View) -> Iterable[Suspicion]:
        """A record of __remote_log_metadata, in the order of its partition. `before` is the segment before it."""
        return ()

    def on_object(self, look: ObjectLook, view: View) -> Iterable[Suspicion]:
        """An object that was missing in the storage of the tier."""
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        """Called about once a second, for what lasts too long."""
        return ()

    def confirmed(self, suspicion: Suspicion, look: PartitionLook, view: View) -> Suspicion | None:
        """After a targeted look: the suspicion, perhaps with more detail, or None if it was nothing.

        With `again` it is neither yet: the engine keeps the returned suspicion and asks again after one more look,
        about a second later. A rule limits this by itself.
        """
        return suspicion

    def over(self, suspicion: Suspicion, view: View) -> bool:
        """Whether an open alarm ends, asked about once a second. By default it stays until an operator ends it."""
        return False

    # For the engine

    @final
    def rated(self, suspicion: Suspicion) -> Suspicion | None:
        """The suspicion with its severity; None if the rule is off for its topic. An override counts most, then the
        severity of the suspicion, then that of the rule."""
        severity = self._severity
        for override in self._overrides:
            if override.matches(suspicion.topic):
                if override.enabled is False:
                    return None
                severity = override.severity or severity
        return replace(suspicion, severity=severity or suspicion.severity or self.severity)

    @final
    def reconfigure(self, other: Rule) -> None:
        """Takes the limits and severities of another instance of this rule, and keeps its own state."""
        self.limit, self._severity, self._overrides = other.limit, other._severity, other._overrides

    # For subclasses

    @final
    def limit_of(self, topic: str, name: str) -> float:
        """A limit for a topic."""
        value = self.limit[name]
        for override in self._overrides:
            if name in override.limits and override.matches(topic):
                value = override.limits[name]
        return value


@cache
def rule_classes() -> Mapping[str, type[Rule]]:
    """Every rule by its name."""
    from harness.audit import rules

    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{module.name}")
    own = [rule for rule in _subclasses(Rule) if rule.__module__.startswith(f"{rules.__name__}.")]
    return {rule.name: rule for rule in sorted(own, key=lambda rule: rule.name)}


def _subclasses(kind: type[Rule]) -> Iterator[type[Rule]]:
    """All that are no mere base of others."""
    for rule in kind.__subclasses__():
        if not inspect.isabstract(rule):
            yield rule
        yield from _subclasses(rule)
