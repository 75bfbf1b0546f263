"""Tests of reading the settings of a live cluster, with brokers that are silent, down or refuse. No broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from harness.commands import cli
from harness.commands import contract as explaining
from harness.kafka.admin import live_topics
from harness.kafka.admin.live_client import ASK_S, Answer, OrdinaryClient
from harness.kafka.admin.live_topics import LiveCluster, live_cluster
from harness.model.errors import BadInput
from harness.model.exits import Exit

TOPIC_CONFIG = {"min.insync.replicas": "2", "cleanup.policy": "delete", "retention.ms": "604800000"}
FINALIZED = {"metadata.version": 25}
GONE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Silence:
    """An answer that never comes; the client does not say so either."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def result(self, timeout: float | None = None) -> Mapping[str, Any]:
        self.waited_s.append(0.0 if timeout is None else timeout)
        raise TimeoutError


def answer(reported: Mapping[str, str | None] | KafkaError) -> Answer:
    future: Future[Mapping[str, Any]] = Future()
    if isinstance(reported, KafkaError):
        future.set_exception(KafkaException(reported))
    else:
        future.set_result({key: SimpleNamespace(value=value) for key, value in reported.items()})
    return future


@dataclass
class Told:
    """A cluster of one broker. refused: why settings of topics cannot be read. silent: so many requests come first that
    nobody answers."""

    topics: Mapping[str, Sequence[int]]  # the leader of each partition
    config: Mapping[str, str | None] = field(default_factory=lambda: TOPIC_CONFIG)
    refused: Mapping[str, KafkaError] = field(default_factory=dict)
    brokers: int = 1
    silent: int = 0
    finalized: Mapping[str, int] = field(default_factory=lambda: FINALIZED)
    asked: list[Sequence[str]] = field(default_factory=list)
    silence: Silence = field(default_factory=Silence)

    def metadata(self, timeout_s: float) -> Any:
        topics = {
            name: SimpleNamespace(
                partitions={
                    number: SimpleNamespace(leader=leader, replicas=[1, 2, 3], isrs=[1, 2, 3] if leader > 0 else [1])
                    for number, leader in enumerate(leaders)
                }
            )
            for name, leaders in self.topics.items()
        }
        brokers = {number: SimpleNamespace(host="b", port=number) for number in range(1, self.brokers + 1)}
        return SimpleNamespace(topics=topics, brokers=brokers)

    def refusal(self) -> str | None:
        return None

    def settings(self, kind: ResourceType, names: Sequence[str]) -> Mapping[str, Answer]:
        if kind is ResourceType.BROKER:
            return {name: answer({}) for name in names}
        self.asked.append(names)
        if self.silent:
            self.silent -= 1
            return dict.fromkeys(names, self.silence)
        return {name: answer(self.refused.get(name, self.config)) for name in names}

    def levels(self, brokers: Iterable[tuple[str, int]]) -> dict[str, int]:
        return dict(self.finalized)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_topics, "DEADLINE_S", 0.2)


def names(cluster: LiveCluster) -> list[str]:
    return [topic.name for topic in cluster.topics]


def test_a_partition_without_a_leader_is_seen_though_its_isr_keeps_who_was_last_in_it() -> None:
    cluster = live_cluster("h:1", Told({"odd": (1, -1), "well": (1, 2)}, {**TOPIC_CONFIG, "min.insync.replicas": "1"}))
    odd, well = cluster.topics
    assert (odd.leaderless, odd.short, odd.stopped) == ([1], [], {1})
    assert (well.leaderless, well.stopped) == ([], set())


def test_a_broker_that_is_silent_for_a_while_is_asked_again() -> None:
    reported = Told({"a": (1,)}, silent=1)
    assert names(live_cluster("h:1", reported)) == ["a"]
    assert reported.asked == [["a"], ["a"]]


def test_the_client_has_longer_than_it_takes_to_say_that_nobody_answers() -> None:
    reported = Told({"a": (1,)}, silent=1)
    live_cluster("h:1", reported)
    assert reported.silence.waited_s[0] > ASK_S


def test_a_broker_that_stays_silent_is_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"^no broker returns settings within 0\.2 s \(.*Timed out.*\); try again"):
        live_cluster("h:1", Told({"a": (1,)}, silent=10**6))


def test_many_topics_are_asked_about_in_batches() -> None:
    reported = Told({f"t{number:04}": (1,) for number in range(live_topics.BATCH + 1)})
    assert len(live_cluster("h:1", reported).topics) == live_topics.BATCH + 1
    assert [len(asked) for asked in reported.asked] == [live_topics.BATCH, 1]


def test_a_cluster_that_lists_no_broker_is_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"^no broker answers at h:1 .* \(the server that answers names no broker\)"):
        live_cluster("h:1", Told({"a": (1,)}, brokers=0))


