"""How an excuse declares itself: what the contract permits, of which kinds of findings, and by which evidence.

An excuse of one promise is in the `excuses` of its check. Those that several promises share are in the `EXCUSES` of a
module of harness/verify/excuses. `registry.py` finds both, and `excusing.py` asks them. A finding outside every excuse
condemns. A negative control changes nothing here: an event that the declared contract does not permit excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.documents.steps import Step
from harness.model.excuse import Evidence, EvidenceKind
from harness.model.facts import Fact
from harness.model.finding import Finding, FindingKind

if TYPE_CHECKING:
    from harness.verify.engine.case import Case
    from harness.verify.engine.known import Known
    from harness.verify.engine.prepared import Prepared
    from harness.verify.excuses.clauses import Clause
    from harness.verify.unreadable import Unreadable

# The column `excuse` of rows, and `evidence`, its part that `rows` of an excuse may set.
_EVIDENCE: Final = "kind: string, what: string, step: string, at_ns: bigint"
REFERENCE: Final = f"struct<name: string, evidence: struct<{_EVIDENCE}>>"


class Turn(IntEnum):
    """When the `rows` of an excuse are asked. A finding has the first excuse that permits it, and all clauses come
    before. Two excuses of one turn are about different kinds, so that their order does not matter."""

    # Before the losses are counted that the contract permits as an exact number: these count, too.
    COUNTED = 1
    # After that: these excuses need other records of the run, and none of them is about a failure.
    BY_RECORDS = 2
    # Last: a record that compaction removed is in no log, whatever else may explain that it was skipped.
    LAST = 3


@dataclass(frozen=True, slots=True)
class Permitted:
    """The sentence that permits one finding, and its evidence."""

    why: str
    evidence: Evidence


Permit = Callable[[Finding], Permitted | None]


def _no_clauses(number: int, case: Case) -> Iterable[Clause]:
    del number, case
    return ()


def _none_by_tables(given: Prepared) -> Iterable[Clause]:
    del given
    return ()


def _all_readable(known: Known) -> Iterable[Unreadable]:
    del known
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """The declaration of an excuse. At least one of its functions is given.

    name: a word that no other excuse has. permits: what permits it, in one full sentence. kinds: of the findings.
    clauses: `clauses.clauses` for the number of a bundle and its case. by_tables: the same from the tables of all
    bundles. late: clauses for acknowledgements after an election, which a deposed leader may have given (`late_acks`).
    rows: from findings as rows, with their sends, to the same rows with `excused_by` set where it was null. They may
    have a column `evidence` (`reference`); `evidence` of this declaration counts where they do not. turn: of `rows`.
    of_findings: for findings without records, from all that is known about their case.
    unreadable: offsets that no reader can get, because of a permitted event.
    """

    name: str
    permits: str
    kinds: tuple[FindingKind, ...]
    clauses: Callable[[int, Case], Iterable[Clause]] = _no_clauses
    by_tables: Callable[[Prepared], Iterable[Clause]] = _none_by_tables
    late: Callable[[int, Case], Iterable[Clause]] = _no_clauses
    rows: Callable[[DataFrame, Prepared], DataFrame] | None = None
    evidence: Evidence | None = None
    turn: Turn = Turn.BY_RECORDS
    of_findings: Callable[[Known], Permit] | None = None
    unreadable: Callable[[Known], Iterable[Unreadable]] = _all_readable

    @property
    def permits_something(self) -> bool:
        """Whether at least one of its functions is given."""
        left_out = (_no_clauses, _none_by_tables, _all_readable, None)
        given = (self.clauses, self.by_tables, self.late, self.rows, self.of_findings, self.unreadable)
        return any(function not in left_out for function in given)


def of_event(event: Struct, step: Step, at_ns: int | None) -> Evidence:
    """The reference to an event of a step."""
    return Evidence(kind=EvidenceKind.EVENT, what=str(event.__struct_config__.tag), step=step.name, at_ns=at_ns)


def of_fact(fact: Fact, step: Step) -> Evidence:
    """The reference to a fact of a step."""
    return Evidence(kind=EvidenceKind.FACT, what=fact.kind.value, step=step.name, at_ns=fact.from_ns)


def reference(kind: Column, what: Column, step: Column, at_ns: Column) -> Column:
    """The value of the column `evidence` of rows."""
    return F.struct(kind.alias("kind"), what.alias("what"), step.alias("step"), at_ns.alias("at_ns"))


def constant(evidence: Evidence) -> Column:
    """The same for all rows."""
    at_ns = F.lit(evidence.at_ns).cast("bigint")
    return reference(F.lit(evidence.kind.value), F.lit(evidence.what), F.lit(evidence.step).cast("string"), at_ns)


def with_reference(rows: DataFrame, excuse: Excuse) -> DataFrame:
    """Rows that `excuse` returned, with `excuse` set where `excused_by` is new."""
    if "evidence" in rows.columns:
        evidence = F.col("evidence")
    elif excuse.evidence is not None:
        evidence = constant(excuse.evidence)
    else:
        raise TypeError(f"the excuse {excuse.name} names no evidence")
    name = F.lit(excuse.name).alias("name")
    new = F.col("excused_by").isNotNull() & F.col("excuse").isNull()
    mine = F.when(new, F.struct(name, evidence.alias("evidence"))).cast(REFERENCE)
    return rows.withColumn("excuse", F.coalesce("excuse", mine)).drop("evidence")
