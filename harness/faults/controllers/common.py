"""Shared by the faults of controllers: the others commit without one controller, which then catches up."""

from __future__ import annotations

from typing import Final

from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.kafka.admin.client import Quorum
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

CONTROLLERS_MIN: Final = 3
COMMITTED_DEADLINE_S: Final = 30.0
REJOINED_DEADLINE_S: Final = 60.0


def validate(plan: StepValidation) -> None:
    """BadInput for a scenario with too few controllers for a majority without one of them."""
    if plan.scenario.shape.controllers < CONTROLLERS_MIN:
        raise BadInput(
            f"without one controller there is no majority left; set controllers = {CONTROLLERS_MIN} in [shape]"
        )


def committed_without(context: StepContext, node: int, before: Quorum, why: str) -> int:
    """Waits until the others have committed beyond every log end of before; returns their high watermark.

    Of three controllers both others must agree to commit, so each of them then has all that `node` ever acknowledged.
    """
    mark = max(before.high_watermark, *before.voters.values())
    after = wait_for(
        context.admin.quorum,
        until=lambda q: q.leader not in (-1, node) and q.high_watermark > mark,
        deadline_s=COMMITTED_DEADLINE_S,
        what=f"the other controllers to commit without {node}, {why}",
        interval_s=0.1,
    )
    return after.high_watermark


def caught_up(context: StepContext, node: int, mark: int, began: str) -> EffectProof:
    """Proof: the log of a controller reaches `mark`, which the others committed without it. `began`: a text for it."""
    end = context.admin.quorum().voters.get(node, -1)
    seen = {"log_end": end, "committed_without_it": mark}
    if end < mark:
        return EffectProof(False, f"controller {node} {began} and has the log up to {end} of {mark}", seen)
    return EffectProof(True, f"controller {node} {began} and caught up to {end}", seen)


def rejoin(context: StepContext, node: int) -> None:
    """Makes a running controller a voter again, under the directory id of its disk (KIP-853).

    A voter with the same node id and another directory id is a lost disk: it is removed first, as Kafka's operations
    guide says. Static voters, which have only node ids, need nothing. HarnessTimeout when the voters do not change.
    """
    quorum = context.admin.quorum()
    known = quorum.directories.get(node)
    if known is None and node in quorum.voters:
        return
    directory = context.cluster.directory_id(node)
    if known is not None and known != directory:
        context.admin.remove_voter(node, known, REJOINED_DEADLINE_S)
    if known != directory:
        context.admin.add_voter(node, directory, REJOINED_DEADLINE_S)
    wait_for(
        context.admin.quorum,
        until=lambda quorum: quorum.directories.get(node) == directory,
        deadline_s=REJOINED_DEADLINE_S,
        what=f"controller {node} to be a voter",
        interval_s=0.1,
    )
