"""Kafka Streams of a release: the settings of scenarios that use it, its own settings, and where its jars come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import scenarios
from harness.commands.matrix_settings import row_of, settings_of
from harness.commands.options import GateOptions
from harness.commands.scenario_selection import Wanted, assign_backends
from harness.faults.steps.registry import check_steps
from harness.kafka.release import kafka_streams
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.model.contract.contract import contract_of
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Scenario
from harness.model.scenario.toml import parse, patched
from harness.workload.java.java_process import JavaClients
from harness.workload.java.java_settings import streams_settings
from harness.workload.readiness import check

TEXT = """
title = "t"
property = "g"
steps = [
  { do = "processor_dies", group = "w", at = "offsets", name = "dies" },
  { do = "heal", fault = "dies" },
]
[topics]
a = { partitions = 2 }
b = {}
[producers]
steady = { topics = ["a"] }
worker = { topics = ["b"], client = "streams", when = "input", processes = { reads = ["a"], group = "w" }, REST }
""".replace("REST", "transactions = { abort_share = 0 }")
JAVA = JavaClients("4.3.1", Path("java"), (Path("clients.jar"),), (Path("streams.jar"),))


def read(text: str) -> Scenario:
    scenario = parse(text, "s")
    check_steps(scenario)
    return scenario


def test_a_scenario_knows_that_it_needs_kafka_streams() -> None:
    scenario = read(TEXT)
    assert scenario.kafka_streams
    assert scenario.java_clients
    assert not read(TEXT.replace(' client = "streams",', "")).kafka_streams
    assert contract_of(scenario).processors["worker"].commits == "transaction"


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (', when = "input", processes = { reads = ["a"], group = "w" }', "", "is an application that reads; add a"),
        (", transactions = { abort_share = 0 }", "", "exactly_once_v2 writes in transactions; add a table"),
        ("{ abort_share = 0 }", "{}", "decides when its transactions end; give only { abort_share = 0 }"),
        ("{ abort_share = 0 }", "{ abort_share = 0, records = 9 }", "give only { abort_share = 0 }"),
        ('group = "w" }', 'group = "w", commits = "before" }', "Kafka Streams never commits before it writes"),
        ('topics = ["b"],', 'topics = ["b"], keyed = true,', "writes each record as it received it; leave out keyed"),
        ('topics = ["b"],', 'topics = ["b"], value_bytes = 9,', "leave out value_bytes"),
        (
            'at = "offsets"',
            'at = "read"',
            'produces as soon as it has read a record; set at = "produced"',
        ),
        ('at = "offsets"', 'at = "offsets", zombie = true', "is killed, so it cannot be a zombie; leave it out"),
        (
            'group = "w" }',
            'group = "w", commits = "after" }',
            'has no transaction with offsets at "offsets"; set at = "produced"',
        ),
        ("steps = [", "shape.secure = true\nsteps = [", "cannot use a secure cluster yet"),
        (
            "steady =",
            'r = { topics = ["a"], client = "streams" }\nsteady =',
            "is an application that reads; add a table",
        ),
    ],
)
def test_settings_that_kafka_streams_cannot_have_are_refused(old: str, new: str, reported: str) -> None:
    assert old in TEXT
    with pytest.raises(BadInput) as refused:
        read(TEXT.replace(old, new, 1))
    assert reported in str(refused.value)


def test_a_reader_cannot_be_a_streams_application() -> None:
    with pytest.raises(BadInput, match="client = 'streams'; it is one of librdkafka, java"):
        read(TEXT + '[readers]\nr = { topics = ["a"], client = "streams" }\n')


def test_the_commit_mode_decides_the_processing_guarantee() -> None:
    scenario = read(TEXT)
    once = streams_settings(scenario.producers[1], "h:1", 5, 3, "/s")
    assert (once["processing.guarantee"], once["application.id"]) == ("exactly_once_v2", "w")
    assert once["durability.transaction.timeout.ms"] == "10000"
    assert (once["durability.reads"], once["durability.sink"], once["durability.partitions"]) == ("a", "b", 3)
    least = patched(scenario, {"producers.worker.processes.commits": "after", "steps.dies.at": "produced"})
    more = {"transaction.timeout.ms": "7000", "poll.ms": "9"}
    least = patched(least, {f"producers.worker.config.{key}": value for key, value in more.items()})
    settings = streams_settings(least.producers[1], "h:1", 5, 3, "/s")
    assert settings["processing.guarantee"] == "at_least_once"
    assert (settings["durability.transaction.timeout.ms"], settings["poll.ms"]) == ("7000", "9")
    assert "transaction.timeout.ms" not in settings


@pytest.mark.parametrize("name", ["streams_copies", "contract_streams_dies"])
def test_built_in_scenarios_with_streams_and_their_negative_controls_are_valid(name: str) -> None:
    scenario = scenarios.load(name)
    weak = scenarios.negative_control(scenario)
    check_steps(weak)
    assert weak.kafka_streams
    assert {p.processes.commits for p in weak.producers if p.processes} == {"after"}
    assert contract_of(scenario).processors != contract_of(weak).processors


def test_a_row_of_the_matrix_names_kafka_streams() -> None:
    scenario = scenarios.load("contract_streams_dies")
    rows = [
        row_of(scenario, topic, *settings_of(scenario, topic, "4.3.1")) for topic in ("streamed_once", "streamed_least")
    ]
    assert rows == [
        "commits in its transactions, read_committed, writes its output (Kafka Streams)",
        "commits after it processes, read_committed, writes its output (Kafka Streams)",
    ]


def test_a_scenario_without_its_streams_jars_is_reported_as_not_run() -> None:
    options = GateOptions(kafka="4.3.1", seed=1, leave_out=True)
    wanted = [Wanted(s, s) for s in (scenarios.load("calm"), scenarios.load("contract_streams_dies"))]
    release = Release("4.3.1", "c", "s", ())
    selection = assign_backends(options, wanted, ["processes"], release)
    selection = selection.without({"streams": "no network"}, options)
    assert [one.name for one in selection.selected] == ["calm"]
    assert selection.not_run == {"contract_streams_dies": "scenario contract_streams_dies: no network"}
    scenario = read(TEXT)
    with pytest.raises(BadInput, match="has the release's own Kafka Streams, and it was not made ready"):
        check(scenario, JavaClients("4.3.1", Path("java"), (Path("clients.jar"),)))
    check(scenario, JAVA)
    assert (JAVA.of_streams().classpath, JAVA.of_streams().main) == (JAVA.streams, kafka_streams.MAIN)


def made_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: Release, published: Any) -> Release:
    monkeypatch.setattr(kafka_streams, "fetched", published)
    monkeypatch.setattr(kafka_streams, "compiled", lambda *_, **__: Path("driver.jar"))
    monkeypatch.setattr(
        kafka_streams,
        "with_java_clients",
        lambda of, **_: replace(of, java_clients=(Path("clients.jar"), Path("k.jar"))),
    )
    given, lacking = kafka_streams.equip_streams(release, {"s3": "no"}, maven_repo=None, cache=tmp_path, progress=print)
    assert lacking.pop("s3") == "no"
    if lacking:
        raise BadInput(lacking["streams"])
    return given


def test_the_library_comes_from_the_release_or_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = Path("libs/kafka-streams-4.3.1.jar")
    fetched: list[str] = []

    def published(wanted: Any, *_: Any) -> tuple[Path, ...]:
        fetched.extend(f"{one.artifact}:{one.version}" for one in wanted)
        return (Path("published.jar"),)

    whole = made_with(monkeypatch, tmp_path, Release("4.3.1", "c", "s", (jar,)), published)
    assert whole.kafka_streams == (Path("driver.jar"), jar, Path("clients.jar"), Path("k.jar"))
    assert fetched == []
    image: Any = SimpleNamespace()
    for release in (Release("4.3.1", "c", "s", ()), Release("4.3.1", "c", "s", (jar,), image=image)):
        given = made_with(monkeypatch, tmp_path, release, published)
        assert given.kafka_streams[1] == Path("published.jar")
    assert fetched == ["kafka-streams:4.3.1"] * 2

    def nowhere(*_: Any) -> Any:
        raise NotPublished("it is not there")

    with pytest.raises(BadInput, match=r"^Kafka Streams 4\.3\.1 cannot be downloaded \(it is not there\): leave"):
        made_with(monkeypatch, tmp_path, Release("4.3.1", "c", "s", ()), nowhere)