def test_a_topic_that_goes_meanwhile_is_left_out_and_one_that_is_denied_is_named() -> None:
    topics = dict.fromkeys(("kept", "went", "secret", "hidden"), (1,))
    cluster = live_cluster("h:1", Told(topics, refused={"went": GONE, "secret": DENIED, "hidden": DENIED}))
    assert names(cluster) == ["kept"]
    assert live_topics.not_read_lines(cluster.not_read) == [
        "not explained, because their settings cannot be read (Broker: Topic authorization failed): hidden, secret; "
        "give the user DescribeConfigs on topics",
        "not explained, because they were deleted meanwhile: went",
    ]
    assert live_cluster("h:1", Told(topics)).not_read == []


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ({"a": DENIED, "b": DENIED}, r"cannot be read \(.*\): a; give the user DescribeConfigs on topics$"),
        ({"a": GONE}, r"^not explained, because they were deleted meanwhile: a$"),
    ],
)
def test_an_only_topic_without_readable_settings_is_bad_input(refused: dict[str, KafkaError], said: str) -> None:
    reported = Told(dict.fromkeys(("a", "b"), (1,)), refused=refused)
    with pytest.raises(BadInput, match=said):
        live_cluster("h:1", reported, ["a"])
    if "b" in refused:
        with pytest.raises(BadInput, match=r"cannot be read \(.*\): a, b; give"):
            live_cluster("h:1", reported)
    else:
        assert names(live_cluster("h:1", reported, ["a", "b"])) == ["b"]


def test_of_many_topics_that_are_denied_some_are_named_in_one_sentence() -> None:
    many = [f"t{number:02}" for number in range(20)]
    with pytest.raises(BadInput, match=r"t06, t07 and others; give the user DescribeConfigs on topics$"):
        live_cluster("h:1", Told(dict.fromkeys(many, (1,)), refused=dict.fromkeys(many, DENIED)))


@pytest.mark.parametrize(
    ("policy", "deletes", "compacted"),
    [("", False, False), (None, True, False), ("delete", True, False), ("compact", False, True)],
)
def test_an_empty_cleanup_policy_is_neither(policy: str | None, deletes: bool, compacted: bool) -> None:
    (topic,) = live_cluster("h:1", Told({"a": (1,)}, {**TOPIC_CONFIG, "cleanup.policy": policy})).topics
    assert (topic.settings.deletes, topic.settings.compacted) == (deletes, compacted)


@pytest.mark.parametrize(
    ("finalized", "version", "elr"),
    [
        ({}, None, False),
        (FINALIZED, 0, False),
        ({**FINALIZED, "transaction.version": 1}, 1, False),
        ({**FINALIZED, "transaction.version": 2, "eligible.leader.replicas.version": 1}, 2, True),
    ],
)
def test_the_levels_of_features_are_the_cluster_s(finalized: dict[str, int], version: int | None, elr: bool) -> None:
    cluster = live_cluster("h:1", Told({"a": (1,)}, finalized=finalized))
    assert cluster.transaction_version == version
    assert (cluster.topics[0].settings.elr, cluster.topics[0].elr_known) == (elr, version is not None)


def contract(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reported: Told, *more: str) -> str:
    def ordinary(bootstrap: str, config: Mapping[str, str]) -> Told:
        return reported

    monkeypatch.setattr(explaining, OrdinaryClient.__name__, ordinary)
    assert cli.invoke(["contract", "--bootstrap", "h:1", *more]) is Exit.PASS
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("level", "options", "spoken", "said"),
    [
        (1, (), 1, "the cluster has finalized transaction.version 1 (KIP-890)"),
        (2, (), 2, "the cluster has finalized transaction.version 2 (KIP-890)"),
        (
            2,
            ("--transaction-version", "0"),
            0,
            "the cluster has finalized transaction.version 2 (KIP-890); the answer assumes 0, as asked for",
        ),
        (None, (), 0, "the brokers do not report the finalized transaction.version (KIP-890); assumed: 0"),
        (
            None,
            ("--transaction-version", "2"),
            2,
            "the brokers do not report the finalized transaction.version (KIP-890); assumed: 2",
        ),
    ],
)
def test_transactions_are_those_of_the_cluster_unless_others_are_asked_for(
    level: int | None,
    options: tuple[str, ...],
    spoken: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    finalized = {} if level is None else {**FINALIZED, "transaction.version": level}
    reported = Told({"a": (1,)}, finalized=finalized)
    lines = contract(monkeypatch, capsys, reported, "--transactional", *options).splitlines()
    assert said in lines
    assert f"transactional, transaction.version {spoken}" in lines[0]
    (row,) = json.loads(contract(monkeypatch, capsys, reported, "--transactional", *options, "--json"))
    assert row["transaction_version"] == spoken
    late = next(p for p in row["promises"] if p["event"]["name"] == "end_comes_late")
    assert (late["effects"] == ["kept"]) == (spoken == 2)


def test_transaction_version_is_not_mentioned_without_transactions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "transaction.version" not in contract(monkeypatch, capsys, Told({"a": (1,)}, finalized={}))


def test_a_topic_without_readable_settings_is_named_and_never_called_safe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reported = Told(dict.fromkeys(("kept", "secret"), (1,)), refused={"secret": DENIED})
    lines = contract(monkeypatch, capsys, reported).splitlines()
    assert "as safe as three replicas with two in sync required: kept" in lines
    assert [line for line in lines if "secret" in line] == live_topics.not_read_lines(
        [live_topics.NotRead("secret", DENIED)]
    )
    secret, kept = json.loads(contract(monkeypatch, capsys, reported, "--json"))
    assert secret.keys() == kept.keys()
    assert (secret["topic"], secret["not_read"], secret["avoidable"]) == ("secret", DENIED.str(), None)
    assert (kept["topic"], kept["not_read"]) == ("kept", None)
