"""The states in a log of a coordinator: committed offsets, transactions, groups, and the progress of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.kafka.storage.coordinator_log import CoordinatorLog, Key, Logged
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.documents.coordinators import StateKind, StateValue, differing, state_name
from harness.model.place import Place

# Kafka's names of the states of a transaction, by their numbers in the log (TransactionState).
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
ONGOING: Final = "Ongoing"
_DECIDED: Final = "PrepareCommit"
_CLASSIC, _CONSUMER, _TARGET, _MEMBER = 2, 3, 6, 8  # numbers of keys in __consumer_offsets
_NO_EPOCH: Final = -1  # of a commit without one, as a coordinator answers it
_SNAPSHOT: Final = 0  # number of a key in __share_group_state; the other one is an update
_EARLIER: Final = 100  # so many earlier states are compared with an answer at most


@dataclass(frozen=True, slots=True)
class LoggedState:
    """All values about one state, in the order in which they count.

    owner: the group or transactional id. name: the same, followed by topic (of a share group: its id) and partition.
    """

    kind: StateKind
    name: str
    owner: str
    topic: str
    records: tuple[Logged, ...]
    pending: bool = False  # an open transaction will change it

    @property
    def last(self) -> Logged:
        return self.records[-1]

    @property
    def version(self) -> tuple[int, int, int]:
        """Differs whenever something was written about it."""
        return len(self.records), self.last.offset, self.last.settled

    def value(self) -> StateValue | None:
        """Its value; None if it was deleted. ValueError if a record cannot be decoded."""
        return _value(self, self.records)

    def was(self, value: StateValue | None) -> bool:
        """Whether it had this value before."""
        fewer = range(max(0, len(self.records) - _EARLIER), len(self.records))
        earlier = (_value(self, self.records[:count]) if count else None for count in fewer)
        return any(not differing(one, value) for one in earlier)


def states_of(log: CoordinatorLog) -> dict[tuple[StateKind, str], LoggedState]:
    """The states in a log, by kind and name."""
    names = {key: _name(log.topic, key) for key in {logged.key for logged in log.values} | log.pending}
    records: dict[tuple[StateKind, str, str], list[Logged]] = {}
    for logged in log.values:
        records.setdefault(names[logged.key], []).append(logged)
    pending = {names[key] for key in log.pending}
    return {
        (kind, name): LoggedState(kind, name, owner, log.topic, tuple(some), (kind, name, owner) in pending)
        for (kind, name, owner), some in records.items()
    }


class Commits(NamedTuple):
    """records: the decisions to commit in a log; a coordinator repeats a write of which it did not see the end.
    transactions: the number of transactions that they are about, at least."""

    records: int
    transactions: int


def commits_since(state: LoggedState, offset: int) -> Commits:
    """The commits of a transactional id that its coordinator decided from an offset on."""
    decided = []
    for logged in state.records:
        fields = logged.decoded(TRANSACTIONS) if logged.offset >= offset else None
        if fields and _transaction_state(fields) == _DECIDED:
            names = ("ProducerId", "ProducerEpoch", "TransactionStartTimestampMs")
            decided.append(tuple(fields[name] for name in names))
    return Commits(len(decided), len({*decided}))


def _name(topic: str, key: Key) -> tuple[StateKind, str, str]:
    """Kind, name and owner of the state that a key belongs to."""
    of = key.of
    if topic == TRANSACTIONS:
        owner = str(of["TransactionalId"])
        return "transaction", owner, owner
    owner, partition = str(of["Group"]), of.get("Partition")
    if not isinstance(partition, int):
        return "group", owner, owner
    if topic == SHARE_STATE:
        return "share_state", state_name(owner, str(of["TopicId"]), partition), owner
    return "offset", state_name(owner, str(of["Topic"]), partition), owner


def _value(state: LoggedState, records: Sequence[Logged]) -> StateValue | None:
    try:
        return _VALUES[state.kind](records)
    except (ValueError, KeyError, TypeError) as broken:
        raise ValueError(f"{state.kind} {state.name} in {state.topic}: {broken}") from None


def _offset(records: Sequence[Logged]) -> StateValue | None:
    fields = records[-1].decoded(OFFSETS)
    if fields is None:
        return None
    return {
        "offset": _number(fields["Offset"]),
        "leader_epoch": _number(fields.get("LeaderEpoch", _NO_EPOCH)),
        "metadata": str(fields["Metadata"]),
    }


def _transaction(records: Sequence[Logged]) -> StateValue | None:
    fields = records[-1].decoded(TRANSACTIONS)
    if fields is None:
        return None
    value: StateValue = {
        "state": _transaction_state(fields),
        "producer_id": _number(fields["ProducerId"]),
        "producer_epoch": _number(fields["ProducerEpoch"]),
        "timeout_ms": _number(fields["TransactionTimeoutMs"]),
    }
    if value["state"] != ONGOING:
        return value
    places = _places(fields["TransactionPartitions"], "Topic", "PartitionIds")
    return open_transaction(value, _number(fields["TransactionStartTimestampMs"]), places)


def open_transaction(value: StateValue, started_ms: int, places: Iterable[Place]) -> StateValue:
    """The value of a transaction that is open: from its end on, a coordinator forgets where markers have arrived."""
    return {**value, "started_ms": started_ms, "partitions": " ".join(f"{topic}/{p}" for topic, p in sorted(places))}


def _transaction_state(fields: Mapping[str, object]) -> str:
    number = _number(fields["TransactionStatus"])
    if not 0 <= number < len(TRANSACTION_STATES):
        raise ValueError(f"a transaction has the state {number}")
    return TRANSACTION_STATES[number]


def _group(records: Sequence[Logged]) -> StateValue | None:
    last = {logged.key: logged for logged in records}
    fields = {key: logged.decoded(OFFSETS) for key, logged in last.items()}
    by_number = {key.number: found for key, found in fields.items()}
    if consumer := by_number.get(_CONSUMER):
        target = by_number.get(_TARGET) or {}
        members = {str(key.of["MemberId"]): found for key, found in fields.items() if key.number == _MEMBER and found}
        return {
            "epoch": _number(consumer["Epoch"]),
            "assignment_epoch": _number(target.get("AssignmentEpoch", 0)),
            "members": members_text({name: _number(found["MemberEpoch"]) for name, found in members.items()}),
            "assigned": assigned_text(
                {name: _places(found["AssignedPartitions"], "TopicId", "Partitions") for name, found in members.items()}
            ),
        }
    if classic := by_number.get(_CLASSIC):
        joined = classic["Members"]
        assert isinstance(joined, tuple)
        return {"members": members_text({str(one["MemberId"]): None for one in joined if isinstance(one, Mapping)})}
    return None


def members_text(epochs: Mapping[str, int | None]) -> str:
    """Members with their epochs, which those of classic groups do not have, as one text."""
    return ", ".join(f"{name}" if epoch is None else f"{name} {epoch}" for name, epoch in sorted(epochs.items()))


def _places(topics: object, name: str, partitions: str) -> list[Place]:
    """Topics (or their ids) and partitions of a list of topics, with the names of these two fields."""
    assert isinstance(topics, tuple)
    return [(str(one[name]), _number(p)) for one in topics for p in one[partitions]]


def assigned_text(partitions: Mapping[str, Iterable[tuple[str, int]]]) -> str:
    """Members with the topic ids and partitions that they have, as one text; not those that have none."""
    places = {name: " ".join(f"{topic}/{p}" for topic, p in sorted(some)) for name, some in partitions.items()}
    return ", ".join(f"{name} {text}" for name, text in sorted(places.items()) if text)


def assigned_topics(group: StateValue) -> set[str]:
    """The ids of topics in the value of a group."""
    words = str(group.get("assigned", "")).replace(",", "").split(" ")
    return {word.rsplit("/", 1)[0] for word in words if "/" in word}


def _share_state(records: Sequence[Logged]) -> StateValue | None:
    start: int | None = None
    for logged in records:
        fields = logged.decoded(SHARE_STATE)
        if fields is None:
            start = None
        elif logged.key.number == _SNAPSHOT or start is None or _number(fields["StartOffset"]) >= 0:
            start = _number(fields["StartOffset"])
    return None if start is None else {"start": start}


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


_VALUES: Final = {"offset": _offset, "transaction": _transaction, "group": _group, "share_state": _share_state}
