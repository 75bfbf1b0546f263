"""All rules together on one cluster, with the engine's second looks: what a user would be shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from harness.audit.engine.view import View
from harness.audit.look import CommitLook, PartitionLook, RemoteSegment
from harness.audit.rules.rule import Rule, Suspicion, rule_classes
from harness.audit.store.partitions import Offsets
from harness.model.history.changes import AnyChange
from harness.model.history.log import Record
from suites.unit.audit.rules.scene import Scene
from suites.unit.model.history.logs import partition, topic

# Settings of the topics of these tests: nothing is to be said about them.
QUIET = frozenset({"weak_settings"})


class Crowd:
    """Every rule but those of QUIET. What they suspect is confirmed by looks like the last one."""

    def __init__(self, *records: Record, without: Iterable[str] = ("logs",)) -> None:
        self.rules: dict[str, Rule] = {
            name: rule() for name, rule in rule_classes().items() if name not in QUIET and not rule.always
        }
        self._waiting: list[Suspicion] = []
        self.alarms: list[Suspicion] = []
        self.scene: Scene = Scene(_All(self), made=False, without=without)
        self.records(*records or (topic(), partition()))
        self.alarms.clear()

    @property
    def names(self) -> list[str]:
        """The rules that have an alarm, in the order in which they raised it."""
        return list(dict.fromkeys(alarm.rule for alarm in self.alarms))

    def of(self, name: str) -> Suspicion:
        """The only alarm of a rule."""
        (alarm,) = [alarm for alarm in self.alarms if alarm.rule == name]
        return alarm

    def records(self, *entries: Record) -> None:
        self._add(self.scene.records(*entries))

    def look(self, seen: Offsets | PartitionLook, times: int = 1) -> None:
        """The same look again and again, a second apart."""
        for _ in range(times):
            look = self.scene.timed(seen)
            waiting, self._waiting = self._waiting, []
            for suspicion in waiting:
                if look.error is not None:
                    self._waiting.append(suspicion)
                    continue
                answer = self.rules[suspicion.rule].confirmed(suspicion, look, self.scene.view)
                if answer is not None and answer.again:
                    self._waiting.append(replace(answer, again=False))
                elif answer is not None:
                    self._alarm(answer)
            self._add(self.scene.look(seen))
            self._add(self.scene.tick())

    def commit(self, offset: int, topic_id: str | None = None) -> None:
        self._add(self.scene.commit(offset) if topic_id is None else self.scene.commit(offset, topic_id))

    def segment(self, state: str, name: str, first: int | None = None, last: int | None = None) -> None:
        self._add(self.scene.segment(state, name, first=first, last=last))

    def wait(self, seconds: float) -> None:
        self._add(self.scene.tick(seconds))

    def _add(self, suspicions: Iterable[Suspicion]) -> None:
        for suspicion in suspicions:
            if suspicion.needs_look:
                self._waiting.append(suspicion)
            else:
                self._alarm(suspicion)

    def _alarm(self, suspicion: Suspicion) -> None:
        rated = self.rules[suspicion.rule].rated(suspicion)
        if rated is not None:
            self.alarms.append(rated)


class _All(Rule):
    """Hands everything to every rule of a crowd."""

    name: ClassVar[str] = "all"

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._rules = crowd.rules

    def on_change(self, after: AnyChange, before: AnyChange | None, view: View) -> Iterable[Suspicion]:
        return [found for rule in self._rules.values() for found in rule.on_change(after, before, view)]

    def on_look(self, look: PartitionLook, before: Offsets, view: View) -> Iterable[Suspicion]:
        return [found for rule in self._rules.values() for found in rule.on_look(look, before, view)]

    def on_commit(self, look: CommitLook, before: CommitLook | None, view: View) -> Iterable[Suspicion]:
        return [found for rule in self._rules.values() for found in rule.on_commit(look, before, view)]

    def on_segment(self, after: RemoteSegment, before: RemoteSegment | None, view: View) -> Iterable[Suspicion]:
        return [found for rule in self._rules.values() for found in rule.on_segment(after, before, view)]

    def on_tick(self, view: View) -> Iterable[Suspicion]:
        return [found for rule in self._rules.values() for found in rule.on_tick(view)]
