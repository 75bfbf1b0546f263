"""slow_operation: an operation of an admin was acknowledged later than our operators wait. Few rows, so no query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.model.finding import Finding, OwnKind
from harness.model.outcome import Outcome
from harness.model.verdict import Doubt
from harness.verify.addition import Addition
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import step_at
from harness.verify.engine.tables import BUNDLE
from harness.verify.promise import Check, Introduced

LIMIT_NS: Final = 30 * 10**9
SLOW_OPERATION: Final = OwnKind("slow_operation", "An operation of an admin was acknowledged after more than 30 s.")
PROMISE: Final = "an operation of an admin is acknowledged within 30 s (our service level)"

Times = Sequence[tuple[int, int]]  # call and acknowledgement, in ns


def acknowledged(given: Prepared) -> Sequence[Times]:
    """The times of the acknowledged operations of each bundle."""
    found: list[list[tuple[int, int]]] = [[] for _ in given.cases]
    rows = given.admin_ops.where(given.admin_ops["outcome"] == Outcome.ACKED.value)
    for row in rows.select(BUNDLE, "called_ns", "returned_ns").collect():
        found[row[BUNDLE]].append((row["called_ns"], row["returned_ns"]))
    return found


def slow_operations(known: Known) -> Addition:
    """A finding for each slow operation; a doubt if an admin of the scenario got no acknowledgement at all."""
    done = sorted(known.of(ACKNOWLEDGED))
    slow = [(called_ns, returned_ns) for called_ns, returned_ns in done if returned_ns - called_ns > LIMIT_NS]
    silent = bool(known.case.scenario.admin) and not done
    return Addition(
        findings=[
            Finding(
                kind=SLOW_OPERATION,
                first_ns=called_ns,
                last_ns=returned_ns,
                step=step_at(known.case.steps, returned_ns),
                detail=f"its acknowledgement took {(returned_ns - called_ns) / 1e9:.1f} s",
                contract=PROMISE,
            )
            for called_ns, returned_ns in slow
        ],
        doubts=[Doubt("no_operation_timed", "no operation was acknowledged, so none was timed")] if silent else [],
        counts={"operations": len(done)} if done else {},
    )


ACKNOWLEDGED: Final[OnDriver[Times]] = OnDriver(name="acknowledged_operations", read=acknowledged, none=tuple)
CHECK: Final = Check(
    promise="Every operation of an admin is acknowledged within 30 s.",
    kinds={SLOW_OPERATION: Introduced(promise=PROMISE)},
    on_driver=(ACKNOWLEDGED,),
    adds=slow_operations,
)
