"""Logs of few records, and the history that they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.history.changes import (
    HIDDEN,
    BrokerChange,
    BrokerEvent,
    ConfigChange,
    ControllerChange,
    ControllerEvent,
    FeatureChange,
    OtherChange,
    PartitionChange,
    ProblemKind,
    ResourceKind,
    TopicChange,
    TopicEvent,
)
from harness.model.history.elections import ElectedFrom
from harness.model.history.fold import fold, voters_of
from harness.model.history.history import History
from harness.model.history.log import NodeLog, Record, TornEnd, Unreadable
from harness.model.history.replay import UNASSIGNED
from suites.unit.model.history.logs import (
    TOPIC,
    TOPIC_ID,
    batch,
    batches,
    broker,
    change,
    config,
    node,
    noop,
    partition,
    record,
    registration,
    removed,
    snapshot,
    time_ns,
    topic,
)

BEGIN, END, ABORT = (record(f"{kind}Transaction") for kind in ("Begin", "End", "Abort"))


def told(*records: Record) -> History:
    """The history of a cluster with one controller."""
    return fold([node(1, batches(*records))], [1])


def last(*records: Record) -> PartitionChange:
    return told(topic(), *records).partition(TOPIC_ID, 0)[-1]


def elected(*records: Record) -> list[tuple[int, ElectedFrom]]:
    return [(e.after.leader, e.elected_from) for e in told(topic(), *records).elections()]


def kinds(history: History) -> list[ProblemKind]:
    return [problem.kind for problem in history.problems]


def test_a_partition_begins_as_its_record_says() -> None:
    (state,) = told(topic(), partition(isr=(1, 2), EligibleLeaderReplicas=(3,))).partition(TOPIC_ID, 0)
    assert (state.time_ns, state.offset, state.controller_epoch) == (time_ns(1), 1, 1)
    assert (state.topic, state.leader, state.leader_epoch, state.partition_epoch) == (TOPIC, 1, 0, 0)
    assert (state.isr, state.elr, state.replicas, state.created) == ((1, 2), (3,), (1, 2, 3), True)
    assert (state.recovering, state.from_snapshot) == (False, False)


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    state = last(partition(), change(Isr=(1, 2)))
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 0, 1)
    assert not state.created


def test_a_change_that_names_the_same_leader_raises_its_epoch_and_is_no_election() -> None:
    records = (partition(), change(Leader=1))
    assert (last(*records).leader, last(*records).leader_epoch) == (1, 1)
    assert elected(*records) == []


def test_a_reassignment_gives_new_replicas_no_directory_yet() -> None:
    state = last(partition(), change(Replicas=(1, 2, 3, 4), AddingReplicas=(4,), RemovingReplicas=(3,)))
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 3, 4), (4,), (3,))
    assert state.directories == ("d1", "d2", "d3", UNASSIGNED)


def test_elections_from_the_isr_and_from_the_elr_are_clean() -> None:
    gone = change(Isr=(), Leader=-1, EligibleLeaderReplicas=(2,))
    back = change(Isr=(2,), Leader=2, EligibleLeaderReplicas=())
    assert elected(partition(), change(Isr=(2, 3), Leader=2)) == [(2, ElectedFrom.ISR)]
    assert elected(partition(), gone, back) == [(2, ElectedFrom.ELR)]


def test_an_election_from_outside_is_unclean() -> None:
    records = (partition(isr=(1,)), change(Leader=-1), change(Isr=(2,), Leader=2, LeaderRecoveryState=1))
    assert elected(*records) == [(2, ElectedFrom.UNCLEAN)]
    assert last(*records).recovering
    assert not last(*records, change(LeaderRecoveryState=0)).recovering


def test_a_replica_that_joins_the_isr_by_the_end_of_its_reassignment_may_lead_at_once() -> None:
    moving = change(Replicas=(1, 2), AddingReplicas=(2,), RemovingReplicas=(1,))
    moved = change(Replicas=(2,), Isr=(2,), Leader=2, AddingReplicas=(), RemovingReplicas=())
    assert elected(partition(isr=(1,)), moving, moved) == [(2, ElectedFrom.ISR)]
    assert elected(partition(isr=(1,)), moving, change(Isr=(2,), Leader=2)) == [(2, ElectedFrom.UNCLEAN)]


def test_the_last_known_leader_may_be_elected_only_if_isr_and_elr_are_empty() -> None:
    empty = change(Isr=(), Leader=-1, LastKnownElr=(1,))
    kept = change(Isr=(), Leader=-1, EligibleLeaderReplicas=(2,), LastKnownElr=(1,))
    back = change(Isr=(1,), Leader=1)
    assert elected(partition(), empty, back) == [(1, ElectedFrom.LAST_KNOWN)]
    assert elected(partition(), kept, back) == [(1, ElectedFrom.UNCLEAN)]


@pytest.mark.parametrize(("name", "cleared"), [("", True), (TOPIC, True), ("other", False)])
def test_a_cleared_elr_is_a_change_of_the_partitions_that_had_one(name: str, cleared: bool) -> None:
    records = topic(), partition(EligibleLeaderReplicas=(3,)), partition(number=1), record("ClearElr", TopicName=name)
    history = told(*records)
    state = history.partition(TOPIC_ID, 0)[-1]
    assert (state.elr, state.partition_epoch) == (((), 1) if cleared else ((3,), 0))
    assert len(history.partition(TOPIC_ID, 1)) == 1


def test_a_deleted_topic_loses_its_settings_and_its_partitions() -> None:
    other = config("retention.ms", "1", name="other")
    history = told(topic(), config("retention.ms", "7"), other, partition(), removed())
    assert [c.event for c in history.of(TopicChange)] == [TopicEvent.CREATED, TopicEvent.DELETED]
    assert [(c.name, c.value) for c in history.of(ConfigChange)] == [(TOPIC, "7"), ("other", "1"), (TOPIC, None)]
    assert history.partition_at(TOPIC_ID, 0, time_ns(9)) is None


@pytest.mark.parametrize("key", ["ssl.keystore.password", "sasl.jaas.config", "ssl.keystore.key"])
def test_secrets_are_hidden(key: str) -> None:
    history = fold([node(1, batches(config(key, "x"))), node(2, batches(*[config(key, "y")] * 2, epoch=2))], [1])
    assert [c.value for c in history.of(ConfigChange)] == [HIDDEN]
    assert [row.fields["Value"] for row in history.written] == [HIDDEN, HIDDEN]


def test_other_settings_are_shown_with_their_kind() -> None:
    history = told(config("retention.ms", "7"), config("x", None, name="", kind=4), config("y", "1", "g", kind=32))
    assert [(c.kind, c.name, c.value) for c in history.of(ConfigChange)] == [
        (ResourceKind.TOPIC, TOPIC, "7"),
        (ResourceKind.BROKER, "", None),
        (ResourceKind.GROUP, "g", "1"),
    ]


def test_a_broker_registers_is_unfenced_shuts_down_and_is_fenced() -> None:
    history = told(
        broker(1, 10),
        registration(1, 10, Fenced=-1),
        registration(1, 10, LogDirs=("d1", "d2"), CordonedLogDirs=("d2",)),
        registration(1, 10, InControlledShutdown=1),
        registration(1, 10, Fenced=1),
        record("UnregisterBroker", BrokerId=1, BrokerEpoch=10),
    )
    rows = [(c.event, c.fenced, c.shutting_down, c.directories, c.cordoned) for c in history.of(BrokerChange)]
    assert rows == [
        (BrokerEvent.REGISTERED, True, False, ("d1",), ()),
        (BrokerEvent.UNFENCED, False, False, ("d1",), ()),
        (BrokerEvent.DIRECTORIES, False, False, ("d1", "d2"), ("d2",)),
        (BrokerEvent.SHUTTING_DOWN, False, True, ("d1", "d2"), ("d2",)),
        (BrokerEvent.FENCED, True, True, ("d1", "d2"), ("d2",)),
        (BrokerEvent.UNREGISTERED, True, True, ("d1", "d2"), ("d2",)),
    ]
    assert history.broker_at(1, time_ns(5)) is None


def test_old_records_fence_and_unfence_too() -> None:
    old = told(broker(1, 10), record("UnfenceBroker", Id=1, Epoch=10), record("FenceBroker", Id=1, Epoch=10))
    assert [c.fenced for c in old.of(BrokerChange)] == [True, False, True]


def test_leaders_of_the_quorum_are_in_the_history() -> None:
    voters: tuple[dict[str, int], ...] = ({"VoterId": 1}, {"VoterId": 2})
    logs = [node(1, batches(record("LeaderChangeMessage", LeaderId=2, Voters=voters)))]
    assert voters_of(logs) == {1, 2}
    (leads,) = fold(logs, [1]).of(ControllerChange)
    assert (leads.event, leads.controller, leads.voters) == (ControllerEvent.LEADS, 2, (1, 2))


def test_the_voters_of_a_snapshot_are_those_at_its_end() -> None:
    """Voter 3 was removed at offset 15; only the snapshot at offset 20 still says so."""
    leads = record("LeaderChangeMessage", LeaderId=1, Voters=({"VoterId": 1}, {"VoterId": 3}))
    removal = record("Voters", Voters=({"VoterId": 1},))
    assert voters_of([node(1, (), snapshot(20, removal)), node(2, batches(leads, first=10))]) == {1}
    assert voters_of([node(1, (), snapshot(5, removal)), node(2, batches(leads, first=10))]) == {1, 3}


def test_without_voters_there_is_no_history() -> None:
    with pytest.raises(ValueError, match="no log names the voters"):
        fold([node(1, batches(noop()))])


def test_records_of_an_aborted_transaction_are_dropped() -> None:
    history = told(BEGIN, topic(), ABORT, noop())
    assert history.topics == ()
    assert [(row.offset, row.kind, row.aborted) for row in history.dropped] == [
        (0, "BeginTransactionRecord", True),
        (1, "TopicRecord", True),
        (2, "AbortTransactionRecord", True),
    ]


def test_records_of_a_transaction_that_ended_count() -> None:
    history = told(BEGIN, topic(), END, config("retention.ms", "7"))
    assert [life.topic for life in history.topics] == [TOPIC]
    assert history.dropped == ()


def test_records_of_a_transaction_without_an_end_are_dropped() -> None:
    history = told(topic("before", "b"), BEGIN, topic())
    assert [life.topic for life in history.topics] == ["before"]
    assert [(row.offset, row.aborted) for row in history.dropped] == [(1, False), (2, False)]


def test_a_new_leader_of_the_quorum_is_no_record_of_an_open_transaction() -> None:
    leads = record("LeaderChangeMessage", LeaderId=2, Voters=())
    assert len(told(BEGIN, topic(), leads, ABORT).of(ControllerChange)) == 1


def test_a_record_that_cannot_be_decoded_is_a_row() -> None:
    strange = Unreadable(1, 1, 1010, frame=1, key=99, version=0, why="no message has the number 99")
    log = node(1, (*batches(topic()), batch(1, 1, strange), *batches(partition(), first=2)))
    (unknown,) = fold([log], [1]).unknown
    assert (unknown.offset, unknown.time_ns, unknown.key, unknown.version) == (1, time_ns(1), 99, 0)


def test_a_kind_without_a_rule_is_unknown_and_a_known_one_without_use_is_not() -> None:
    history = told(record("Diskless"), record("ProducerIds"), noop())
    assert [row.why for row in history.unknown] == ["the history has no rule for DisklessRecord"]
    assert [row.kind for row in history.of(OtherChange)] == ["ProducerIdsRecord"]


@pytest.mark.parametrize(
    "wrong",
    [
        change(),
        partition(),
        removed(),
        registration(1, 10),
        record("Topic", Name="x", TopicId=5),
        record("Topic", Name="x"),
    ],
)
def test_a_record_that_does_not_fit_is_a_problem(wrong: Record) -> None:
    history = told(noop(), wrong)
    assert [(p.kind, p.offset) for p in history.problems] == [(ProblemKind.IMPOSSIBLE, 1)]


def test_a_minority_tail_is_written_and_not_committed() -> None:
    base = batches(topic(), partition())
    deposed = node(1, base + batches(change(Leader=3), first=2))
    others = [node(number, base + batches(change(Leader=2), first=2, epoch=2)) for number in (2, 3)]
    history = fold([deposed, *others], [1, 2, 3])
    assert history.leader_of(TOPIC_ID, 0, 1) == 2
    (row,) = history.written
    assert (row.node, row.offset, row.epoch, row.kind) == (1, 2, 1, "PartitionChangeRecord")
    assert row.fields["Leader"] == 3


def test_the_same_tail_on_a_majority_is_committed() -> None:
    base = batches(topic(), partition(), change(Leader=3))
    history = fold([node(1, base), node(2, base), node(3, base[:2])], [1, 2, 3])
    assert history.leader_of(TOPIC_ID, 0, 1) == 3
    assert history.written == ()


def test_a_history_may_begin_with_a_snapshot() -> None:
    start = snapshot(20, topic(), partition(isr=(1, 2), LeaderEpoch=4, PartitionEpoch=9), config("retention.ms", "7"))
    history = fold([node(1, batches(change(Leader=2), first=20), start)], [1])
    before, after = history.partition(TOPIC_ID, 0)
    assert history.start == 20
    assert (before.from_snapshot, before.offset, before.time_ns, before.created) == (True, 19, time_ns(19), False)
    assert (after.from_snapshot, after.offset, after.leader_epoch, after.partition_epoch) == (False, 20, 5, 10)
    assert [e.elected_from for e in history.elections()] == [ElectedFrom.ISR]
    assert history.problems == ()


def test_a_log_from_offset_0_needs_no_snapshot() -> None:
    records = batches(topic(), partition(), noop())
    history = fold([node(1, records, snapshot(2, topic(), partition()))], [1])
    assert history.start == 0
    assert [c.from_snapshot for c in history.changes] == [False, False]


def test_the_log_of_one_node_fills_the_beginning_that_others_lack() -> None:
    records = batches(topic(), partition(), change(Isr=(1,)), noop())
    logs = [node(1, records[2:], snapshot(2, topic(), partition())), node(101, records[:3])]
    history = fold(logs, [1])
    assert (history.start, history.end) == (0, 4)
    assert [c.from_snapshot for c in history.changes] == [False] * 3


def test_behind_a_gap_the_state_is_that_of_a_snapshot() -> None:
    later = node(2, batches(noop(), first=10), snapshot(10, topic("new", "n")))
    history = fold([node(1, batches(topic(), config("retention.ms", "7")), snapshot(2)), later], [2])
    assert (history.start, kinds(history)) == (10, [ProblemKind.MISSING_RECORDS])
    assert [(life.topic, life.deleted is not None) for life in history.topics] == [(TOPIC, True), ("new", False)]
    assert history.config_at(ResourceKind.TOPIC, TOPIC, time_ns(99)) == {}


def test_records_before_a_gap_that_nothing_proves_are_not_committed() -> None:
    later = node(2, batches(noop(), first=10), snapshot(10))
    history = fold([node(1, batches(topic())), later], [2])
    assert (kinds(history), history.topics, [row.node for row in history.written]) == ([], (), [1])


def test_a_leader_epoch_that_only_a_snapshot_shows_has_an_unknown_election() -> None:
    older, newer = partition(), partition(leader=3, LeaderEpoch=5)
    logs = [node(1, batches(topic(), older), snapshot(2)), node(2, (), snapshot(10, topic(), newer))]
    (election,) = fold(logs, [1, 2]).elections()
    assert (election.after.leader, election.before, election.elected_from) == (3, None, ElectedFrom.UNKNOWN)


def test_records_that_are_missing_without_a_snapshot_are_a_problem() -> None:
    assert kinds(fold([node(1, batches(noop(), first=5))], [1])) == [ProblemKind.MISSING_RECORDS]


def test_the_snapshot_of_offset_0_gives_no_feature_levels() -> None:
    level = record("FeatureLevel", Name="metadata.version", FeatureLevel=30)
    quorum = record("KRaftVersion", KRaftVersion=1)
    history = fold([node(1, batches(level), snapshot(0, replace(quorum), level))], [1])
    assert [(c.feature, c.level, c.from_snapshot) for c in history.of(FeatureChange)] == [
        ("kraft.version", 1, True),
        ("metadata.version", 30, False),
    ]


def test_problems_of_files_and_voters_are_in_the_history() -> None:
    torn = NodeLog(1, batches(noop()), (snapshot(1, problem="it has no footer"),), TornEnd("0.log", 70, 9, "zeros"))
    history = fold([torn], [1, 2], 5)
    assert kinds(history) == [
        ProblemKind.TORN_END,
        ProblemKind.BAD_SNAPSHOT,
        ProblemKind.MISSING_VOTER,
        ProblemKind.MISSING_END,
    ]


def test_whole_logs_have_no_problems() -> None:
    kept = batches(noop(), noop())
    assert fold([node(1, kept), node(2, kept)], [1, 2], 2).problems == ()


def test_a_conflict_of_two_nodes_is_a_problem() -> None:
    kept = batches(noop(), noop())
    other = (batch(0, 1, noop(), digest=9), kept[1])
    assert kinds(fold([node(1, kept), node(2, kept), node(3, other)], [1, 2, 3])) == [ProblemKind.CONFLICT]
