"""A broker that is killed in the middle of its recovery, again and again: what recovery writes is interrupted, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from harness.clusters.nodes.node_files import LogWatch
from harness.faults.nodes.process import RESTART_DEADLINE_S, felt, injection, restart
from harness.faults.steps.effect import Probe
from harness.faults.steps.step import BrokersExpr, EffectProof, Fault, Injection
from harness.faults.steps.step_context import Stage
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

# LogManager, before the first log of a directory is recovered; all releases from 3.x on.
RECOVERING: Final = b"since no clean shutdown file was found"


@dataclass(frozen=True, kw_only=True)
class CrashLoop(Fault):
    """SIGKILL of brokers, and `times` times again while they recover their logs; healing lets them come up."""

    do: ClassVar[str] = "crash_loop"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "restart"})
    stops: ClassVar[bool] = True
    node: BrokersExpr
    times: Annotated[int, Range(1, 100)] = 2

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        if strangers := set(victims) - set(stage.cluster.brokers):
            raise BadInput(f"crash_loop: {sorted(strangers)} are no brokers, which alone have logs to recover")
        probe = felt(stage, victims)
        crashes: list[bool] = []
        try:
            stage.cluster.kill(*victims)
            for _ in range(self.times):
                crashes += [_crash_in_recovery(stage, node) for node in victims]
            injected = injection(stage, victims, _both(probe, crashes))
            yield replace(injected, resolved={**injected.resolved, "crashes_in_recovery": sum(crashes)})
        finally:
            restart(stage, victims)


def _crash_in_recovery(stage: Stage, node: int) -> bool:
    """Starts a broker and kills it when it recovers; whether it died before it was up."""
    log = stage.cluster.server_log(node)
    recovering, up = LogWatch(log, RECOVERING), LogWatch(log)
    stage.cluster.start(node)
    wait_for(
        recovering.seen,
        until=bool,
        deadline_s=RESTART_DEADLINE_S,
        what=f"broker {node} to recover its logs",
        interval_s=0.02,
    )
    stage.cluster.kill(node)
    return not up.seen()


def _both(probe: Probe, crashes: list[bool]) -> Probe:
    """The death was felt, and every later one came before the broker was up."""

    def asked() -> EffectProof:
        effect = probe()
        seen = {**effect.seen, "crashed_in_recovery": crashes}
        if not all(crashes):
            return EffectProof(
                False, "a broker was up again before it was killed: its recovery was not interrupted", seen
            )
        because = f"{effect.because}; {len(crashes)} times killed while recovering" if effect.held else effect.because
        return EffectProof(effect.held, because, seen)

    return asked
