"""A topic's settings cannot keep the promise that three replicas with two in sync would keep."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from harness.audit.engine.view import View
from harness.audit.rules.retention import setting_of
from harness.audit.rules.rule import Rule, Suspicion
from harness.model.contract.avoidable import avoidable_promises
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.effects import Effect
from harness.model.contract.read_settings import OF_BROKER, OF_TOPIC, topic_settings
from harness.model.errors import BadInput
from harness.model.history.changes import (
    AnyChange,
    ConfigChange,
    FeatureChange,
    PartitionChange,
    ResourceKind,
    TopicChange,
    TopicEvent,
)
from harness.model.severity import Severity

MIN_INSYNC: Final = "min.insync.replicas"
_ELR: Final = "eligible.leader.replicas.version"
_TICK_S: Final = 0.02  # processor time that a tick may take
_WORST_OF_ONE: Final = frozenset({"leader_dies", "power_of_one", "disk_of_one"})  # one failure is enough


@dataclass(frozen=True, slots=True)
class _Weakness:
    """A promise that is worse than it had to be. fix: the settings that avoid it; they are the cause."""

    fix: str
    what: str


class WeakSettings(Rule):
    """The rules of `durability contract`, for a producer with acks=all. Topics are judged when they are first known and
    when a setting, their replicas or a feature changed, some in each second."""

    name: ClassVar[str] = "weak_settings"
    severity: ClassVar[Severity] = Severity.NOTICE
    explanation: ClassVar[str] = (
        "With these settings acknowledged records are lost by failures that other settings survive."
    )
    remedy: ClassVar[str] = "Change the named settings. `durability contract --bootstrap` explains each topic."
    source: ClassVar[str] = "KIP-106, KIP-966; Kafka documentation, replication"
    needs: ClassVar[frozenset[str]] = frozenset({"metadata", "settings"})

    def _begin(self) -> None:
        self._due: dict[str, None] = {}  # topics, in order
        self._found: dict[str, str] = {}  # topic -> what is missing

    def on_known(self, state: PartitionChange, view: View) -> None:
        self._due[state.topic] = None

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        match after:
            case PartitionChange():
                if not isinstance(before, PartitionChange) or len(before.replicas) != len(after.replicas):
                    self._due[after.topic] = None
            case TopicChange(event=TopicEvent.DELETED):
                self._found.pop(after.topic, None)
                self._due.pop(after.topic, None)
            case ConfigChange(kind=ResourceKind.TOPIC) if after.key in OF_TOPIC:
                self._due[after.name] = None
            case ConfigChange(kind=ResourceKind.BROKER) | FeatureChange():
                self._due |= {state.topic: None for state in view.partitions() if state.partition == 0}
        return ()

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        if view.broker_setting(MIN_INSYNC) is None:
            return  # the defaults of the brokers are not known yet
        until_s = time.thread_time() + _TICK_S
        while self._due and time.thread_time() < until_s:
            topic = next(iter(self._due))
            del self._due[topic]
            yield from self._of_topic(topic, view)

    def over(self, suspicion: Suspicion, view: View) -> bool:
        lacks = self._found.get(suspicion.topic)
        return suspicion.topic not in self._due and suspicion.cause != f"without {lacks}"

    def _of_topic(self, topic: str, view: View) -> Iterable[Suspicion]:
        settings = _settings(topic, view)
        weak = None if settings is None else _weakness(topic, settings)
        if weak is None:
            self._found.pop(topic, None)
            return
        self._found[topic] = weak.fix
        yield Suspicion(
            rule=self.name,
            cause=f"without {weak.fix}",
            what=f"Topic {topic} ({settings}): {weak.what}",
            at_ns=view.now_ns,
            topic=topic,
            topic_id=view.topic_id(topic) or "",
        )


def _settings(topic: str, view: View) -> TopicSettings | None:
    """The settings of a topic; None if it is deleted, or one of them is not a value that brokers accept."""
    replicas = [len(state.replicas) - len(state.adding) for state in view.partitions(topic)]
    config = {key: value for key in OF_TOPIC if (value := setting_of(topic, key, view)) is not None}
    broker = {key: value for key in OF_BROKER if (value := view.broker_setting(key)) is not None}
    if not replicas:
        return None
    try:
        return topic_settings(topic, config, min(replicas), broker, elr=view.feature(_ELR) > 0)
    except (ValueError, BadInput):
        return None


@lru_cache(maxsize=256)
def _weakness(topic: str, settings: TopicSettings) -> _Weakness | None:
    """The worst promise that other settings would avoid: one that a single failure breaks, else the first."""
    lost = [p for p in avoidable_promises(topic, settings, ClientSettings()) if Effect.LOST in p.effects and p.fix]
    if not lost:
        return None
    worst = min(lost, key=lambda promise: promise.event.name not in _WORST_OF_ONE)
    return _Weakness(
        fix=", ".join(sorted(worst.fix)),
        what=f"records are lost when {worst.event.happens}: {worst.which}, because {worst.why}.",
    )
