"""After the levels of an upgrade were finalized: the cluster must refuse the way back, and not lose metadata on it.

By request, the active controller refuses to lower metadata.version where that could lose metadata (KIP-778); by force,
a broker of the release before must not get in, for it cannot read what the others write (KIP-584).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from harness.clusters.base import START, TESTED
from harness.faults.disks.common import LogSince
from harness.faults.nodes.raise_features import raised
from harness.faults.nodes.rolling_restart import effect_of
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.step import Action, Done, EffectProof, OneBrokerExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S, WaitHealthy
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.waiting import wait_for

FEATURE: Final = "metadata.version"
REFUSED_DEADLINE_S: Final = 60.0
_STARTED: Final = "Kafka Server started"
# Seen of 3.9.1: "UnsupportedVersionException: Can't read version 4 of BrokerEndpoint", of the records of a later level.
_REASON: Final = re.compile(r"^.*(?:Exception|ERROR|FATAL).*(?:[vV]ersion|[fF]eature).*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class DowngradeRefused(Action):
    """Tries to lower metadata.version again, and to start a broker on the release before: both must be refused."""

    do: ClassVar[str] = "downgrade_refused"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart"})
    disturbs: ClassVar[bool] = True
    node: OneBrokerExpr = "broker(1)"

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if not any(kind.do == "raise_features" for kind in plan.earlier.values()):
            raise BadInput('the way back is open as long as no level was raised; add { do = "raise_features" } before')

    def perform(self, stage: Stage) -> Done:
        (node,) = stage.nodes(self.node)
        old, new = raised(stage).get(FEATURE, (0, 0))
        said = stage.admin.update_features({FEATURE: old}, "down") if old else None
        now = stage.admin.features().get(FEATURE, 0)
        resolved: dict[str, Any] = {"nodes": [node], "request": said, "levels": {FEATURE: [old, now]}}
        if said is None or now != new:
            because = (
                f"the active controller took {FEATURE} from {new} to {now}" if old else f"{FEATURE} was not raised"
            )
            return Done(resolved=resolved, effect=EffectProof(False, because))
        effect = _kept_out(stage, node)
        resolved["broker"] = effect.because
        because = f"to lower {FEATURE} was refused: {said}; {effect.because}"
        return Done(resolved=resolved, effect=EffectProof(effect.held, because, effect.seen))


def _kept_out(stage: Stage, node: int) -> EffectProof:
    """Whether a broker that was missed did not get in on the release before; it comes back on the one under test."""
    with Terminate(node=f"broker({node})").active(stage) as injection:
        missed = effect_of(injection.probe)
        try:
            since = LogSince(stage.cluster.server_log(node))
            stage.cluster.use_release(node, START)
            stage.cluster.start(node)
            stage.cluster.let_end(node)
            refusal = _refusal(stage, node, since)
        finally:
            stage.cluster.kill(node)
            stage.cluster.use_release(node, TESTED)
    WaitHealthy().perform(stage)
    return refusal if missed.held else missed


def _refusal(stage: Stage, node: int, since: LogSince) -> EffectProof:
    version = stage.cluster.release_of(node).version

    def seen() -> str:
        if since.says(_STARTED):
            return "started"
        return "" if stage.cluster.running(node) else "ended"

    try:
        what = wait_for(
            seen,
            until=bool,
            deadline_s=REFUSED_DEADLINE_S,
            what=f"broker {node} to start or to end on {version}",
            interval_s=POLL_S,
        )
    except HarnessTimeout:
        what = "neither"
    since.says(_STARTED)
    reasons = _REASON.findall(since.text)
    reported = {"log": reasons[-3:]}
    if what == "started":
        return EffectProof(False, f"broker {node} started on {version}, which does not know these levels", reported)
    if not reasons:
        return EffectProof(
            False, f"broker {node} on {version} gave no reason that has to do with feature levels", reported
        )
    ended = "ended by itself" if what == "ended" else f"did not come up within {REFUSED_DEADLINE_S:g} s"
    return EffectProof(True, f"broker {node} {ended} on {version}: {reasons[0].strip()}", reported)
