"""What the faults of controllers share: that the others go on without one, and that it has learned what it missed."""

from __future__ import annotations

from typing import Any, Final

from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.errors import BadInput
from harness.model.waiting import wait_for

CONTROLLERS_MIN: Final = 3
COMMITTED_DEADLINE_S: Final = 30.0
REJOINED_DEADLINE_S: Final = 60.0


def validate(plan: StepValidation) -> None:
    """BadInput for a scenario of which no majority of controllers would be left without one."""
    if plan.scenario.shape.controllers < CONTROLLERS_MIN:
        raise BadInput(f"a majority has to be left meanwhile; set controllers = {CONTROLLERS_MIN} in [shape]")


def committed_without(stage: Stage, node: int, before: Any, why: str) -> int:
    """The offset up to which the others have committed, once that is more than anybody had before.

    Without `node` they have to be unanimous among three, so each of them then has all that it ever acknowledged.
    """
    mark = max(before.high_watermark, *before.voters.values())
    after = wait_for(
        stage.admin.quorum,
        until=lambda q: q.leader not in (-1, node) and q.high_watermark > mark,
        deadline_s=COMMITTED_DEADLINE_S,
        what=f"the other controllers to commit without {node}, {why}",
        interval_s=0.1,
    )
    return int(after.high_watermark)


def caught_up(stage: Stage, node: int, mark: int, began: str) -> EffectProof:
    """Whether a controller, of which `began` tells what it was, has what was committed without it."""
    end = stage.admin.quorum().voters.get(node, -1)
    seen = {"log_end": end, "committed_without_it": mark}
    if end < mark:
        return EffectProof(False, f"controller {node} {began} and is at {end} of {mark}", seen)
    return EffectProof(True, f"controller {node} {began} and caught up to {end}", seen)


def rejoin(stage: Stage, node: int) -> None:
    """Makes a controller that runs a voter under the directory id of its disk, and nothing else (KIP-853).

    A voter of the same node and another directory is a disk that is gone: it is removed first, as Kafka's operations
    guide has it. Static voters, known by their node ids alone, stay. HarnessTimeout where the quorum does not follow.
    """
    quorum = stage.admin.quorum()
    known = quorum.directories.get(node)
    if known is None and node in quorum.voters:
        return
    directory = stage.cluster.directory_id(node)
    if known is not None and known != directory:
        stage.admin.remove_voter(node, known, REJOINED_DEADLINE_S)
    if known != directory:
        stage.admin.add_voter(node, directory, REJOINED_DEADLINE_S)
    wait_for(
        stage.admin.quorum,
        until=lambda quorum: quorum.directories.get(node) == directory,
        deadline_s=REJOINED_DEADLINE_S,
        what=f"controller {node} among the voters",
        interval_s=0.1,
    )
