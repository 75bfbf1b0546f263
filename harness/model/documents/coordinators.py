"""The states of coordinators at the end of a run, as they answered them and as their logs have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from harness.model.documents.record import OfPlace, Record, meaning

StateKind = Literal["offset", "transaction", "group", "share_state"]
StateValue = Mapping[str, int | str]


def differing(logged: StateValue | None, answered: StateValue | None) -> list[str]:
    """The names of the fields that both have with different values; "exists" if only one of them is there."""
    if logged is None or answered is None:
        return [] if logged is answered else ["exists"]
    return sorted(name for name in logged.keys() & answered.keys() if logged[name] != answered[name])


def state_name(group: str, topic: str, partition: int) -> str:
    """The name of a committed offset, or with a topic id that of the progress of a share group."""
    return f"{group} {topic}/{partition}"


class CopyOfState(Record, frozen=True, kw_only=True):
    """The state by the log of another in-sync replica."""

    broker: Annotated[int, meaning("the broker that has the replica")]
    logged: Annotated[StateValue | None, meaning("as in the leader's log; null = it has none")]


class CoordinatorState(OfPlace, frozen=True, kw_only=True):
    """One state of a coordinator. `topic` and `partition` are those of its log."""

    kind: Annotated[
        StateKind,
        meaning(
            "`offset`: a committed offset of a group; `transaction`: of a transactional id; `group`: of a consumer "
            "group; `share_state`: the progress of a share group in a partition"
        ),
    ]
    name: Annotated[str, meaning("the group or transactional id; behind a blank the partition that it is about")]
    coordinator: Annotated[int, meaning("the broker that led the log and answered")]
    leader_epoch: Annotated[int, meaning("its leader epoch")]
    offset: Annotated[int | None, meaning("the last record about it in the log; null = the log has none")]
    written_epoch: Annotated[int | None, meaning("the leader epoch of that record; null = the log has none")]
    logged: Annotated[StateValue | None, meaning("the state in the leader's log; null = deleted, or never written")]
    answered: Annotated[
        StateValue | None, meaning("the state that the coordinator answered; null = it does not know it")
    ]
    steady: Annotated[
        bool,
        meaning(
            "the last record was below the high watermark before the question, is the last one after the answer, and "
            "no open transaction can change the state; false = nothing is judged"
        ),
    ]
    was: Annotated[
        bool, meaning("the answer was right before the last record: a write that failed may have left it so")
    ] = False
    copies: Annotated[tuple[CopyOfState, ...], meaning("the state in the logs of other in-sync replicas")] = ()
    commits: Annotated[
        int | None, meaning("how many transactions of a transactional id its log committed during the run, at least")
    ] = None
    commit_records: Annotated[
        int | None,
        meaning("the number of records that decide so; null = another kind, or the log may have been compacted"),
    ] = None


class Elsewhere(OfPlace, frozen=True, kw_only=True):
    """A group or transactional id that a broker lists as its own, while another one led the log of its state.

    `topic` and `partition` are those of that log.
    """

    kind: Annotated[Literal["group", "transaction"], meaning("as in the states")]
    name: Annotated[str, meaning("the group or transactional id")]
    broker: Annotated[int, meaning("the broker that lists it")]
    coordinator: Annotated[int, meaning("the leader of the log, before and after the answer")]
    leader_epoch: Annotated[int, meaning("its leader epoch")]


class CoordinatorLook(Record, frozen=True, kw_only=True):
    """The last look at all coordinators of the run, repeated while answers and logs differed, up to a deadline."""

    asked_ns: Annotated[int, meaning("before the first question")]
    at_ns: Annotated[int, meaning("after the last answer")]
    states: Annotated[tuple[CoordinatorState, ...], meaning("all states of the run's groups and transactional ids")]
    elsewhere: Annotated[
        tuple[Elsewhere, ...],
        meaning("names listed by brokers that do not coordinate them; empty also if none was asked"),
    ] = ()
    unknown: Annotated[
        tuple[str, ...], meaning("a sentence for each state that was not answered or could not be decoded: a doubt")
    ] = ()
