"""The promises of a topic's settings that are worse than those of three replicas of which two must be in sync."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.model.contract.broker_rules import CLEAN, MIN_ISR, THREE
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.coordinator_rules import in_state
from harness.model.contract.effects import Effect, Promise
from harness.model.contract.internal_topics import OWN
from harness.model.contract.promises import promises

BAD: Final = frozenset({Effect.LOST, Effect.UNAVAILABLE, Effect.RETURNED})
# An application that fails in the evening runs again the next evening; records deleted before that it may never see.
SHORT_H: Final = 24
_SHORT_MS: Final = SHORT_H * 3_600_000
_GROWS_OLD: Final = "grows_old"
# Without ELR, requiring two in sync does not change the kind of loss at these events; it may reduce its amount.
_OF_THE_LAST: Final = frozenset(
    {"last_in_sync_dies", "returns_short", "disk_of_last_in_sync", "offsets_leader_alone_dies"}
)
# Coordinators write with acks=all and retry until the write succeeds, whatever other producers do.
_COORDINATOR: Final = ClientSettings()


def avoidable_promises(name: str, topic: TopicSettings, client: ClientSettings) -> list[Promise]:
    """Promises of a topic that are worse than those of three replicas of which two must be in sync.

    Counted are losses, records that return, and unavailability; for __consumer_offsets every effect, since all groups
    depend on it. Retention shorter than SHORT_H hours counts, too.
    """
    good = {p.event: p.severity for p in promises(three_replicas(topic), writer_of(name, client))}
    here = promises(topic, writer_of(name, client))
    bad = [p for p in here if BAD & set(p.effects) or topic.keeps_offsets]
    worse = [_at_stake(p, topic) for p in bad if p.severity > good.get(p.event, 0) or _spared_some(p, topic)]
    too_soon = [_too_soon(p) for p in here if p.event.name == _GROWS_OLD and _short(topic)]
    return [in_state(name, p) for p in worse + too_soon]


def writer_of(name: str, client: ClientSettings) -> ClientSettings:
    """The settings of the producer that writes to the topic."""
    return _COORDINATOR if name in OWN else client


def three_replicas(topic: TopicSettings) -> TopicSettings:
    """The settings that three replicas allow."""
    return replace(topic, replicas=3, min_isr=2, unclean=False)


def _spared_some(promise: Promise, topic: TopicSettings) -> bool:
    """Whether clean elections, three replicas and two in sync reduce the loss, even if its kind stays the same."""
    if CLEAN in promise.fix or (topic.replicas == 1 and THREE in promise.fix):
        return True
    return _alone(topic) and promise.event.name in _OF_THE_LAST and promise.effects != (Effect.KEPT,)


def _alone(topic: TopicSettings) -> bool:
    """Whether one replica alone in sync may acknowledge, or is alone as soon as one other fails."""
    return topic.needed < 2 or topic.replicas < 3


def _at_stake(promise: Promise, topic: TopicSettings) -> Promise:
    """Adds why two in sync and a third replica help even without ELR."""
    if not _alone(topic) or topic.elr or promise.event.name not in _OF_THE_LAST:
        return promise
    spared = (
        "if two must be in sync, another replica has every record acknowledged with acks=all and can be elected by hand"
        if topic.needed < 2
        else "with two replicas, one is alone in sync as soon as the other fails"
    )
    lacks = [setting for setting, lacking in ((THREE, topic.replicas < 3), (MIN_ISR, topic.min_isr < 2)) if lacking]
    fix = tuple(dict.fromkeys((*promise.fix, *lacks)))
    return replace(promise, why=f"{promise.why}; {spared}", fix=fix)


def _short(topic: TopicSettings) -> bool:
    return topic.deletes and 0 <= topic.retention_ms < _SHORT_MS


def _too_soon(promise: Promise) -> Promise:
    which = f"{promise.which}: a consumer that is down for {SHORT_H} h does not read them"
    return replace(promise, which=which, fix=(f"retention.ms={_SHORT_MS} ({SHORT_H} h) or more",))
