"""The contract of a scenario, from the settings of its topics, brokers and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import convert, to_builtins

from harness.model.contract.contract import SENTINEL, contract_of
from harness.model.documents.contract import Contract, InternalContract, OffsetsContract, TopicContract
from harness.model.errors import BadInput
from harness.model.scenario.rules import check
from harness.model.scenario.scenario import AllowedAnomalies, ClusterShape, ExactLoss, Producer, Scenario, Step, Topic

FOREVER = str((1 << 63) - 1)


def promised(topic: dict[str, str] | None = None, **broker: Any) -> TopicContract:
    config = {name.replace("_", "."): str(value) for name, value in broker.items()}
    scenario = Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(config=config),
        topics=(Topic(name="t", config=topic or {}),),
        producers=(Producer(name="p", topics=("t",)),),
    )
    check(scenario, "s")
    return contract_of(scenario).topics["t"]


def test_by_default_no_broker_flushes() -> None:
    contract = promised()
    assert (contract.flush_messages, contract.flush_ms) == (-1, -1)


def test_settings_of_a_topic_override_those_of_brokers() -> None:
    assert promised(log_flush_interval_messages=1).flush_messages == 1
    assert promised({"flush.messages": "20"}, log_flush_interval_messages=1).flush_messages == 20
    assert promised({"flush.messages": FOREVER}, log_flush_interval_messages=1).flush_messages == -1


def test_flush_ms_needs_the_scheduler_interval() -> None:
    """log.flush.scheduler.interval.ms is "never" by default, and then flush.ms has no effect."""
    assert promised({"flush.ms": "100"}).flush_ms == -1
    assert promised({"flush.ms": "100"}, log_flush_scheduler_interval_ms=50).flush_ms == 150
    assert promised(log_flush_interval_ms=100, log_flush_scheduler_interval_ms=50).flush_ms == 150
    assert promised(log_flush_scheduler_interval_ms=50).flush_ms == 100
    assert promised({"flush.ms": FOREVER}, log_flush_scheduler_interval_ms=50).flush_ms == -1


@pytest.mark.parametrize("wrong", ["0", "-1", "often"])
def test_a_value_that_no_broker_accepts_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=r"flush\.messages"):
        promised({"flush.messages": wrong})


@pytest.mark.parametrize(
    ("topic", "loss", "jumps"),
    [(1, ("t", 0), True), (1, ("other", 0), False), (1, None, False), (3, ("t", 0), False)],
)
def test_the_position_of_a_reader_may_be_lost_with_the_only_copy(
    topic: int, loss: tuple[str, int] | None, jumps: bool
) -> None:
    losses = (ExactLoss(topic=loss[0], partition=loss[1], count=3),) if loss else ()
    scenario = Scenario(
        name="s",
        title="",
        property="",
        topics=(Topic(name="t", replicas=topic), Topic(name="other", replicas=1)),
        producers=(Producer(name="p", topics=("t", "other")),),
        allowed_anomalies=AllowedAnomalies(exact_losses=losses),
    )
    assert contract_of(scenario).may_jump("t") is jumps


def test_a_contract_without_flush_settings_means_never() -> None:
    plain = to_builtins(promised())
    for key in ("flush_messages", "flush_ms"):
        del plain[key]
    assert convert(plain, TopicContract) == promised()


def test_broker_settings_apply_to_the_offsets_topic() -> None:
    config = {
        "offsets.topic.num.partitions": "4",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
        "offsets.retention.minutes": "1",
    }
    topic, producer = Topic(name="t"), Producer(name="p", topics=("t",))
    scenario = Scenario(name="s", title="", property="", topics=(topic,), producers=(producer,))
    by_default = OffsetsContract(partitions=10, replicas=3, min_insync_replicas=2, unclean_election=False)
    assert contract_of(scenario).offsets == by_default
    assert by_default.retention_minutes == 7 * 24 * 60
    reported = contract_of(replace(scenario, shape=ClusterShape(brokers=2, config=config)))
    assert reported.offsets == OffsetsContract(
        partitions=4, replicas=2, min_insync_replicas=1, unclean_election=True, retention_minutes=1
    )
    plain = to_builtins(reported)
    assert convert(plain, Contract) == reported
    del plain["offsets"]
    assert convert(plain, Contract).offsets is None


def test_tier_settings_apply_to_the_metadata_topic_of_the_tier() -> None:
    config = {
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "2",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
    }
    topic, producer = Topic(name="t"), Producer(name="p", topics=("t",))
    scenario = Scenario(name="s", title="", property="", topics=(topic,), producers=(producer,))
    assert contract_of(scenario).tier is None
    by_default = contract_of(replace(scenario, shape=ClusterShape(tier="local"))).tier
    assert by_default == InternalContract(partitions=5, replicas=3, min_insync_replicas=2, unclean_election=False)
    reported = contract_of(replace(scenario, shape=ClusterShape(tier="local", config=config)))
    assert reported.tier == InternalContract(partitions=1, replicas=2, min_insync_replicas=1, unclean_election=True)
    plain = to_builtins(reported)
    assert convert(plain, Contract) == reported
    del plain["tier"]
    assert convert(plain, Contract).tier is None


def test_the_contract_names_steps_that_delete_objects_of_the_tier() -> None:
    topic, producer = Topic(name="t"), Producer(name="p", topics=("t",))
    step = Step(do="delete_objects", name="gone", args={"of": "t/0"})
    contract = contract_of(
        Scenario(name="s", title="", property="", topics=(topic,), producers=(producer,), steps=(step,))
    )
    assert contract.object_deletions == ("gone",)
    assert convert(to_builtins(contract), Contract) == contract


def test_an_unclean_election_is_permitted_only_where_a_step_forces_it() -> None:
    names = ("t", "tt", "u")
    scenario = Scenario(
        name="s",
        title="",
        property="",
        topics=tuple(Topic(name=name) for name in names),
        producers=(Producer(name="p", topics=names),),
        allowed_anomalies=AllowedAnomalies(unclean_election=True),
    )

    def permitted(*on: str) -> list[str]:
        reported = contract_of(replace(scenario, steps=(Step(do="elect_unclean", name="elect", args={"on": [*on]}),)))
        assert reported.offsets is not None
        here = [name for name, topic in reported.topics.items() if topic.unclean_election]
        return [*here, "__consumer_offsets"] if reported.offsets.unclean_election else here

    assert permitted("t/0") == ["t"]
    assert permitted("tt/*", "u/1") == ["tt", "u"]
    assert permitted("__consumer_offsets/3") == ["__consumer_offsets"]
    assert not any(topic.unclean_election for topic in contract_of(scenario).topics.values())


@pytest.mark.parametrize(
    ("steps", "topics"),
    [
        ((), {"plain", "paid"}),  # a client may delete records, too
        ((Step(do="delete_records", name="delete", args={"on": ["plain/*"]}),), {"plain"}),
        ((Step(do="delete_records", name="delete", args={}),), {"plain", "paid"}),
    ],
)
def test_records_may_be_deleted_from_the_topics_that_a_step_names(steps: tuple[Step, ...], topics: set[str]) -> None:
    scenario = Scenario(
        name="s",
        title="",
        property="",
        topics=(Topic(name="plain"), Topic(name="paid")),
        producers=(Producer(name="p", topics=("plain", "paid")),),
        steps=steps,
    )
    allowed = replace(scenario, allowed_anomalies=AllowedAnomalies(delete_records=True))
    assert {name for name, topic in contract_of(allowed).topics.items() if topic.delete_records} == topics
    assert not any(topic.delete_records for topic in contract_of(scenario).topics.values())


def test_an_unclean_election_by_setting_needs_no_permission_and_gives_none_elsewhere() -> None:
    topics = (Topic(name="t", config={"unclean.leader.election.enable": "true"}), Topic(name="clean"))
    scenario = Scenario(
        name="s", title="", property="", topics=topics, producers=(Producer(name="p", topics=("t", "clean")),)
    )
    for allowed_anomalies in (AllowedAnomalies(), AllowedAnomalies(unclean_election=True)):
        reported = contract_of(replace(scenario, allowed_anomalies=allowed_anomalies)).topics
        assert (reported["t"].unclean_election, reported["clean"].unclean_election) == (True, False)


@pytest.mark.parametrize(("config", "back_ms"), [({}, 60_000), ({"retention.ms": "600000"}, None)])
def test_the_last_records_are_as_old_as_the_oldest_unless_they_expire(
    config: dict[str, str], back_ms: int | None
) -> None:
    producers = (Producer(name="p", topics=("t",)), Producer(name="old", topics=("t",), backdated_s=60))
    topics = (Topic(name="t", config=config),)
    contract = contract_of(Scenario(name="s", title="", property="", topics=topics, producers=producers))
    sentinel = contract.producers.get(SENTINEL)
    assert (sentinel.backdated_ms if sentinel else None) == back_ms
