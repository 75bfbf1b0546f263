"""The states of coordinators, as they answer them and as the logs on the disks have them.

The leader's log is read before the questions and after the answers. A state is judged only if nothing was written about
it in between. While an answer differs, the look is repeated, because a coordinator may apply a write some time after
the high watermark has passed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import structs

from harness.clusters import Cluster
from harness.kafka.admin.client import AdminView, PartitionState
from harness.kafka.storage.coordinator_log import CoordinatorLog, CoordinatorLogs
from harness.kafka.storage.coordinator_state import ONGOING, LoggedState, commits_since, states_of
from harness.model.clock import now_ns
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS, state_partition
from harness.model.documents.coordinators import (
    CoordinatorLook,
    CoordinatorState,
    CopyOfState,
    Elsewhere,
    StateValue,
    differing,
)
from harness.model.history.changes import NO_LEADER
from harness.model.place import Place
from harness.model.scenario.scenario import Scenario
from harness.run.coordinator_questions import Questions, StateKey

DEADLINE_S: Final = 10.0
_INTERVAL_S: Final = 0.5
_TOPICS: Final = (OFFSETS, TRANSACTIONS, SHARE_STATE)
# States of a transaction in which no marker is under way; others are `transaction_unfinished` at the end of a run.
_AT_REST: Final = frozenset({"Empty", ONGOING, "CompleteCommit", "CompleteAbort"})
_Logs = Mapping[Place, CoordinatorLog]
# The names that each broker lists as its own, by the kind and the topic of their states.
_Listed = Mapping[tuple[Literal["group", "transaction"], str], Mapping[int, Collection[str]]]


class CoordinatorStates:
    """Compares the coordinators of one run with their logs. Made at its start: what the logs have then is older."""

    def __init__(self, cluster: Cluster, admin: AdminView, scenario: Scenario) -> None:
        self._cluster = cluster
        self._admin = admin
        self._scenario = scenario
        self._began = admin.high_watermark(_TOPICS)
        self._reader = CoordinatorLogs()

    def look(self, deadline_s: float = DEADLINE_S) -> CoordinatorLook:
        """The last look, at which everything agrees unless the deadline has passed."""
        return self._look_until(lambda seen: not (_differs(seen) or seen.unknown), deadline_s)

    def look_under_load(self, deadline_s: float = DEADLINE_S) -> CoordinatorLook:
        """The states about which nothing is written now, such as those of groups with all of their members.

        An answer that is missing now proves nothing, because there is another look at the end.
        """
        seen = self._look_until(lambda seen: not _differs(seen), deadline_s)
        return structs.replace(seen, states=tuple(one for one in seen.states if one.steady), unknown=())

    def _look_until(self, agrees: Callable[[CoordinatorLook], bool], deadline_s: float) -> CoordinatorLook:
        give_up_at = time.monotonic() + deadline_s
        while not agrees(seen := self._once()) and time.monotonic() < give_up_at:
            time.sleep(_INTERVAL_S)
        return seen

    def _once(self) -> CoordinatorLook:
        leaders = self._leaders()
        before = self._led(leaders)
        marks = self._admin.high_watermark(_TOPICS)
        asked_ns = now_ns()
        logged = {key: (place, state) for place, log in before.items() for key, state in states_of(log).items()}
        asked = self._ask(leaders, logged)
        listed = self._listed()
        at_ns = now_ns()
        copies = {broker: self._read(broker, leaders) for broker in self._cluster.brokers}
        seen = _Seen(leaders, marks, before, self._led(leaders), copies, self._leaders())
        found = []
        unknown = [*asked.unknown, *seen.not_read({asked.places[key] for key in asked.known})]
        for key, answered in sorted(asked.known.items()):
            state = logged[key][1] if key in logged else None
            if state is None and answered is None:
                continue
            try:
                found.append(self._row(seen, key, asked.places[key], state, answered))
            except ValueError as undecided:
                unknown.append(str(undecided))
        return CoordinatorLook(
            asked_ns=asked_ns,
            at_ns=at_ns,
            states=tuple(found),
            elsewhere=tuple(seen.elsewhere(listed)),
            unknown=tuple(unknown),
        )

    def _listed(self) -> _Listed:
        return {
            ("group", OFFSETS): self._admin.groups_by_coordinator(),
            ("transaction", TRANSACTIONS): self._admin.transactions_by_coordinator(),
        }

    def _leaders(self) -> dict[Place, PartitionState]:
        return {(state.topic, state.partition): state for state in self._admin.partitions(_TOPICS)}

    def _led(self, leaders: Mapping[Place, PartitionState]) -> _Logs:
        """The leaders' logs."""
        by_broker: dict[int, list[Place]] = {}
        for place, state in leaders.items():
            by_broker.setdefault(state.leader, []).append(place)
        read = [self._read(broker, by_broker.get(broker, ())) for broker in self._cluster.brokers]
        return {place: log for logs in read for place, log in logs.items()}

    def _read(self, broker: int, places: Collection[Place]) -> _Logs:
        try:
            return self._reader.read(broker, self._cluster.log_directories(broker), places)
        except OSError:
            return {}  # a log that is not there is not read, which the look says

    def _ask(
        self, leaders: Mapping[Place, PartitionState], logged: Mapping[StateKey, tuple[Place, LoggedState]]
    ) -> Questions:
        asked = Questions(self._admin, leaders, logged)
        topics = {
            state.topic: state.topic_id for state in self._admin.partitions(t.name for t in self._scenario.topics)
        }
        for group in self._scenario.groups:
            asked.offsets(group)
            asked.group(group, topics.values())
        ids = {p.name for p in self._scenario.producers if p.transactions is not None}
        ids |= {
            state.owner
            for place, state in logged.values()
            if state.kind == "transaction" and state.last.offset >= self._began.get(place, 0)
        }
        asked.transactions(sorted(ids))
        for group in self._scenario.share_groups:
            asked.share_group(group, topics)
        return asked

    def _row(
        self, seen: _Seen, key: StateKey, place: Place, state: LoggedState | None, answered: StateValue | None
    ) -> CoordinatorState:
        kind, name = key
        logged = state.value() if state else None
        differs = bool(differing(logged, answered))
        began = self._began.get(place, 0)
        commits = commits_since(state, began) if state and kind == "transaction" else None
        whole = place in seen.before and seen.before[place].compacted_to <= began
        return CoordinatorState(
            topic=place[0],
            partition=place[1],
            kind=kind,
            name=name,
            coordinator=seen.leaders[place].leader,
            leader_epoch=seen.leaders[place].leader_epoch,
            offset=state.last.offset if state else None,
            written_epoch=state.last.epoch if state else None,
            logged=logged,
            answered=answered,
            steady=seen.steady(key, place, state) and not _under_way(kind, logged),
            was=differs and state is not None and state.was(answered),
            copies=tuple(seen.copies_of(key, place)),
            commits=commits.transactions if commits else None,
            commit_records=commits.records if commits and whole else None,
        )


