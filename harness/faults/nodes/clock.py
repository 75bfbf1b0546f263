"""Wrong clocks: the wall clock of nodes jumps ahead or back, or runs faster or slower than that of the others.

A clock that gains or loses time is set in steps, because a process reads its offset once a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Final

from harness.clusters.nodes.node_logs import tail
from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.effect import Probe, await_recent_acks, named
from harness.faults.steps.repeat import Repeat
from harness.faults.steps.step import EffectProof, Fault, Injection, NodesExpr
from harness.faults.steps.step_context import StepContext
from harness.faults.steps.step_validation import StepValidation
from harness.model.clock import now_ns
from harness.model.contract.kafka_defaults import RETENTION_MS_DEFAULT
from harness.model.documents.steps import ClockSet
from harness.model.errors import BadInput
from harness.model.facts import FactKind
from harness.model.scenario.scenario import Range
from harness.model.waiting import wait_for

# Further back, a broker refuses records of clients with a right clock: message.timestamp.after.max.ms (KIP-937).
BACK_MAX_S: Final = 3600
# Further ahead, the producer state of brokers expires (producer.id.expiration.ms), and idempotence with it.
AHEAD_MAX_S: Final = 12 * 3600
# Larger than any delay of a look at the log, and than what the cache of the library that sets clocks can cause.
SHIFT_MIN_S: Final = 2.0
# Every node logs at least its snapshots of the metadata log, every five seconds.
DEADLINE_S: Final = 60.0
RIGHT_S: Final = 60.0  # until it logs the right time again
# The interval at which a clock that gains or loses time is set.
STEP_S: Final = 0.5
# The kernel may record the time of a write this much too early.
GRAIN_NS: Final = 50_000_000
_TIME: Final = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Clock(Fault):
    """An event `clock` records the jump and the rate."""

    do: ClassVar[str] = "clock"
    drawn: ClassVar[Mapping[str, tuple[object, ...]]] = {"jump_s": (-60.0, 5.0, 60.0)}
    facts: ClassVar[Declares] = (Declared(FactKind.CLOCK_CHANGED),)
    summary: ClassVar[str] = (
        "Sets the clocks of nodes ahead or back by jump_s, or makes them gain or lose time at `rate`; "
        "healing sets them right."
    )
    proof: ClassVar[str] = (
        "the log of each node shows the shift that was set, while the partitions that it leads or follows had acks"
    )
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    node: NodesExpr
    jump_s: Annotated[float, Range(-BACK_MAX_S, AHEAD_MAX_S)] = 0.0
    rate: Annotated[float, Range(0.1, 10)] = 1.0

    def __post_init__(self) -> None:
        if abs(self.jump_s) < SHIFT_MIN_S and self.rate == 1.0:
            raise BadInput(f"this moves no clock; give a jump_s of at least {SHIFT_MIN_S:g} s, or a rate")

    def validate(self, plan: StepValidation) -> None:
        if not plan.scenario.shape.clock:
            raise BadInput("the clocks of this cluster cannot be set; set clock = true in [shape]")
        for topic in plan.scenario.topics:
            kept_ms = int(topic.config.get("retention.ms", RETENTION_MS_DEFAULT))
            if 0 <= kept_ms <= self.jump_s * 1000:
                raise BadInput(
                    f"jump_s: {self.jump_s:g} s ahead, every record of {topic.name} is older than its retention.ms of "
                    f"{kept_ms} and expires by design; jump less, or give the topic a longer retention.ms"
                )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        victims = context.nodes(self.node)
        probe, began_ns = self._effect_probe(context, victims), now_ns()

        @contextmanager
        def off() -> Iterator[None]:
            for node in victims:
                context.cluster.set_clock(node, self._meant_s(began_ns))
            yield

        try:
            with off():
                jump_ms = round(self.jump_s * 1000)
                context.record_event(ClockSet(nodes=victims, jump_ms=jump_ms, rate=self.rate, at_ns=now_ns()))
            drifting = nullcontext() if self.rate == 1.0 else Repeat(off, "clocks were set", STEP_S).running()
            with drifting:
                yield Injection(resolved={"nodes": list(victims)}, probe=probe, nodes=victims, deadline_s=DEADLINE_S)
        finally:
            set_ns = now_ns()
            for node in victims:
                context.cluster.set_clock(node, 0.0)
        _await_right(context, victims, set_ns)

    def _meant_s(self, began_ns: int) -> float:
        return self.jump_s + (self.rate - 1) * (now_ns() - began_ns) / 1e9

    def _effect_probe(self, context: StepContext, victims: Sequence[int]) -> Probe:
        """Proof: the log of each victim shows the shift, and the partitions that it leads or follows had acks."""
        brokers = set(victims) & set(context.cluster.brokers)
        busy = await_recent_acks(context, lambda s: not brokers or bool(brokers & set(s.isr)))
        logs = {node: context.cluster.server_log(node) for node in victims}
        # Taken before the node's first fault: later the last line may still be one of a wrong clock.
        right = {node: context.zones.setdefault(node, ahead_s(log)) for node, log in logs.items()}
        began_ns, shifts = now_ns(), dict.fromkeys(map(str, victims), 0.0)

        def asked() -> EffectProof:
            if not busy:
                return EffectProof(False, "no partition that they lead or follow had acks in the last second")
            meant_s = self._meant_s(began_ns)
            for node, log in logs.items():
                shift_s = ahead_s(log) - right[node]
                if _is_meant(shift_s, self.jump_s, meant_s):
                    shifts[str(node)] = round(shift_s, 3)
            seen = {"ahead_s": dict(shifts), "meant_s": round(meant_s, 3)}
            if unmoved := [node for node, shift_s in shifts.items() if not shift_s]:
                return EffectProof(False, f"the log of {', '.join(unmoved)} shows no shift of {meant_s:+.1f} s", seen)
            reported = ", ".join(f"of {node} by {shift_s:+.1f} s" for node, shift_s in shifts.items())
            because = f"their own logs show that the clocks are wrong, {reported}, under load on {named(busy)}"
            return EffectProof(True, because, seen)

        return asked


def _await_right(context: StepContext, victims: Sequence[int], set_ns: int) -> None:
    """Waits for a log line with the right time from each node. A node that is down starts with the right time."""

    def wrong() -> dict[int, str]:
        found = {}
        for node in filter(context.cluster.running, victims):
            log = context.cluster.server_log(node)
            shift_s = ahead_s(log) - context.zones[node]
            if log.stat().st_mtime_ns < set_ns - GRAIN_NS or abs(shift_s) >= SHIFT_MIN_S:
                found[node] = f"{shift_s:+.1f} s"
        return found

    wait_for(wrong, until=lambda found: not found, deadline_s=RIGHT_S, what="the clocks to be right again")


def ahead_s(log: Path) -> float:
    """Seconds by which the last line of a log was ahead of the machine's clock, the time zone included; 0 = no line.

    The machine's clock is known from the modification time of the file, which the kernel sets.
    """
    found = _TIME.findall(tail(log, lines=50))
    if not found:
        return 0.0
    seconds, milliseconds = found[-1]
    said = datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp() + int(milliseconds) / 1000
    return said - log.stat().st_mtime


def _is_meant(shift_s: float, jump_s: float, meant_s: float) -> bool:
    """Whether a shift that a log shows is the wanted one. The log line may be some seconds old: the drift was less."""
    low, high = sorted((jump_s, meant_s))
    return abs(shift_s) >= SHIFT_MIN_S and low - SHIFT_MIN_S < shift_s < high + SHIFT_MIN_S
