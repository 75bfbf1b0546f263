"""Clocks that are wrong: nodes whose wall clock jumps ahead or back, or runs faster or slower than the others'.

What gains or loses does it in steps, for a process looks at how far off it is once a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Final

from harness.clusters.nodes.node_files import tail
from harness.faults.steps.effect import Probe, await_recent_acks, named
from harness.faults.steps.repeat import Again
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import Stage
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.contract import RETENTION_MS_DEFAULT
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

# Beyond it records of clients whose clocks are right are refused: message.timestamp.after.max.ms (KIP-937).
BACK_MAX_S: Final = 3600
# Beyond it brokers forget producers (producer.id.expiration.ms), and what idempotence promises with them.
AHEAD_MAX_S: Final = 12 * 3600
# A shift that no delay of a look, and no cache of the library that sets clocks, can be taken for.
SHIFT_MIN_S: Final = 2.0
# Every node logs at least its snapshots, of the metadata log every five seconds (harness.kafka.config).
DEADLINE_S: Final = 60.0
RIGHT_S: Final = 60.0  # until it logs by the right time again
# How often a clock that gains or loses is set.
STEP_S: Final = 0.5
# By how much the kernel may note the time of a write too early.
GRAIN_NS: Final = 50_000_000
_TIME: Final = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Clock(Fault):
    """Sets clocks of nodes ahead or back by jump_s, or lets them gain or lose by `rate`; healing sets them right."""

    do: ClassVar[str] = "clock"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    node: NodesExpr
    jump_s: Annotated[float, Range(-BACK_MAX_S, AHEAD_MAX_S)] = 0.0
    rate: Annotated[float, Range(0.1, 10)] = 1.0

    def __post_init__(self) -> None:
        if abs(self.jump_s) < SHIFT_MIN_S and self.rate == 1.0:
            raise BadInput(f"this moves no clock; give jump_s, {SHIFT_MIN_S:g} or more ahead or back, or a rate")

    def validate(self, plan: StepValidation) -> None:
        """See `Kind`."""
        if not plan.scenario.shape.clock:
            raise BadInput("the clocks of this cluster cannot be set; say clock = true in [shape]")
        for topic in plan.scenario.topics:
            kept_ms = int(topic.config.get("retention.ms", RETENTION_MS_DEFAULT))
            if 0 <= kept_ms <= self.jump_s * 1000:
                raise BadInput(
                    f"jump_s: {self.jump_s:g} s ahead whatever {topic.name} holds is older than its retention.ms of "
                    f"{kept_ms}, and goes by design; jump less, or keep it longer"
                )

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        victims = stage.nodes(self.node)
        probe, began_ns = self._felt(stage, victims), now_ns()

        @contextmanager
        def off() -> Iterator[None]:
            for node in victims:
                stage.cluster.set_clock(node, self._meant_s(began_ns))
            yield

        try:
            with off():
                stage.record_event("clock", nodes=list(victims), jump_ms=round(self.jump_s * 1000), rate=self.rate)
            drifting = nullcontext() if self.rate == 1.0 else Again(off, "clocks were set", STEP_S).running()
            with drifting:
                yield Injection(resolved={"nodes": list(victims)}, probe=probe, nodes=victims, deadline_s=DEADLINE_S)
        finally:
            set_ns = now_ns()
            for node in victims:
                stage.cluster.set_clock(node, 0.0)
        _await_right(stage, victims, set_ns)

    def _meant_s(self, began_ns: int) -> float:
        return self.jump_s + (self.rate - 1) * (now_ns() - began_ns) / 1e9

    def _felt(self, stage: Stage, victims: Sequence[int]) -> Probe:
        """By its own log each victim is as far off as it was set, and load was on what it leads or follows."""
        brokers = set(victims) & set(stage.cluster.brokers)
        busy = await_recent_acks(stage, lambda s: not brokers or bool(brokers & set(s.isr)))
        logs = {node: stage.cluster.server_log(node) for node in victims}
        # Before its first fault: afterwards the last line may still be one of a clock that was wrong.
        right = {node: stage.zones.setdefault(node, ahead_s(log)) for node, log in logs.items()}
        began_ns, shifts = now_ns(), dict.fromkeys(map(str, victims), 0.0)

        def asked() -> EffectProof:
            if not busy:
                return EffectProof(False, "no partition of theirs had acks in the last second")
            meant_s = self._meant_s(began_ns)
            for node, log in logs.items():
                shift_s = ahead_s(log) - right[node]
                if _is_meant(shift_s, self.jump_s, meant_s):
                    shifts[str(node)] = round(shift_s, 3)
            seen = {"ahead_s": dict(shifts), "meant_s": round(meant_s, 3)}
            if unmoved := [node for node, shift_s in shifts.items() if not shift_s]:
                return EffectProof(False, f"the log of {', '.join(unmoved)} shows no shift of {meant_s:+.1f} s", seen)
            reported = ", ".join(f"{node} by {shift_s:+.1f} s" for node, shift_s in shifts.items())
            return EffectProof(
                True, f"by their own logs the clocks are off, of {reported}, under load on {named(busy)}", seen
            )

        return asked


def _await_right(stage: Stage, victims: Sequence[int], set_ns: int) -> None:
    """Until a line of each log was written by a clock that is right. Who is down finds it right when it starts."""

    def wrong() -> dict[int, str]:
        found = {}
        for node in filter(stage.cluster.running, victims):
            log = stage.cluster.server_log(node)
            shift_s = ahead_s(log) - stage.zones[node]
            if log.stat().st_mtime_ns < set_ns - GRAIN_NS or abs(shift_s) >= SHIFT_MIN_S:
                found[node] = f"{shift_s:+.1f} s"
        return found

    wait_for(wrong, until=lambda found: not found, deadline_s=RIGHT_S, what="clocks that are right again")


def ahead_s(log: Path) -> float:
    """How far the clock that a log was written by was ahead of the machine's at its last line, time zones included.

    The kernel notes when a file was last written, by its own clock. 0 where there is no line yet.
    """
    found = _TIME.findall(tail(log, lines=50))
    if not found:
        return 0.0
    seconds, milliseconds = found[-1]
    said = datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp() + int(milliseconds) / 1000
    return said - log.stat().st_mtime


def _is_meant(shift_s: float, jump_s: float, meant_s: float) -> bool:
    """The line that showed the shift may be some seconds old by now, in which a clock that gains has gained less."""
    low, high = sorted((jump_s, meant_s))
    return abs(shift_s) >= SHIFT_MIN_S and low - SHIFT_MIN_S < shift_s < high + SHIFT_MIN_S
