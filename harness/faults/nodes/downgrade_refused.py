"""A downgrade after the feature levels of an upgrade were finalized: the cluster must refuse it.

The active controller refuses a request to lower metadata.version that could lose metadata (KIP-778). A broker of the
earlier release must not be able to join, because it cannot read the records that the others write (KIP-584).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.clusters.base import START, TESTED
from harness.faults.disks.common import LogSince
from harness.faults.nodes.raise_features import raised
from harness.faults.nodes.rolling_restart import effect_of
from harness.faults.nodes.terminate import Terminate
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Action, Done, EffectProof, OneBrokerExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.faults.steps.waits import POLL_S, WaitHealthy
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.facts import FactKind, Stop
from harness.model.waiting import wait_for

FEATURE: Final = "metadata.version"
REFUSED_DEADLINE_S: Final = 60.0
_STARTED: Final = "Kafka Server started"
# 3.9.1 prints "UnsupportedVersionException: Can't read version 4 of BrokerEndpoint" for records of a later level.
_REASON: Final = re.compile(r"^.*(?:Exception|ERROR|FATAL).*(?:[vV]ersion|[fF]eature).*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class DowngradeRefused(Action):
    """The broker ends on the release under test again, whatever happened."""

    do: ClassVar[str] = "downgrade_refused"
    facts: ClassVar[Declares] = (
        Declared(FactKind.STOPPED, how=Stop.CLEANLY),
        Declared(FactKind.STOPPED, how=Stop.KILLED),
        Declared(FactKind.STOPPED, how=Stop.CRASHED),
        Declared(FactKind.DOWNGRADE_TRIED),
    )
    summary: ClassVar[str] = (
        "Tries to lower metadata.version, and to start a broker on the earlier release; both must be refused."
    )
    proof: ClassVar[str] = (
        "the controller refused the request, and the broker did not start and logged that the feature levels are why"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "terminate", "restart", "disk.read"})
    disturbs: ClassVar[bool] = True
    node: OneBrokerExpr = "broker(1)"

    def validate(self, plan: StepValidation) -> None:
        if not any(kind.do == "raise_features" for kind in plan.earlier.values()):
            raise BadInput(
                'a downgrade is allowed until a feature level is raised; add { do = "raise_features" } before this step'
            )

    def perform(self, context: StepContext) -> Done:
        (node,) = context.nodes(self.node)
        old, new = raised(context).get(FEATURE, (0, 0))
        said = context.admin.update_features({FEATURE: old}, "down") if old else None
        now = context.admin.features().get(FEATURE, 0)
        resolved: dict[str, object] = {"nodes": [node], "request": said, "levels": {FEATURE: [old, now]}}
        if said is None or now != new:
            because = (
                f"the active controller lowered {FEATURE} from {new} to {now}" if old else f"{FEATURE} was not raised"
            )
            return Done(resolved=resolved, effect=EffectProof(False, because))
        effect = _try_to_join(context, node)
        resolved["broker"] = effect.because
        because = f"the active controller refused to lower {FEATURE}: {said}; {effect.because}"
        return Done(resolved=resolved, effect=EffectProof(effect.held, because, effect.seen))


def _try_to_join(context: StepContext, node: int) -> EffectProof:
    """Starts a broker on the earlier release. Proof: its absence was noticed, and it could not join the cluster."""
    with Terminate(node=f"broker({node})").active(context) as injection:
        missed = effect_of(injection.probe)
        try:
            since = LogSince(context.cluster.server_log(node))
            context.cluster.use_release(node, START)
            context.cluster.start(node)
            context.cluster.let_end(node)
            refusal = _refusal(context, node, since)
        finally:
            context.cluster.kill(node)
            context.cluster.use_release(node, TESTED)
    WaitHealthy().perform(context)
    return refusal if missed.held else missed


def _refusal(context: StepContext, node: int, since: LogSince) -> EffectProof:
    version = context.cluster.release_of(node).version

    def seen() -> str:
        if since.says(_STARTED):
            return "started"
        return "" if context.cluster.running(node) else "ended"

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
        because = f"broker {node} started on {version}, which does not know these feature levels"
        return EffectProof(False, because, reported)
    if not reasons:
        return EffectProof(False, f"broker {node} on {version} logged no reason about feature levels", reported)
    ended = "ended by itself" if what == "ended" else f"did not start within {REFUSED_DEADLINE_S:g} s"
    return EffectProof(True, f"broker {node} {ended} on {version}: {reasons[0].strip()}", reported)
