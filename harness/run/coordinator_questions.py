"""Asks the leaders of the logs of coordinators for the states that these logs have, or should have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from harness.kafka.admin.client import AdminView, PartitionState
from harness.kafka.admin.coordinator_answers import GroupAnswer
from harness.kafka.admin.groups import TransactionState
from harness.kafka.storage.coordinator_state import (
    ONGOING,
    LoggedState,
    assigned_text,
    assigned_topics,
    members_text,
    open_transaction,
)
from harness.model.contract.internal_topics import OFFSETS, TRANSACTIONS, state_partition
from harness.model.documents.coordinators import StateKind, StateValue, state_name
from harness.model.errors import HarnessTimeout
from harness.model.place import Place

StateKey = tuple[StateKind, str]
_SHARE_S: Final = 5.0
_AT_REST: Final = frozenset({"Stable", "Empty"})  # states of a classic group in which its log has all of its members


@dataclass(slots=True)
class Questions:
    """known: by state the answer about it, None if the coordinator does not know it. places: its log. unknown: what
    was not answered, in a sentence each."""

    admin: AdminView
    leaders: Mapping[Place, PartitionState]
    logged: Mapping[StateKey, tuple[Place, LoggedState]]
    known: dict[StateKey, StateValue | None] = field(default_factory=dict)
    places: dict[StateKey, Place] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def offsets(self, group: str) -> None:
        """All committed offsets of a group."""
        place = self._log_of(OFFSETS, group)
        if place is None:
            return
        answer = self.admin.answers.offsets(self.leaders[place].leader, group)
        if isinstance(answer, str):
            self._silent(place, f"the offsets of group {group}", answer)
            return
        by_name = {state_name(group, *of): committed._asdict() for of, committed in answer.items()}
        in_log = {name for (kind, name), (_, state) in self.logged.items() if kind == "offset" and state.owner == group}
        for name in by_name.keys() | in_log:
            self._add(("offset", name), place, by_name.get(name))

    def group(self, group: str, topic_ids: Collection[str] = ()) -> None:
        """A group with members, now or before; a group that only commits has no state of its own. topic_ids: of topics
        that exist; a coordinator does not report partitions of others."""
        place, state = self.logged.get(("group", group), (None, None))
        value = _decoded(state)
        if place is None or value is None:
            return
        broker = self.leaders[place].leader
        consumer = "epoch" in value
        ask = self.admin.answers.consumer_group if consumer else self.admin.answers.classic_group
        answer = ask(broker, group)
        if isinstance(answer, str):
            self._silent(place, f"group {group}", answer)
        elif answer is not None:
            if not assigned_topics(value) <= set(topic_ids):
                answer = replace(answer, assigned=None)
            self._add(("group", group), place, _group_value(answer))
        elif consumer:  # an empty classic group may be forgotten although its tombstone was not written
            self._add(("group", group), place, None)

    def transactions(self, ids: Iterable[str]) -> None:
        """The states of transactional ids."""
        by_place: dict[Place, list[str]] = {}
        for name in ids:
            found, _ = self.logged.get(("transaction", name), (self._log_of(TRANSACTIONS, name), None))
            if found is not None:
                by_place.setdefault(found, []).append(name)
        for place, names in by_place.items():
            for name, answer in self.admin.answers.transactions(self.leaders[place].leader, names).items():
                if isinstance(answer, str):
                    self._silent(place, f"transactional id {name}", answer)
                else:
                    self._add(("transaction", name), place, _transaction_value(answer))

    def share_group(self, group: str, topic_ids: Mapping[str, str]) -> None:
        """How far a share group has come in each partition. topic_ids: by the names of topics."""
        try:
            answer = self.admin.share_offsets(group, _SHARE_S)
        except HarnessTimeout as silent:
            self.unknown.append(str(silent))
            return
        for (topic, partition), found in answer.items():
            key: StateKey = ("share_state", state_name(group, topic_ids.get(topic, ""), partition))
            place, state = self.logged.get(key, (None, None))
            logged = _decoded(state)
            if place is not None and logged is not None and found.start >= 0 and logged["start"] != -1:
                self._add(key, place, {"start": found.start})

    def _log_of(self, topic: str, name: str) -> Place | None:
        """The partition with the state of a group or transactional id; None while the topic does not exist."""
        partitions = sum(place[0] == topic for place in self.leaders)
        place = (topic, state_partition(name, partitions)) if partitions else None
        if place is not None and self.leaders[place].leader < 0:
            self.unknown.append(f"{topic}-{place[1]} with the state of {name} has no leader")
            return None
        return place

    def _add(self, key: StateKey, place: Place, answer: StateValue | None) -> None:
        self.known[key] = answer
        self.places[key] = place

    def _silent(self, place: Place, what: str, why: str) -> None:
        self.unknown.append(f"broker {self.leaders[place].leader} did not answer about {what}: {why}")


def _decoded(state: LoggedState | None) -> StateValue | None:
    """None also if it cannot be decoded, which is reported for its log."""
    try:
        return state.value() if state else None
    except ValueError:
        return None


def _group_value(answer: GroupAnswer) -> StateValue:
    members: StateValue = {"members": members_text(answer.members)}
    if answer.epoch is None or answer.assignment_epoch is None:
        return members if answer.state in _AT_REST else {}
    value = {"epoch": answer.epoch, "assignment_epoch": answer.assignment_epoch, **members}
    return value if answer.assigned is None else {**value, "assigned": assigned_text(answer.assigned)}


def _transaction_value(answer: TransactionState | None) -> StateValue | None:
    if answer is None:
        return None
    value: StateValue = {
        "state": answer.state,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
        "timeout_ms": answer.timeout_ms,
    }
    return open_transaction(value, answer.started_ms, answer.partitions) if answer.state == ONGOING else value
