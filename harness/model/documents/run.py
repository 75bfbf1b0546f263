"""run.json: what the run was, and what is promised."""

from __future__ import annotations

from typing import Annotated, Literal

from harness.model.documents.audit import AuditReport
from harness.model.documents.contract import Contract
from harness.model.documents.process_exit import ProcessExit
from harness.model.documents.record import Record, meaning
from harness.model.pending import Pending
from harness.model.verdict import Doubt

Span = tuple[int, int]


class Windows(Record, frozen=True, kw_only=True):
    """The times before, during and after the faults."""

    before: Annotated[Span | None, meaning("from and to, ns")] = None
    during: Annotated[tuple[Span, ...] | None, meaning("from and to of each, ns")] = None
    after: Annotated[Span | None, meaning("from and to, ns")] = None


class Floors(Record, frozen=True, kw_only=True):
    """With fewer acked records on a target partition the run proved nothing."""

    before: Annotated[int | None, meaning("records before the faults")] = None
    during: Annotated[int | None, meaning("records during the faults")] = None
    after: Annotated[int | None, meaning("records after the faults")] = None


class Settled(Record, frozen=True, kw_only=True):
    """The end of a wait."""

    ok: Annotated[bool | None, meaning("whether it ended in time")] = None
    waited_s: Annotated[int | float | None, meaning("how long it took")] = None
    last_seen: Annotated[str, meaning("for people")] = ""


class Recovered(Settled, frozen=True, kw_only=True):
    """The wait for the cluster to recover after healing, or before any fault if a partition got no first ack.

    A cluster that did not recover is a doubt without `pending` or with `nodes_down`; else it is the finding
    `not_recovered`, unless a client of the load ended early.
    """

    pending: Annotated[
        Pending | None,
        meaning(
            "the reason if it did not: `nodes_down` (a node was not running), `isr_not_full` or `no_acks` (all nodes "
            "were running)"
        ),
    ] = None


class OpenTransaction(Record, frozen=True, kw_only=True):
    """A transaction that its coordinator had not ended, although no client was there any more."""

    transactional_id: Annotated[str, meaning("its transactional id")]
    state: Annotated[str, meaning("Kafka's name of its state, such as `PrepareCommit`")]
    coordinator: Annotated[int, meaning("the broker that reported it")]


class TransactionsEnded(Settled, frozen=True, kw_only=True):
    """The wait, when all producers had stopped, for the coordinators to end every transaction.

    The last stable offset does not show this: the markers may all be written, and the coordinator waits for ever.
    """

    open: Annotated[
        tuple[OpenTransaction, ...],
        meaning("those that had not ended when the wait timed out: the finding `transaction_unfinished`"),
    ] = ()


class GroupLook(Record, frozen=True, kw_only=True):
    """A consumer group as its coordinator reported it last, beside what its members said themselves."""

    group: Annotated[str, meaning("the consumer group")]
    state: Annotated[str | None, meaning("Kafka's name of its state, such as `Stable`; null = no answer")]
    unassigned: Annotated[int, meaning("partitions of its topics that no member has")] = 0
    assigned_twice: Annotated[int, meaning("partitions that several members have")] = 0
    of_nobody: Annotated[int, meaning("partitions of members that do not run")] = 0
    unknown_members: Annotated[int, meaning("members that run, and that the coordinator does not know")] = 0
    differing: Annotated[int, meaning("partitions that a running member has, and says that it has not, or reverse")] = 0
    by_coordinator: Annotated[
        bool, meaning("the coordinator assigns the partitions itself (KIP-848), not one of the members")
    ] = False

    @property
    def at_rest(self) -> bool:
        """Whether coordinator and members agree on an assignment of every partition to one member."""
        return self.assigned and not (self.differing or self.unknown_members)

    @property
    def assigned(self) -> bool:
        """Whether the coordinator has assigned each partition to one member that runs."""
        return self.state == "Stable" and not (self.unassigned or self.assigned_twice or self.of_nobody)


class GroupsAtRest(Settled, frozen=True, kw_only=True):
    """The wait, after healing and under load, for every consumer group to be at rest once."""

    asked: Annotated[
        tuple[str, ...], meaning("the groups; not those of which a member had ended with an error, which is a doubt")
    ] = ()
    unsettled: Annotated[
        tuple[GroupLook, ...],
        meaning(
            "groups that never were: the finding `group_unsettled`, and a doubt if only members report another "
            "assignment or are unknown to it"
        ),
    ] = ()
    assigned_twice: Annotated[
        tuple[GroupLook, ...],
        meaning(
            "looks in which a coordinator that assigns the partitions itself had given one to several members: the "
            "finding `group_unsettled`, whether the group came to rest or not"
        ),
    ] = ()


