"""Tests of `durability contract --bootstrap`: the answer about the topics of a cluster. No broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from harness.commands.contract_live import avoidable, live_as_plain, live_explained, worst_first
from harness.kafka.admin.live_topics import LiveCluster, LiveTopic
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.internal_topics import OWN, SHARE_STATE, TRANSACTIONS

GOOD = TopicSettings(replicas=3, min_isr=2, elr=True)
CLIENT = ClientSettings()


def topic(name: str, isr: int = 3, known: bool = True, leaderless: Sequence[int] = (), **settings: Any) -> LiveTopic:
    return LiveTopic(
        name=name,
        internal=name in OWN,
        settings=replace(GOOD, **settings),
        isr={0: isr, 1: 3},
        elr_known=known,
        leaderless=leaderless,
    )


def explained(topics: Sequence[LiveTopic], client: ClientSettings = CLIENT, **cluster: Any) -> list[str]:
    return live_explained("h:1", LiveCluster(topics=topics, **cluster), client)


def test_the_worst_topic_comes_first_and_safe_ones_are_named_at_the_end() -> None:
    topics = [
        topic("fine"),
        topic("strict", min_isr=3),
        topic("__consumer_offsets", min_isr=1),
        topic("lone", replicas=1, min_isr=1),
        topic("unclean", min_isr=1, unclean=True),
    ]
    names = [one.name for one in worst_first(topics, CLIENT)]
    assert names == ["lone", "unclean", "__consumer_offsets", "strict", "fine"]
    lines = explained(topics)
    assert lines[:3] == [
        "5 topics of h:1; assumed: a producer with acks=all, idempotent",
        "and a consumer that commits after it processes, read_committed, auto.offset.reset=latest, "
        "its group is empty at times",
        "__consumer_offsets: written by brokers with acks=all",
    ]
    assert "as safe as three replicas with two in sync required: fine" in lines
    at = lines.index("strict: 3 replicas, min.insync.replicas=3, clean elections only, ELR on")
    assert lines[at + 1 : at + 5] == [
        "  unavailable when one replica is down",
        "    writes with acks=all until the replica is back and has caught up; reads continue",
        "    because: fewer replicas are in sync than min.insync.replicas=3 (Kafka documentation, "
        "min.insync.replicas; KAFKA-15583)",
        "    how to fix: min.insync.replicas=2",
    ]
    assert lines[-3] == "possible even with three replicas and two in sync required:"


def test_groups_may_go_back_to_earlier_commits_with_unclean_elections() -> None:
    lines = explained([topic("__consumer_offsets", unclean=True, keeps_offsets=True)])
    event = "the leader of a group's partition of __consumer_offsets dies while it is alone in sync, and others are up"
    at = lines.index(f"  duplicated when {event}")
    assert lines[at + 3] == "    how to fix: unclean.leader.election.enable=false"
    lines = explained([topic("__consumer_offsets", keeps_offsets=True)])
    assert "as safe as three replicas with two in sync required: __consumer_offsets" in lines


def test_partitions_below_min_insync_replicas_are_named_even_for_a_safe_topic() -> None:
    lines = explained([topic("fine", isr=1), topic("other")])
    assert lines[3:5] == [
        "fine: 3 replicas, min.insync.replicas=2, clean elections only, ELR on",
        "  now: partitions 0 have fewer replicas in sync than required",
    ]
    assert topic("fine", isr=2).short == []
    assert topic("lone", isr=1, replicas=1, min_isr=2).short == []  # one of one is enough


def test_an_unknown_elr_is_named_as_assumed() -> None:
    said = "the brokers do not report whether eligible leader replicas (KIP-966) are on; assumed: off"
    assert said in explained([topic("fine", known=False, elr=False)])
    assert said not in explained([topic("fine")])


def tail(*topics: LiveTopic, client: ClientSettings = CLIENT) -> list[str]:
    lines = explained(topics, client)
    return lines[lines.index("possible even with three replicas and two in sync required:") + 1 :]


def test_unavoidable_losses_name_their_topics_and_the_fix() -> None:
    power = "  lost when all machines lose power at once"
    which = "acknowledged records that the operating system had not written to a disk"
    flushed, plain = topic("a_flushed", flush_messages=1), topic("plain")
    fix = "    how to fix: replicas on power supplies of their own, flush.messages=1"
    assert tail(flushed, plain)[:2] == [f"{power}, of plain: {which}", fix]
    assert tail(plain, topic("other"))[:2] == [f"{power}: {which}", fix]
    assert not [line for line in explained([flushed]) if line.startswith(power)]


def test_without_elr_the_fix_is_to_turn_it_on() -> None:
    def reported(**settings: Any) -> list[str]:
        lines = tail(topic("plain", **settings))
        return [after for line, after in pairwise(lines) if "returns without" in line]

    assert reported(elr=False) == ["    how to fix: eligible.leader.replicas.version=1 (from 4.0)"]
    assert reported() == []


def test_producer_settings_do_not_apply_to_internal_topics() -> None:
    one = ClientSettings(acks="1", idempotent=False)
    topics = [topic("plain"), topic("__consumer_offsets", keeps_offsets=True), topic("__mine")]
    lines = tail(*topics, client=one)
    at = next(n for n, line in enumerate(lines) if line.startswith("  lost when the leader's process dies"))
    assert ", of plain, __mine: acknowledged records at or above" in lines[at]
    assert lines[at + 1] == "    how to fix: acks=all"
    for of, expected in ((topics[1], ["kept"]), (topics[2], ["lost"])):
        rows: Any = live_as_plain(of, one)["promises"]
        promised = {row["event"]["name"]: list(row["effects"]) for row in rows}
        assert promised["leader_dies"] == expected


@pytest.mark.parametrize("name", OWN)
def test_the_answer_names_the_state_that_internal_topics_hold(name: str) -> None:
    said = [line for line in explained([topic(name)]) if line.startswith(f"  if {name} is lost, so are the ")]
    assert len(said) == 1
    lines = explained([topic(name, replicas=1, min_isr=1)])
    assert [line for line in lines if line.startswith("  if it is lost, ")] == [said[0].replace(name, "it", 1)]
    assert not [line for line in explained([topic("__mine")]) if " is lost, so are " in line]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("settings", "events"),
    [
        ({"retention_ms": 1}, ["grows_old"]),
        ({"retention_ms": 24 * HOUR_MS - 1}, ["grows_old"]),
        ({"retention_ms": 24 * HOUR_MS}, []),
        ({"retention_ms": -1}, []),
        ({"retention_ms": 1, "deletes": False, "compacted": True}, []),
        ({"retention_ms": 1, "compacted": True}, ["grows_old"]),
    ],
)
def test_retention_shorter_than_a_day_is_avoidable(settings: dict[str, Any], events: list[str]) -> None:
    one = topic("soon", **settings)
    assert [promise.event.name for promise in avoidable(one, CLIENT)] == events
    lines = explained([one])
    assert ("    how to fix: retention.ms=86400000 (24 h) or more" in lines) == bool(events)
    assert ("as safe as three replicas with two in sync required: soon" in lines) == (not events)


def test_deleted_records_that_return_are_avoidable() -> None:
    assert "deleted_and_killed" in [p.event.name for p in avoidable(topic("lone", replicas=1, min_isr=1), CLIENT)]
    assert "deleted_and_killed" not in [p.event.name for p in avoidable(topic("fine"), CLIENT)]


def test_topics_with_retention_by_size_are_named() -> None:
    topics = [topic("big", retention_bytes=10**9), topic("kept", retention_bytes=1, deletes=False, compacted=True)]
    lines = explained([*topics, topic("plain")])
    assert lines[-2:] == [
        "records beyond retention.bytes are deleted at any age, read or not: big",
        "  how to fix: retention.bytes=-1, or more than arrives in 24 h",
    ]


def test_an_empty_cluster_gives_two_lines() -> None:
    first, second = explained([])
    assert first == "0 topics of h:1; assumed: a producer with acks=all, idempotent"
    assert second.startswith("and a consumer that ")


SAFE = "as safe as three replicas with two in sync required: "
ALONE = (
    "; if two must be in sync, another replica has every record acknowledged with acks=all and can be elected by hand"
)


def events(one: LiveTopic, client: ClientSettings = CLIENT) -> list[str]:
    return [promise.event.name for promise in avoidable(one, client)]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("replicas", [3, 5])
def test_without_elr_one_in_sync_is_not_as_safe_as_two(replicas: int, known: bool) -> None:
    one = topic("one", replicas=replicas, min_isr=1, elr=False, known=known)
    assert events(one) == ["returns_short", "disk_of_last_in_sync", "last_in_sync_dies"]
    two = topic("two", replicas=replicas, elr=False, known=known)
    assert events(two) == []
    lines = explained([two, one])
    assert f"{SAFE}two" in lines
    at = lines.index("  lost when the last in-sync replica returns without the records that it had not flushed")
    assert lines[at + 1 : at + 4] == [
        "    acknowledged records above its flushed log end",
        f"    because: no other replica may have had them when it acknowledged them{ALONE} (KIP-966, last replica "
        "standing)",
        "    how to fix: min.insync.replicas=2, eligible.leader.replicas.version=1 (from 4.0)",
    ]


def test_two_replicas_are_never_as_safe_as_three() -> None:
    both = topic("both", replicas=2, elr=False)
    assert set(events(both)) == {"replica_down", "returns_short", "disk_of_last_in_sync", "last_in_sync_dies"}
    for promise in avoidable(both, CLIENT):
        assert "a replication factor of 3" in promise.fix
        assert "min.insync.replicas=2" not in promise.fix
    assert set(events(topic("one", replicas=2, min_isr=1, elr=False))) == set(events(both)) - {"replica_down"}
    assert set(events(topic("both", replicas=2))) == {"replica_down"}  # with ELR nothing else is left to a third


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("flush", [-1, 1])
@pytest.mark.parametrize(("replicas", "min_isr"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (5, 1)])
def test_fewer_than_three_replicas_or_two_in_sync_are_never_called_safe(
    replicas: int, min_isr: int, flush: int, elr: bool, acks: Any
) -> None:
    client = ClientSettings(acks=acks, idempotent=acks == "all")
    few = topic("few", replicas=replicas, min_isr=min_isr, elr=elr, flush_messages=flush)
    assert not [line for line in explained([few], client) if line.startswith(SAFE)]
    enough = topic("enough", replicas=3, min_isr=2, elr=elr, flush_messages=flush)
    assert f"{SAFE}enough" in explained([enough], client)


def test_offsets_of_groups_that_one_in_sync_keeps_are_not_safe_without_elr() -> None:
    kept = partial(topic, "__consumer_offsets", keeps_offsets=True, elr=False)
    assert events(kept()) == []
    alone = events(kept(min_isr=1))
    assert "offsets_leader_alone_dies" in alone
    assert {"last_in_sync_dies", "returns_short", "disk_of_last_in_sync"} <= set(alone)
    assert "offsets_leader_alone_dies" in events(kept(unclean=True))


def test_without_elr_the_one_that_has_the_most_to_lose_comes_first() -> None:
    topics = [
        topic("two", elr=False),
        topic("one", min_isr=1, elr=False),
        topic("lone", replicas=1, min_isr=1, elr=False),
        topic("unclean", min_isr=1, unclean=True, elr=False),
    ]
    assert [one.name for one in worst_first(topics, CLIENT)] == ["lone", "unclean", "one", "two"]


def test_a_partition_without_a_leader_is_named_even_for_a_safe_topic() -> None:
    odd = topic("odd", leaderless=[1])
    lines = explained([odd, topic("other")])
    at = lines.index("odd: 3 replicas, min.insync.replicas=2, clean elections only, ELR on")
    assert lines[at + 1 : at + 3] == ["  now: partitions 1 have no leader", ""]
    assert f"{SAFE}other" in lines
    assert [one.name for one in worst_first([topic("short", isr=1), topic("other"), odd], CLIENT)][2] == "other"
    assert live_as_plain(odd, CLIENT)["without_leader_now"] == [1]
    assert live_as_plain(topic("other"), CLIENT)["without_leader_now"] == []


@pytest.mark.parametrize(
    ("name", "lost", "kip", "made_by"),
    [
        (TRANSACTIONS, "acknowledged decisions to commit", "KIP-98", "transaction.state.log.min.isr"),
        (SHARE_STATE, "acknowledgements of share groups", "KIP-932", "share.coordinator.state.topic.min.isr"),
    ],
)
@pytest.mark.parametrize("elr", [True, False])
def test_what_coordinators_keep_is_lost_in_words_of_its_own(
    name: str, lost: str, kip: str, made_by: str, elr: bool
) -> None:
    clean = {promise.event.name: promise for promise in avoidable(topic(name, min_isr=1, elr=elr), CLIENT)}
    unclean = {p.event.name: p for p in avoidable(topic(name, min_isr=1, unclean=True, elr=elr), CLIENT)}
    for promise in (clean["returns_short"], clean["disk_of_last_in_sync"], unclean["last_in_sync_dies"]):
        assert f"; among them {lost}" in promise.which
        assert f"; {kip}; Kafka documentation, {made_by}" in promise.source
        assert f"min.insync.replicas=2 on {name} ({made_by} is read only when the topic is created)" in promise.fix
        assert "min.insync.replicas=2" not in promise.fix
    assert "among them" not in clean["last_in_sync_dies"].which  # the partition waits for the replica that has it
    other = {promise.event.name: promise for promise in avoidable(topic("plain", min_isr=1, elr=elr), CLIENT)}
    assert "among them" not in other["returns_short"].which
    assert "min.insync.replicas=2" in other["returns_short"].fix


@pytest.mark.parametrize("name", [TRANSACTIONS, SHARE_STATE])
def test_what_coordinators_keep_is_ranked_with_other_topics(name: str) -> None:
    two, unclean, strict = topic(name), topic(name, unclean=True), topic("strict", min_isr=3)
    assert events(two) == []
    assert events(unclean) == ["last_in_sync_dies", "returns_short", "disk_of_last_in_sync"]
    assert worst_first([strict, unclean], CLIENT) == [unclean, strict]
    assert worst_first([two, strict], CLIENT) == [strict, two]
