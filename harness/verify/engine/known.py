"""Everything known about one case when its verdict is made. All of it is on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from harness.verify.engine.case import Case
from harness.verify.engine.counts import Counts
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.rows import NOT_FINDINGS
from harness.verify.engine.runs import RecordRange

_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Everything known about one case. runs: from the checks. failed: checks that failed, by name. on_driver: the rows
    of every `OnDriver` that a check names, by its name."""

    case: Case
    runs: Sequence[RecordRange]
    counts: Counts
    failed: Mapping[str, str]
    on_driver: Mapping[str, object]

    @property
    def reported(self) -> list[RecordRange]:
        """The ranges that are findings."""
        return [run for run in self.runs if run.kind not in NOT_FINDINGS]

    def of(self, rows: OnDriver[_Rows]) -> _Rows:
        """The rows of this case."""
        return cast(_Rows, self.on_driver[rows.name])