class TierLag(Record, frozen=True, kw_only=True):
    """A partition whose leader did not copy closed segments to the remote tier while the run waited for it."""

    topic: Annotated[str, meaning("the topic")]
    topic_id: Annotated[str, meaning("its id")]
    partition: Annotated[int, meaning("the partition")]
    leader: Annotated[int, meaning("the broker that led it")]
    tiered_end: Annotated[int, meaning("the first offset that was neither in the tier nor deleted locally")]
    closed_end: Annotated[
        int, meaning("the end of the last closed segment below the last stable offset: what had to be copied")
    ]
    still_s: Annotated[int | float, meaning("how long this leader had copied nothing")]


class TierAtRest(Settled, frozen=True, kw_only=True):
    """The wait, after the load, for every replica to have copied and deleted the segments that it may."""

    behind: Annotated[
        tuple[TierLag, ...],
        meaning(
            "partitions with closed segments of which the leader copied none for most of it: the finding `tier_lag`"
        ),
    ] = ()


class CleanerLag(Record, frozen=True, kw_only=True):
    """A replica that was not compacted although its closed segments were due."""

    topic: Annotated[str, meaning("the topic")]
    topic_id: Annotated[str, meaning("its id")]
    partition: Annotated[int, meaning("the partition")]
    broker: Annotated[int, meaning("the broker that has the replica")]
    cleaned_end: Annotated[int, meaning("the first offset that its cleaner had not compacted")]
    closed_end: Annotated[int, meaning("the end of its last closed segment: what had to be compacted")]
    still_s: Annotated[int | float, meaning("how long its cleaner had compacted nothing of it")]


class CleanersAtRest(Settled, frozen=True, kw_only=True):
    """The wait, after the load, for every replica to have compacted the closed segments that are due."""

    behind: Annotated[
        tuple[CleanerLag, ...],
        meaning("replicas of which nothing was compacted for most of it: the finding `cleaner_lag`"),
    ] = ()


class Listener(Record, frozen=True, kw_only=True):
    """How one listener of a broker answered."""

    broker: Annotated[int, meaning("the broker; each has at least one listener")]
    address: Annotated[str, meaning("host and port")]
    tls: Annotated[str | None, meaning("version of TLS; null = it does not use TLS")]
    cipher: Annotated[str, meaning("the cipher, or why there is none")]
    plaintext: Annotated[str, meaning("its answer to a request without TLS: `refused`, `answered` or `unanswered`")]
    wrong_password: Annotated[str, meaning("its answer to a wrong password, as `plaintext`")]
    said: Annotated[tuple[str, ...] | None, meaning("these answers in words; not judged")] = None


class Secured(Record, frozen=True, kw_only=True):
    """Proof that all records used TLS."""

    protocol: Annotated[str, meaning("of clients; not judged")]
    between_brokers: Annotated[
        str,
        meaning(
            "`SSL`; `broker_configs` of the last snapshot must say it for `inter.broker.listener.name` of every broker"
        ),
    ]
    listeners: Annotated[tuple[Listener, ...], meaning("the listeners that were asked")]
    clients: Annotated[
        dict[str, dict[str, int]],
        meaning(
            "by client, bytes by protocol (`sasl_ssl`). The clients are `producer NAME`, `reader NAME`, `producer "
            "sentinel` and the readers of reads.json; any other protocol of any client is a doubt"
        ),
    ]
    mechanism: Annotated[str | None, meaning("of SASL; not judged")] = None


