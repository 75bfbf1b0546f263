"""Verdicts: PASS, INCONCLUSIVE or FAIL, with the findings, doubts and score behind them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from msgspec import field
from msgspec.structs import force_setattr

from harness.model.documents.record import Record, meaning
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.doubt_names import DoubtOrigin, origin_of
from harness.model.exits import Exit
from harness.model.finding import Finding
from harness.model.schemas import FORMAT_VERSION


class Status(StrEnum):
    """The statuses in TTCN-3's order, from the best to the worst. They are no exit codes; see `exit_of`."""

    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    FAIL = "FAIL"

    @property
    def severity(self) -> int:
        """Its place in that order."""
        return list(Status).index(self)


_EXITS = {Status.PASS: Exit.PASS, Status.INCONCLUSIVE: Exit.INCONCLUSIVE, Status.FAIL: Exit.FAIL}


def exit_of(status: Status) -> Exit:
    """The exit code of a status."""
    return _EXITS[status]


def overall(statuses: Iterable[Status]) -> Status:
    """The worst of several statuses; INCONCLUSIVE if there are none."""
    return max(statuses, key=lambda status: status.severity, default=Status.INCONCLUSIVE)


class Doubt(Record, frozen=True, kw_only=False):
    """A reason why a run proved too little."""

    name: Annotated[str, meaning("a word for it, which stays the same")]
    text: Annotated[str, meaning("what happened, with figures")]
    origin: Annotated[
        DoubtOrigin | None,
        meaning(
            "its cause; see the list of doubts. Null or absent: as that list says for its name, and `release` for "
            "any other name"
        ),
    ] = None

    def __post_init__(self) -> None:
        """A doubt that does not state its origin has that of its name, also one that an older bundle stored."""
        if self.origin is None:
            force_setattr(self, "origin", origin_of(self.name))

    @property
    def of_release(self) -> bool:
        """Whether another try could hide what the brokers did."""
        return self.origin not in (DoubtOrigin.MACHINE, DoubtOrigin.SCENARIO)


class Score(Record, frozen=True, kw_only=True):
    """The score of a bundle, by fault episodes: records of one fault share its fate, so only episodes are independent.

    The shares of records are descriptive.
    """

    episodes: Annotated[
        int, meaning("faults and operations that had an effect on the data path, without `episodes_unknown`")
    ]
    episodes_with_loss: Annotated[int, meaning("those of them in which promised records were lost")]
    loss_bound: Annotated[
        float,
        meaning("exact one-sided 95 % upper bound (Clopper-Pearson) on the chance of loss for one fault episode"),
    ]
    acked: Annotated[int, meaning("acknowledged records; descriptive")]
    durable_raw: Annotated[int, meaning("those of them that are neither lost nor `unknown`; descriptive")]
    share_raw: Annotated[
        float | None, meaning("their share of the acknowledged records without `unknown`; descriptive")
    ]
    share_excused: Annotated[
        float | None, meaning("the same, without excused records among the promised ones; descriptive")
    ]
    nines_raw: Annotated[float | None, meaning("`share_raw` as a number of nines; descriptive")]
    nines_excused: Annotated[float | None, meaning("`share_excused` as a number of nines; descriptive")]
    lost_without_fault: Annotated[
        int,
        meaning("records and operations that a run lost in which no fault had an effect, so that there is no episode"),
    ] = 0
    unknown: Annotated[
        int,
        meaning(
            "acknowledged records of which it is unknown whether they are lost: no read after healing reached them, or "
            "it is unknown which leader acknowledged them"
        ),
    ] = 0
    episodes_unknown: Annotated[
        int,
        meaning("faults and operations of which it is unknown whether they lost promised records, because of these"),
    ] = 0
    operations_acked: Annotated[int, meaning("acknowledged operations of admins")] = 0
    operations_standing: Annotated[int, meaning("those that alone decide the state of an entity")] = 0
    operations_held: Annotated[int, meaning("those of them that were found so")] = 0


class Verdict(Record, frozen=True, kw_only=True):
    """The verdict on one bundle, as in verdict.json."""

    format_version: Annotated[int, meaning("the version of this format")] = FORMAT_VERSION
    scenario: Annotated[str, meaning("name of the scenario")]
    status: Annotated[Status, meaning("the verdict")] = field(name="verdict")
    findings: Annotated[
        tuple[Finding, ...],
        meaning(
            "one for each contiguous range of offsets. One with `excused_by` or `explained_by` does not condemn. "
            "findings.parquet has every record of every finding"
        ),
    ]
    doubts: Annotated[tuple[Doubt, ...], meaning("reasons why the run proved too little")]
    notes: Annotated[tuple[str, ...], meaning("observations that never make a verdict FAIL by themselves")]
    score: Annotated[Score | None, meaning("by fault episodes, and by records as a description")]
    promised: Annotated[int, meaning("promised records, without those that the contract permits to lose")]
    durable: Annotated[int, meaning("promised records that were neither lost nor `score.unknown`")]
    not_covered: Annotated[tuple[str, ...], meaning("what the run did not test")]
    facts: Annotated[VerdictFacts, meaning("figures that decide nothing")]
