"""After healing: waits until the coordinators have ended every transaction, and until every consumer group is at rest.

Each wait has a deadline. What was still pending then is evidence, which the judge weighs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from harness.clusters.base import Cluster
from harness.kafka.admin.client import AdminView
from harness.model.documents.run import GroupLook, GroupsAtRest, OpenTransaction, TransactionsEnded
from harness.model.place import Place
from harness.model.waiting import settled

GROUPS_DEADLINE_S: Final = 90.0  # as for the recovery of the cluster
# Kafka's names of the states in which a coordinator has nothing left to do for a transaction.
_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


class Groups(Protocol):
    """A load, as far as the wait for its groups needs it."""

    def members_by_group(self) -> Mapping[str, Mapping[str, frozenset[Place]]]:
        """By consumer group whose members all work: the partitions of each, by the name of its client."""
        ...

    def wanted_by_group(self) -> Mapping[str, Collection[Place]]:
        """By consumer group: the partitions of the topics that its members subscribe to."""
        ...


def transactions_ended(
    cluster: Cluster, admin: AdminView, deadline_s: float, own: Callable[[str], bool] = lambda _: True
) -> TransactionsEnded:
    """Waits until no coordinator reports a transaction that is not over, once all clients have stopped. own: whether a
    transactional id belongs to the run."""
    left: list[OpenTransaction] = []

    def pending() -> str:
        reported = admin.transactions_by_coordinator()
        left[:] = [
            OpenTransaction(transactional_id=name, state=state, coordinator=broker)
            for broker, known in sorted(reported.items())
            for name, state in sorted(known.items())
            if state not in _OVER and own(name)
        ]
        silent = [broker for broker in cluster.brokers if cluster.running(broker) and broker not in reported]
        waiting = [f"{one.transactional_id} is {one.state} at broker {one.coordinator}" for one in left[:5]]
        return ", ".join([*waiting, *(f"no answer from broker {broker}" for broker in silent)])

    waited = settled(pending, what="coordinators to end every transaction", deadline_s=deadline_s)
    return TransactionsEnded(
        ok=waited.ok, waited_s=waited.waited_s, last_seen=waited.last_seen, open=() if waited.ok else tuple(left)
    )


def groups_at_rest(
    look: Callable[[str], GroupLook], groups: Collection[str], deadline_s: float = GROUPS_DEADLINE_S
) -> GroupsAtRest:
    """Waits until each of these groups was at rest once: a member may come or go at any other moment."""
    restless: dict[str, GroupLook | None] = dict.fromkeys(sorted(groups))
    twice: dict[str, GroupLook] = {}

    def pending() -> str:
        for group in list(restless):
            restless[group] = seen = look(group)
            if seen.by_coordinator and seen.assigned_twice:
                twice[group] = seen
            if seen.at_rest:
                del restless[group]
        return ", ".join(_sentence(seen) for seen in restless.values() if seen)

    waited = settled(pending, what="every consumer group to be at rest", deadline_s=deadline_s)
    unsettled = tuple(seen for seen in restless.values() if seen)
    return GroupsAtRest(
        ok=waited.ok,
        waited_s=waited.waited_s,
        last_seen=waited.last_seen,
        asked=tuple(sorted(groups)),
        unsettled=unsettled,
        assigned_twice=tuple(twice.values()),
    )


def look_at_group(admin: AdminView, load: Groups, group: str) -> GroupLook:
    """The group as its coordinator reports it now, beside the partitions that its members say they have."""
    seen = admin.group_members(group)
    members, wanted = load.members_by_group().get(group, {}), set(load.wanted_by_group().get(group, ()))
    given = Counter(place for member in seen.members for place in member.places)
    differing = [len(member.places ^ members[member.client]) for member in seen.members if member.client in members]
    return GroupLook(
        group=group,
        state=seen.state or None,
        unassigned=len(wanted - given.keys()),
        assigned_twice=sum(times > 1 for times in given.values()),
        of_nobody=sum(len(member.places) for member in seen.members if member.client not in members),
        unknown_members=len(members.keys() - {member.client for member in seen.members}),
        differing=sum(differing),
        by_coordinator=seen.by_coordinator,
    )


def _sentence(look: GroupLook) -> str:
    return (
        f"group {look.group} is {look.state or 'without an answer'}: {look.unassigned} partitions without a member, "
        f"{look.assigned_twice} with several, {look.of_nobody} of members that do not run, {look.differing} of which "
        f"members report another assignment; {look.unknown_members} members are unknown to it"
    )
