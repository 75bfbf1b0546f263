"""Verdicts: PASS, INCONCLUSIVE or FAIL, with the findings, doubts and score behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

from harness.model.exits import Exit
from harness.model.finding import Finding
from harness.model.schemas import FORMAT_VERSION


class Status(IntEnum):
    """The statuses in TTCN-3's order. They are no exit codes; see `exit_of`."""

    PASS = 0
    INCONCLUSIVE = 1
    FAIL = 2


_EXITS = {Status.PASS: Exit.PASS, Status.INCONCLUSIVE: Exit.INCONCLUSIVE, Status.FAIL: Exit.FAIL}


def exit_of(status: Status) -> Exit:
    """The exit code of a status."""
    return _EXITS[status]


def overall(statuses: Iterable[Status]) -> Status:
    """The worst of several statuses; INCONCLUSIVE if there are none."""
    return max(statuses, default=Status.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why a run proved too little. `name` is a stable word, `text` a sentence with figures."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a bundle, by fault episodes: records of one fault share its fate, so only episodes are independent.

    `loss_bound` is the exact one-sided 95 % Clopper-Pearson upper bound on the chance of loss in one episode. The
    shares of records are descriptive. `raw` counts every acked record; `excused` leaves excused records out of the
    promised ones.
    """

    episodes: int
    episodes_with_loss: int
    loss_bound: float
    acked: int
    durable_raw: int
    share_raw: float | None
    share_excused: float | None
    nines_raw: float | None
    nines_excused: float | None
    lost_without_fault: int = 0  # records and operations that a run lost in which no fault had an effect
    # Operations of admins: acknowledged; those of them that alone decide the state of an entity; those found so.
    operations_acked: int = 0
    operations_standing: int = 0
    operations_held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on one bundle, as in verdict.json."""

    scenario: str
    status: Status
    findings: tuple[Finding, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()
    score: Score | None = None
    promised: int = 0
    durable: int = 0
    not_covered: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # release, seed, counts, steps with their effects

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, as FORMAT.md documents them. The status is written by its name."""
        plain = {"format_version": FORMAT_VERSION, **asdict(self)}
        plain["verdict"] = self.status.name
        del plain["status"]
        return plain
