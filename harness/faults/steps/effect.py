"""Proofs that a fault changed something on the data path.

A function here is called before the fault, to remember the state of the cluster, and returns a probe that is called
while the fault is active or after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from harness.faults.steps.step import EffectProof
from harness.faults.steps.step_context import StepContext
from harness.kafka.admin.client import PartitionState
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout
from harness.model.place import Place

ACK_WINDOW_S = 1.0
ACKS_DEADLINE_S = 10.0
STALL_S = 0.5
METADATA_LOOKS = 4
METADATA_LOOK_S = 0.15
IDLE = "no partition had acks in the last second"
Probe = Callable[[], EffectProof]


def named(places: Iterable[Place]) -> str:
    """ "plain/0, plain/2": at most five of the partitions, and how many more there are."""
    every = texts(places)
    return ", ".join(every[:5]) + (f" and {len(every) - 5} more" if len(every) > 5 else "")


def texts(places: Iterable[Place]) -> list[str]:
    """Each partition as "plain/0"."""
    return [f"{topic}/{partition}" for topic, partition in sorted(places)]


def with_recent_acks(context: StepContext, places: Iterable[Place]) -> set[Place]:
    """The partitions that got an ack within the last second."""
    since_ns = now_ns() - int(ACK_WINDOW_S * 1e9)
    return {place for place in places if (context.load.last_ack_ns(*place) or 0) >= since_ns}


def await_recent_acks(context: StepContext, chosen: Callable[[PartitionState], bool]) -> dict[Place, PartitionState]:
    """Waits for partitions that `chosen` accepts and that had acks in the last second; empty when none had in time.

    A fault without load proves nothing, but then its effect proof shows it; it is no reason to stop the run. An earlier
    fault that is still active may have stopped the acks: then partitions count that had acks before that fault.
    """
    give_up_at = time.monotonic() + (0 if context.faults_open else ACKS_DEADLINE_S)
    while True:
        states = {place: s for place, s in context.all_states().items() if chosen(s)}
        busy = with_recent_acks(context, states) | (context.busy & set(states))
        if busy or not states or time.monotonic() > give_up_at:
            context.busy |= busy
            return {place: states[place] for place in busy}
        time.sleep(0.05)


def under_load(context: StepContext) -> dict[Place, PartitionState]:
    """Partitions that have a leader and had acks in the last second, as `await_recent_acks` waits for them."""
    return await_recent_acks(context, lambda s: s.leader >= 0)


def leaders_moved(context: StepContext, before: Mapping[Place, PartitionState]) -> Probe:
    """Proof: each of these partitions, which the victims led under load, has a newer leader epoch."""

    def probe() -> EffectProof:
        if not before:
            return EffectProof(False, "the victim led no partition that had acks in the last second")
        now = context.states(list(before))
        stale = [p for p, s in before.items() if p not in now or now[p].leader_epoch <= s.leader_epoch]
        seen = {
            f"{t}/{p}": {
                "leader": [s.leader, now[t, p].leader if (t, p) in now else None],
                "leader_epoch": [s.leader_epoch, now[t, p].leader_epoch if (t, p) in now else None],
            }
            for (t, p), s in before.items()
        }
        if stale:
            return EffectProof(False, f"the leader epoch of {named(stale)} did not rise", seen)
        return EffectProof(True, f"led {named(before)} with acks in the last second, and their leader epoch rose", seen)

    return probe


def isr_lost(context: StepContext, victims: Collection[int], before: Mapping[Place, PartitionState]) -> Probe:
    """Proof: the victims left the ISR of at least one of these partitions, which had acks before.

    Internal partitions with the same leaders count, too: a coordinator that loses its followers stops its clients, and
    then only its own log shows the fault.
    """
    leaders = {state.leader for state in before.values()}
    if leaders:
        internal = context.internal_states().items()
        led = {p: s for p, s in internal if s.leader in leaders and set(s.isr) & set(victims)}
        before = {**before, **led}

    def probe() -> EffectProof:
        if not before:
            return EffectProof(False, "no partition had both acks in the last second and the victim in its ISR")
        now = context.states(list(before))
        left = {p: sorted(s.isr) for p, s in now.items() if (set(before[p].isr) - set(s.isr)) & set(victims)}
        seen = {f"{t}/{p}": {"isr": [sorted(before[t, p].isr), isr]} for (t, p), isr in left.items()}
        if left:
            return EffectProof(True, f"{sorted(victims)} left the ISR of {named(left)}", seen)
        return EffectProof(False, f"the ISR of {named(before)} still holds {sorted(victims)}", seen)

    return probe


def absent(context: StepContext, victim: int, chosen: Callable[[PartitionState], bool]) -> Probe:
    """Proof: a broker left the ISR of one of these partitions under load, or was out of each of them already.

    Call it before the fault.
    """
    held = {place: state for place, state in context.all_states().items() if victim in state.replicas and chosen(state)}
    if any(victim in state.isr for state in held.values()) or not held:
        return isr_lost(context, [victim], await_recent_acks(context, lambda s: victim in s.isr and chosen(s)))
    before = await_recent_acks(context, lambda s: victim in s.replicas and chosen(s))

    def probe() -> EffectProof:
        now = context.states(list(before))
        out = [place for place, state in now.items() if victim not in state.isr]
        because = f"{victim} was out of the ISR of {named(out)} already" if out else IDLE
        return EffectProof(bool(out), because, {f"{t}/{p}": {"isr": sorted(now[t, p].isr)} for t, p in out})

    return probe


def acks_stalled(context: StepContext, places: Collection[Place]) -> Probe:
    """Proof: some of these partitions, which had acks before, got none for half a second or longer."""

    def probe() -> EffectProof:
        now = now_ns()
        silent = {
            f"{t}/{p}": round((now - ack) / 1e9, 3) for (t, p), ack in _silent_since(context, places, now).items()
        }
        if silent:
            return EffectProof(True, f"acks stopped on {', '.join(sorted(silent)[:5])}", {"silent_s": silent})
        return EffectProof(False, f"acks continued on {named(places)}" if places else IDLE)

    return probe


def _silent_since(context: StepContext, places: Iterable[Place], now: int) -> dict[Place, int]:
    """Partitions without an ack for half a second or longer, with the time of their last one."""
    last = {place: context.load.last_ack_ns(*place) for place in places}
    return {place: ack for place, ack in last.items() if ack is not None and now - ack >= STALL_S * 1e9}


def isolated_stalled(context: StepContext, led: Collection[Place]) -> Probe:
    """Proof: acks stopped for the isolated clients, and continued for all others."""
    mine = sorted(set(led) & context.load.isolated_places())
    others = sorted(set(context.places(())) - context.load.isolated_places())
    stalled = acks_stalled(context, mine)

    def probe() -> EffectProof:
        effect = stalled()
        if not effect.held:
            return effect
        # An ack of the last second may be older than the stop, so only acks count that came after it.
        stopped_ns = max(_silent_since(context, mine, now_ns()).values(), default=now_ns())
        since_ns = stopped_ns + int(STALL_S * 1e9)
        served = {place for place in others if (context.load.last_ack_ns(*place) or 0) >= since_ns}
        if not served:
            return EffectProof(False, "acks stopped for all clients, not only for the isolated client", effect.seen)
        because = f"{effect.because}, and continued for the other clients on {named(served)}"
        return EffectProof(True, because, effect.seen)

    return probe


def answers_missed(context: StepContext) -> Probe:
    """Proof: since this call, clients retried records, or gave up records that may be in the log."""
    retries, unknown = context.load.retries(), context.load.unknown()

    def probe() -> EffectProof:
        retried, given_up = context.load.retries() - retries, context.load.unknown() - unknown
        seen = {"sent_again": retried, "unknown": given_up}
        if retried > 0:
            return EffectProof(True, f"the clients retried {retried} records", seen)
        if given_up > 0:
            return EffectProof(True, f"the clients gave up {given_up} records without an answer", seen)
        return EffectProof(False, "no client missed an answer", seen)

    return probe


def any_of(*probes: Probe) -> Probe:
    """Proof: the first of the probes that holds. When none holds, it carries what each of them saw."""

    def probe() -> EffectProof:
        missing = []
        for ask in probes:
            effect = ask()
            if effect.held:
                return effect
            missing.append(effect)
        seen = {key: value for effect in missing for key, value in effect.seen.items()}
        return EffectProof(False, "; ".join(effect.because for effect in missing), seen)

    return probe


def metadata_late(context: StepContext, nodes: Collection[int]) -> Probe:
    """Proof: nodes were behind the controllers' metadata log at each of several looks.

    That log grows by itself (KIP-835 writes an empty record twice a second), so a node with intact links is behind
    only for moments.
    """

    def probe() -> EffectProof:
        looks = []
        for _ in range(METADATA_LOOKS):
            quorum = context.admin.quorum()
            goal = quorum.voters[quorum.leader]
            ends = {**quorum.observers, **quorum.voters}
            looks.append({node: goal - ends.get(node, goal) for node in nodes})
            time.sleep(METADATA_LOOK_S)
        late = [node for node in nodes if all(look[node] > 0 for look in looks)]
        seen = {"records_behind": [{str(node): n for node, n in look.items()} for look in looks]}
        if late:
            return EffectProof(True, f"{late} lagged behind the metadata log at each look", seen)
        return EffectProof(False, f"{sorted(nodes)} kept up with the metadata log", seen)

    return probe


@dataclass(slots=True)
class StickyProbe:
    """A probe that keeps its first proof: an effect that was seen once stands."""

    probe: Probe
    effect: EffectProof | None = None

    def ask(self) -> EffectProof:
        if self.effect is None or not self.effect.held:
            try:
                self.effect = self.probe()
            except HarnessTimeout as silence:  # no answer is no proof, and no reason to leave something broken
                self.effect = EffectProof(False, str(silence))
        return self.effect


def followers_behind(context: StepContext, followers: Collection[int], leaders: Collection[int]) -> Probe:
    """Proof: at two looks in a row the log of a follower ended at the same offset, below the end of its leader's."""
    last: dict[tuple[str, int, int], int] = {}

    def probe() -> EffectProof:
        led = {place: s for place, s in context.all_states().items() if s.leader in leaders}
        ends = {key: end for key, (_, end) in context.admin.replica_offsets(sorted({t for t, _ in led})).items()}
        stuck = {}
        for (topic, partition), state in led.items():
            goal = ends.get((topic, partition, state.leader), -1)
            for broker in set(state.replicas) & set(followers) - {state.leader}:
                key = (topic, partition, broker)
                if key in ends and ends[key] == last.get(key) and ends[key] < goal:
                    stuck[f"{topic}/{partition}"] = {"leader": goal, "follower": ends[key], "broker": broker}
        last.clear()
        last.update(ends)
        if stuck:
            because = f"logs of followers did not grow and end below the leader's on {', '.join(sorted(stuck))}"
            return EffectProof(True, because, stuck)
        return EffectProof(False, f"the followers of {named(led)} kept up")

    return probe
