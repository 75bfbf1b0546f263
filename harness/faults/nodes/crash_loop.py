"""A broker that is killed during its log recovery, several times, so that the recovery's own writes are interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from harness.clusters.nodes.node_logs import LogWatch
from harness.faults.nodes.process import RESTART_DEADLINE_S, absence_proof, injection, restart
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import StepContext
from harness.model.errors import BadInput
from harness.model.facts import FactKind, Stop
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

# LogManager prints it before it recovers the first log of a directory; all releases from 3.x on.
RECOVERING: Final = b"since no clean shutdown file was found"


@dataclass(frozen=True, kw_only=True)
class CrashLoop(Fault):
    """The first kill is not counted in `times`."""

    do: ClassVar[str] = "crash_loop"
    facts: ClassVar[Declares] = (Declared(FactKind.STOPPED, how=Stop.KILLED),)
    summary: ClassVar[str] = (
        "Kills brokers with SIGKILL, and `times` times again while they recover their logs; healing starts them."
    )
    proof: ClassVar[str] = 'as for `kill`, and each later death came before "Kafka Server started"'
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart", "disk.read"})
    stops: ClassVar[bool] = True
    node: BrokersExpr
    times: Annotated[int, Range(1, 100)] = 2

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        if strangers := set(victims) - set(context.cluster.brokers):
            raise BadInput(f"crash_loop: {sorted(strangers)} are no brokers, and have no logs to recover; name brokers")
        probe = absence_proof(context, victims)
        crashes: list[bool] = []
        try:
            context.cluster.kill(*victims)
            for _ in range(self.times):
                crashes += [_crash_in_recovery(context, node) for node in victims]
            injected = injection(context, victims, _both(probe, crashes))
            yield replace(injected, resolved={**injected.resolved, "crashes_in_recovery": sum(crashes)})
        finally:
            restart(context, victims)


def _crash_in_recovery(context: StepContext, node: int) -> bool:
    """Starts a broker and kills it during recovery; True when it had not started yet."""
    log = context.cluster.server_log(node)
    recovering, up = LogWatch(log, RECOVERING), LogWatch(log)
    context.cluster.start(node)
    wait_for(
        recovering.seen,
        until=bool,
        deadline_s=RESTART_DEADLINE_S,
        what=f"broker {node} to recover its logs",
        interval_s=0.02,
    )
    context.cluster.kill(node)
    return not up.seen()


def _both(probe: Probe, crashes: list[bool]) -> Probe:
    """Proof: the cluster noticed the absence, and each later kill came before the broker had started."""

    def asked() -> EffectProof:
        effect = probe()
        seen = {**effect.seen, "crashed_in_recovery": crashes}
        if not all(crashes):
            return EffectProof(False, "a broker had started before it was killed: its recovery was complete", seen)
        because = f"{effect.because}; killed {len(crashes)} times during recovery" if effect.held else effect.because
        return EffectProof(effect.held, because, seen)

    return asked
