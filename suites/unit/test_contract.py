"""What the settings of flushing promise: by default nothing, and flush.ms only where somebody looks at it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.contract import TopicContract, contract_from_dict, contract_of
from harness.model.errors import BadInput
from harness.model.scenario import ClusterShape, ExactLoss, Permits, Producer, Scenario, Topic
from harness.model.scenario_rules import check

FOREVER = str((1 << 63) - 1)


def promised(topic: dict[str, str] | None = None, **broker: Any) -> TopicContract:
    config = {name.replace("_", "."): str(value) for name, value in broker.items()}
    scenario = Scenario(
        name="s",
        title="",
        guards="",
        shape=ClusterShape(config=config),
        topics=(Topic(name="t", config=topic or {}),),
        producers=(Producer(name="p", topics=("t",)),),
    )
    check(scenario, "s")
    return contract_of(scenario).topics["t"]


def test_by_default_nobody_flushes() -> None:
    contract = promised()
    assert (contract.flush_messages, contract.flush_ms) == (-1, -1)


def test_a_topic_outweighs_its_brokers() -> None:
    assert promised(log_flush_interval_messages=1).flush_messages == 1
    assert promised({"flush.messages": "20"}, log_flush_interval_messages=1).flush_messages == 20
    assert promised({"flush.messages": FOREVER}, log_flush_interval_messages=1).flush_messages == -1


def test_nobody_flushes_by_time_unless_somebody_looks() -> None:
    """log.flush.scheduler.interval.ms is for ever by default, and then flush.ms has no effect."""
    assert promised({"flush.ms": "100"}).flush_ms == -1
    assert promised({"flush.ms": "100"}, log_flush_scheduler_interval_ms=50).flush_ms == 150
    assert promised(log_flush_interval_ms=100, log_flush_scheduler_interval_ms=50).flush_ms == 150
    assert promised(log_flush_scheduler_interval_ms=50).flush_ms == 100
    assert promised({"flush.ms": FOREVER}, log_flush_scheduler_interval_ms=50).flush_ms == -1


@pytest.mark.parametrize("wrong", ["0", "-1", "often"])
def test_what_no_broker_takes_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=r"flush\.messages"):
        promised({"flush.messages": wrong})


@pytest.mark.parametrize(
    ("topic", "loss", "jumps"),
    [(1, ("t", 0), True), (1, ("other", 0), False), (1, None, False), (3, ("t", 0), False)],
)
def test_a_reader_may_be_sent_back_where_the_only_copy_goes(
    topic: int, loss: tuple[str, int] | None, jumps: bool
) -> None:
    losses = (ExactLoss(topic=loss[0], partition=loss[1], count=3),) if loss else ()
    scenario = Scenario(
        name="s",
        title="",
        guards="",
        topics=(Topic(name="t", replicas=topic), Topic(name="other", replicas=1)),
        producers=(Producer(name="p", topics=("t", "other")),),
        permits=Permits(exact_losses=losses),
    )
    assert contract_of(scenario).may_jump("t") is jumps


def test_evidence_from_before_says_nothing_of_it() -> None:
    plain = contract_of(
        Scenario(
            name="s", title="", guards="", topics=(Topic(name="t"),), producers=(Producer(name="p", topics=("t",)),)
        )
    ).as_dict()
    for key in ("flush_messages", "flush_ms"):
        del plain["topics"]["t"][key]
    assert contract_from_dict(plain).topics["t"] == promised()
