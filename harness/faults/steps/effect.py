"""Did the fault do anything to the data path? Proofs are taken before the fault and asked about after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from harness.faults.steps.step import EffectProof, PartitionView, Place
from harness.faults.steps.step_context import Stage
from harness.model.clock import now_ns
from harness.model.errors import HarnessTimeout

ACK_WINDOW_S = 1.0
ACKS_DEADLINE_S = 10.0
STALL_S = 0.5
METADATA_LOOKS = 4
METADATA_LOOK_S = 0.15
IDLE = "no partition had acks in the last second"
Probe = Callable[[], EffectProof]


def named(places: Iterable[Place]) -> str:
    """ "plain/0, plain/2", at most five of them."""
    texts = [f"{topic}/{partition}" for topic, partition in sorted(places)]
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")


def with_recent_acks(stage: Stage, places: Iterable[Place]) -> set[Place]:
    """Those that got an ack within the last second."""
    since_ns = now_ns() - int(ACK_WINDOW_S * 1e9)
    return {place for place in places if (stage.load.last_ack_ns(*place) or 0) >= since_ns}


def await_recent_acks(stage: Stage, chosen: Callable[[PartitionView], bool]) -> dict[Place, PartitionView]:
    """Partitions that are chosen and have acks in the last second, waited for within a bound; may stay empty.

    A fault without load under it proves nothing, but that is for the bite to say and not a reason to stop. Under an
    earlier fault that is still open acks may have ceased: then those partitions count that had acks before it.
    """
    give_up_at = time.monotonic() + (0 if stage.faults_open else ACKS_DEADLINE_S)
    while True:
        states = {place: s for place, s in stage.all_states().items() if chosen(s)}
        busy = with_recent_acks(stage, states) | (stage.busy & set(states))
        if busy or not states or time.monotonic() > give_up_at:
            stage.busy |= busy
            return {place: states[place] for place in busy}
        time.sleep(0.05)


def under_load(stage: Stage) -> dict[Place, PartitionView]:
    """Partitions that have a leader and acks in the last second, whoever leads them; as `await_recent_acks`."""
    return await_recent_acks(stage, lambda s: s.leader >= 0)


def leaders_moved(stage: Stage, before: Mapping[Place, PartitionView]) -> Probe:
    """The victims led these partitions under load, and every one of them has a newer leader epoch."""

    def probe() -> EffectProof:
        if not before:
            return EffectProof(False, "the victim led no partition that had acks in the last second")
        now = stage.states(list(before))
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


def isr_lost(stage: Stage, victims: Collection[int], before: Mapping[Place, PartitionView]) -> Probe:
    """The victims were in sync on partitions under load, and left the ISR of at least one of them."""

    def probe() -> EffectProof:
        if not before:
            return EffectProof(False, "no partition had both acks in the last second and the victim in its ISR")
        now = stage.states(list(before))
        left = {p: sorted(s.isr) for p, s in now.items() if (set(before[p].isr) - set(s.isr)) & set(victims)}
        seen = {f"{t}/{p}": {"isr": [sorted(before[t, p].isr), isr]} for (t, p), isr in left.items()}
        if left:
            return EffectProof(True, f"{sorted(victims)} left the ISR of {named(left)}", seen)
        return EffectProof(False, f"the ISR of {named(before)} still holds {sorted(victims)}", seen)

    return probe


def acks_stalled(stage: Stage, places: Collection[Place]) -> Probe:
    """Partitions under load got no ack for half a second and more."""

    def probe() -> EffectProof:
        now = now_ns()
        silent = {f"{t}/{p}": round((now - ack) / 1e9, 3) for (t, p), ack in _silent_since(stage, places, now).items()}
        if silent:
            return EffectProof(True, f"acks stopped on {', '.join(sorted(silent)[:5])}", {"silent_s": silent})
        return EffectProof(False, f"acks went on on {named(places)}" if places else IDLE)

    return probe


def _silent_since(stage: Stage, places: Iterable[Place], now: int) -> dict[Place, int]:
    """The last acks of those that had none for half a second and more."""
    last = {place: stage.load.last_ack_ns(*place) for place in places}
    return {place: ack for place, ack in last.items() if ack is not None and now - ack >= STALL_S * 1e9}


def isolated_stalled(stage: Stage, led: Collection[Place]) -> Probe:
    """Acks stopped for clients that were cut off alone, and went on for the others."""
    mine = sorted(set(led) & stage.load.isolated_places())
    others = sorted(set(stage.places(())) - stage.load.isolated_places())
    stalled = acks_stalled(stage, mine)

    def probe() -> EffectProof:
        effect = stalled()
        if not effect.held:
            return effect
        # Acks of the last second may be of before everybody's ceased: they have to be of after mine had.
        stopped_ns = max(_silent_since(stage, mine, now_ns()).values(), default=now_ns())
        since_ns = stopped_ns + int(STALL_S * 1e9)
        going_on = {place for place in others if (stage.load.last_ack_ns(*place) or 0) >= since_ns}
        if not going_on:
            return EffectProof(False, "acks stopped for everybody, not for the lone client only", effect.seen)
        return EffectProof(True, f"{effect.because}, and went on for the others on {named(going_on)}", effect.seen)

    return probe


def answers_missed(stage: Stage) -> Probe:
    """Since now the clients sent records again, or gave records up that may be in the log."""
    retries, unknown = stage.load.retries(), stage.load.unknown()

    def probe() -> EffectProof:
        again, given_up = stage.load.retries() - retries, stage.load.unknown() - unknown
        seen = {"sent_again": again, "unknown": given_up}
        if again > 0:
            return EffectProof(True, f"the clients sent {again} records again", seen)
        if given_up > 0:
            return EffectProof(True, f"the clients gave {given_up} records up without an answer", seen)
        return EffectProof(False, "the clients missed no answer", seen)

    return probe


def any_of(*probes: Probe) -> Probe:
    """The first that holds, else what each of them saw."""

    def probe() -> EffectProof:
        bites = []
        for ask in probes:
            effect = ask()
            if effect.held:
                return effect
            bites.append(effect)
        seen = {key: value for effect in bites for key, value in effect.seen.items()}
        return EffectProof(False, "; ".join(effect.because for effect in bites), seen)

    return probe


def metadata_late(stage: Stage, nodes: Collection[int]) -> Probe:
    """Nodes were behind the controllers' log at every one of several looks: what they know is always an old state.

    The log grows by itself (KIP-835 writes an empty record twice a second), so who has whole links is behind for
    moments only.
    """

    def probe() -> EffectProof:
        looks = []
        for _ in range(METADATA_LOOKS):
            quorum = stage.admin.quorum()
            goal = quorum.voters[quorum.leader]
            ends = {**quorum.observers, **quorum.voters}
            looks.append({node: goal - ends.get(node, goal) for node in nodes})
            time.sleep(METADATA_LOOK_S)
        late = [node for node in nodes if all(look[node] > 0 for look in looks)]
        seen = {"records_behind": [{str(node): n for node, n in look.items()} for look in looks]}
        if late:
            return EffectProof(True, f"{late} lagged behind the controllers' log all the while", seen)
        return EffectProof(False, f"{sorted(nodes)} kept up with the controllers' log", seen)

    return probe


@dataclass(slots=True)
class Held:
    """A probe that remembers: once a fault bit, it has bitten."""

    probe: Probe
    effect: EffectProof | None = None

    def ask(self) -> EffectProof:
        if self.effect is None or not self.effect.held:
            try:
                self.effect = self.probe()
            except HarnessTimeout as silence:  # nobody to ask is no proof, and no reason to leave something broken
                self.effect = EffectProof(False, str(silence))
        return self.effect


def followers_behind(stage: Stage, followers: Collection[int], leaders: Collection[int]) -> Probe:
    """Logs of followers end below their leader's at two looks apart in time, without having grown in between."""
    last: dict[tuple[str, int, int], int] = {}

    def probe() -> EffectProof:
        led = {place: s for place, s in stage.all_states().items() if s.leader in leaders}
        ends = {key: end for key, (_, end) in stage.admin.replica_offsets(sorted({t for t, _ in led})).items()}
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
            because = f"the logs of followers stood still below the leader's on {', '.join(sorted(stuck))}"
            return EffectProof(True, because, stuck)
        return EffectProof(False, f"the followers of {named(led)} kept up")

    return probe
