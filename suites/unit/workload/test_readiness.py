"""Figures that follow from the settings of clients."""

from __future__ import annotations

import pytest

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Reader, Scenario, Topic
from harness.workload.readiness import bootstrap_of, check_configs


@pytest.mark.parametrize(("bootstrap", "known"), [(0, "a:1,b:2,c:3"), (1, "a:1"), (3, "c:3")])
def test_a_client_may_know_one_broker_only(bootstrap: int, known: str) -> None:
    for client in (
        Producer(name="p", topics=("t",), bootstrap=bootstrap),
        Reader(name="r", topics=("t",), bootstrap=bootstrap),
    ):
        assert bootstrap_of(client, "a:1,b:2,c:3") == known


@pytest.mark.parametrize(
    ("client", "why"),
    [
        (
            Producer(name="p", topics=("t",), config={"linger": "5"}),
            'producer p: .*No such .* "linger"',
        ),
        (Reader(name="r", topics=("t",), config={"fetch.min.bytes": "-1"}), "reader r: .*outside allowed range"),
        (
            Reader(name="r", topics=("t",), group="g", config={"session.timeout.ms": "70000"}),
            "reader r: .*max.poll.interval.ms",
        ),
    ],
)
def test_settings_that_librdkafka_refuses_are_bad_input(client: Producer | Reader, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        check_configs(_scenario(client))


def test_settings_that_librdkafka_takes_are_none() -> None:
    check_configs(_scenario(Producer(name="p", topics=("t",), config={"linger.ms": "5"})))
    check_configs(_scenario(Reader(name="r", topics=("t",), group="g", config={"session.timeout.ms": "7000"})))
    check_configs(_scenario(Reader(name="r", topics=("t",), client="java", config={"max.poll.records": "5"})))


def _scenario(client: Producer | Reader) -> Scenario:
    """One client of a topic."""
    producers = (client,) if isinstance(client, Producer) else ()
    readers = (client,) if isinstance(client, Reader) else ()
    return Scenario(
        name="s",
        title="A title",
        property="A property.",
        topics=(Topic(name="t"),),
        producers=producers,
        readers=readers,
    )