class Run(Record, frozen=True, kw_only=True):
    """The whole document."""

    finished: Annotated[
        bool,
        meaning(
            "false = the run died half way: then only findings of presence count, and nothing is concluded from absence"
        ),
    ]
    contract: Annotated[Contract, meaning("what the configuration promises")]
    format_version: Annotated[int | None, meaning("the version of this format; may be left out by hand")] = None
    negative_control: Annotated[
        str | None, meaning("the setting that was changed so that the run must FAIL; null in any other run")
    ] = None
    started_ns: Annotated[int | None, meaning("when it began")] = None
    ended_ns: Annotated[int | None, meaning("when it ended")] = None
    windows: Annotated[Windows | None, meaning("the times before, during and after the faults")] = None
    floors: Annotated[
        Floors | None, meaning("with fewer acked records on a target partition the run proved nothing")
    ] = None
    targets: Annotated[
        tuple[tuple[str, int], ...] | None, meaning("topic and partition of each to which the floors apply")
    ] = None
    doubts: Annotated[tuple[Doubt, ...] | None, meaning("doubts that arose during the run")] = None
    notes: Annotated[tuple[str, ...] | None, meaning("for people")] = None
    capabilities: Annotated[tuple[str, ...] | None, meaning("of the backend")] = None
    groups_resume: Annotated[
        bool | None,
        meaning(
            "true: each member of a group continues where the group had committed, so all sessions of all members "
            "together leave nothing out. `readers` in scenario.json lists the members. False or absent: a new session "
            "may be a seek forward"
        ),
    ] = None
    begin_at_start: Annotated[
        bool | None,
        meaning(
            "true: a reader without a group, and a group that has committed nothing, begin at the start of each log, "
            "and go back there when their position is no longer in it. False or absent: they may begin anywhere"
        ),
    ] = None
    calls_recorded: Annotated[
        bool | None, meaning("true: every failed call of a transactional client is in `failed_calls`")
    ] = None
    has_history: Annotated[bool | None, meaning("true: the run wrote history.json, and is in doubt without it")] = None
    recorded: Annotated[
        tuple[str, ...] | None,
        meaning(
            "the parts that the run wrote, each of which the bundle must have: tables with rows, `positions/broker-1` "
            "for the samples of a broker, columns as `observations.given_ns`, `history.json`, and keys that are "
            "neither null nor empty, as `run.json: exits`. Absent: parts that are missing were never there"
        ),
    ] = None
    timestamps: Annotated[
        Literal["send"] | None,
        meaning(
            "`send`: producers leave timestamps to the client, and all clocks are one, so a record's timestamp lies "
            "between call and answer. Null or absent: timestamps are not judged"
        ),
    ] = None
    recovered: Annotated[Recovered | None, meaning("after healing the cluster recovered")] = None
    transactions_settled: Annotated[Settled | None, meaning("the last stable offset reached the high watermark")] = None
    transactions_ended: Annotated[
        TransactionsEnded | None, meaning("the coordinators ended every transaction; absent = they were not asked")
    ] = None
    groups_at_rest: Annotated[
        GroupsAtRest | None, meaning("every consumer group came to rest; absent = no coordinator was asked")
    ] = None
    readers_waited: Annotated[
        Settled | None,
        meaning(
            "the live readers had read what was acknowledged before they were stopped, but for transactions and topics "
            "that may lose records; absent = they were not waited for"
        ),
    ] = None
    cleaners_at_rest: Annotated[
        CleanersAtRest | None,
        meaning(
            "compaction came to rest after the load; absent = nobody waited for it, as without a topic that has "
            "`compact` in its cleanup.policy"
        ),
    ] = None
    tier_at_rest: Annotated[
        TierAtRest | None, meaning("the remote tier came to rest after the load; absent = nobody waited for it")
    ] = None
    secured: Annotated[
        Secured | None,
        meaning("proof that all records used TLS; needed if `shape` in scenario.json has `secure` (true)"),
    ] = None
    exits: Annotated[
        tuple[ProcessExit, ...] | None,
        meaning(
            "processes that ended by themselves, in the order of time. A node's end is the finding `crashed`, unless a "
            "fact `stopped` with `how` = `crashed` has its id and its time. Null or absent: not known"
        ),
    ] = None
    audit: Annotated[
        AuditReport | None,
        meaning("what an auditor saw that watched the cluster meanwhile; absent = none did. No verdict rests on it"),
    ] = None
    load: Annotated[
        object, meaning("figures of the load; in bundles by this harness those that the tables must have")
    ] = None
    run: Annotated[int | None, meaning("the number in the payloads of its records; not judged")] = None

    @property
    def lasted_s(self) -> float | None:
        """From the begin of the run to its end; None where one of them is not known."""
        if self.started_ns is None or self.ended_ns is None:
            return None
        return (self.ended_ns - self.started_ns) / 1e9