def _differs(seen: CoordinatorLook) -> bool:
    return bool(seen.elsewhere) or any(one.steady and differing(one.logged, one.answered) for one in seen.states)


def _under_way(kind: str, logged: StateValue | None) -> bool:
    return kind == "transaction" and logged is not None and logged["state"] not in _AT_REST


@dataclass(slots=True)
class _Seen:
    """One look. leaders and marks: at the first reading; moved: the leaders at the last one. copies: by broker, read
    after the answers and before the last reading of the leaders."""

    leaders: Mapping[Place, PartitionState]
    marks: Mapping[Place, int]
    before: _Logs
    after: _Logs
    copies: Mapping[int, _Logs]
    moved: Mapping[Place, PartitionState]
    _states: dict[int, Mapping[StateKey, LoggedState]] = field(default_factory=dict)  # by log

    def not_read(self, places: Collection[Place]) -> Iterator[str]:
        """Why something of the logs in these places is unknown: of the leader, and of each replica in sync."""
        for place in sorted(places):
            name = f"{place[0]}-{place[1]}"
            if place not in self.marks:
                yield f"the leader of {name} reported no high watermark"
            for broker, log in self._in_sync(place):
                yield from (f"the log of {name} on broker {broker}: {problem}" for problem in log.problems)

    def steady(self, key: StateKey, place: Place, state: LoggedState | None) -> bool:
        """Whether the coordinator had to know the last record about the state when it answered."""
        last = self._find(self.after.get(place), key)
        same = self._stayed(place) and (last and last.version) == (state and state.version)
        settled = state is None or (state.last.settled < self.marks.get(place, 0) and not state.pending)
        # The second reading has what was written between the first one and the high watermark.
        before = self.before.get(place)
        read = before is not None and not before.problems and self._whole(self.after.get(place), place)
        return same and settled and read and not (last and last.pending)

    def copies_of(self, key: StateKey, place: Place) -> Iterator[CopyOfState]:
        """The state in the logs of followers in sync that have everything below the high watermark."""
        for broker, log in self._in_sync(place):
            if broker != self.leaders[place].leader and self._whole(log, place):
                state = self._find(log, key)
                yield CopyOfState(broker=broker, logged=state.value() if state else None)

    def elsewhere(self, listed: _Listed) -> Iterator[Elsewhere]:
        """The names that a broker lists although another one led the log of their states all the time."""
        for (kind, topic), by_broker in listed.items():
            partitions = sum(name == topic for name, _ in self.leaders)
            for broker, names in sorted(by_broker.items()) if partitions else ():
                for name in sorted(names):
                    place = topic, state_partition(name, partitions)
                    leader = self.leaders.get(place)
                    if leader is not None and leader.leader not in (broker, NO_LEADER) and self._stayed(place):
                        yield Elsewhere(
                            topic=topic,
                            partition=place[1],
                            kind=kind,
                            name=name,
                            broker=broker,
                            coordinator=leader.leader,
                            leader_epoch=leader.leader_epoch,
                        )

    def _in_sync(self, place: Place) -> Iterator[tuple[int, CoordinatorLog]]:
        for broker in self.leaders[place].isr:
            none = CoordinatorLog(broker, *place, problems=["it is not on the disk"])
            logs = self.after if broker == self.leaders[place].leader else self.copies.get(broker, {})
            log = logs.get(place, none)
            if not log.problems and log.end < self.marks.get(place, 0):
                log.problems.append(f"it ends at {log.end}, below the high watermark {self.marks[place]}")
            yield broker, log

    def _whole(self, log: CoordinatorLog | None, place: Place) -> bool:
        return log is not None and not log.problems and log.end >= self.marks.get(place, 0)

    def _stayed(self, place: Place) -> bool:
        first, last = self.leaders[place], self.moved.get(place)
        return last is not None and (last.leader, last.leader_epoch) == (first.leader, first.leader_epoch)

    def _find(self, log: CoordinatorLog | None, key: StateKey) -> LoggedState | None:
        if log is None:
            return None
        if id(log) not in self._states:
            self._states[id(log)] = states_of(log)
        return self._states[id(log)].get(key)
