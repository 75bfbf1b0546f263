"""The records that a partition would lose at the next failure, by its state and by the rules of the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.audit.engine.view import View
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Effect, Promise
from harness.model.contract.promises import promises
from harness.model.contract.read_settings import OF_TOPIC, topic_settings
from harness.model.errors import BadInput
from harness.model.history.changes import NO_LEADER, PartitionChange

_ELR: Final = "eligible.leader.replicas.version"
_ONE_FAILURE: Final = frozenset({"leader_dies", "disk_of_one", "power_of_one", "power_of_all"})
_OF_THE_LAST: Final = frozenset({"last_in_sync_dies", "returns_short", "disk_of_last_in_sync"})
_BAD: Final = frozenset({Effect.LOST, Effect.UNAVAILABLE})


def next_failure(state: PartitionChange, view: View) -> Iterator[str]:
    """Sentences: the state now first, then what a producer with acks=all may lose, and by which event."""
    settings = _settings(state, view)
    needed = min(state_min_isr(state, view), len(state.replicas))
    yield from _now(state, needed)
    if settings is None:
        yield "The settings of the topic are not known, so the rules of the contract were not asked."
        return
    events = _ONE_FAILURE | (_OF_THE_LAST if len(state.isr) < 2 else frozenset())
    found = [p for p in promises(settings, ClientSettings()) if p.event.name in events and _BAD & {*p.effects}]
    for promise in found:
        yield from _sentences(promise)
    if not found:
        yield "No event that the rules of the contract know, with one broker at a time, loses an acknowledged record."


def state_min_isr(state: PartitionChange, view: View) -> int:
    found = view.setting(state.topic, "min.insync.replicas")
    return int(found) if found is not None and found.isdigit() else 1


def _now(state: PartitionChange, needed: int) -> Iterator[str]:
    isr, out = state.isr, [replica for replica in state.replicas if replica not in state.isr]
    if state.leader == NO_LEADER:
        eligible = f"one of {_ids(state.elr)} can lead" if state.elr else "no replica is known to have all records"
        yield f"It has no leader: it can be neither written nor read now. Of the replicas that are down, {eligible}."
    elif len(isr) == 1:
        yield (
            f"Broker {isr[0]} is alone in sync. If it fails, the partition is neither written nor read until it "
            "returns; records that only it has are lost with its disk, and by an unclean election."
        )
    else:
        others = [replica for replica in isr if replica != state.leader]
        yield f"If leader {state.leader} fails, one of {_ids(others)} leads, and every committed record stays."
    if state.leader != NO_LEADER and len(isr) < needed:
        yield f"Producers with acks=all are refused now: {len(isr)} in sync, {needed} required."
    elif state.leader != NO_LEADER and len(isr) == needed and len(state.replicas) > needed:
        yield "One more replica out of the ISR, and producers with acks=all are refused."
    if out:
        yield f"Out of the ISR: {_ids(out)}."


def _settings(state: PartitionChange, view: View) -> TopicSettings | None:
    """None if settings are unknown, or are ones that the contract refuses."""
    known = {key: value for key in OF_TOPIC if (value := view.setting(state.topic, key)) is not None}
    if "min.insync.replicas" not in known or "retention.ms" not in known:
        return None
    try:
        return topic_settings(state.topic, known, len(state.replicas), {}, elr=view.feature(_ELR) > 0)
    except (BadInput, ValueError):
        return None


def _sentences(promise: Promise) -> Iterator[str]:
    effects = " and ".join(effect.value for effect in promise.effects)
    yield f"{effects} when {promise.event.happens}: {promise.which}"
    yield f"  because: {promise.why} ({promise.source})"
    if promise.fix:
        yield f"  how to fix: {', '.join(promise.fix)}"


def _ids(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
