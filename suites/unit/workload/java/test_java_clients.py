"""The release's own Java clients without a JVM: their rules in a scenario, their settings, the frames."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.kafka.release import java_clients
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from harness.model.scenario.scenario import Producer, Reader, Transactions
from harness.model.scenario.toml import parse
from harness.workload.java.java_process import Fields, JavaError, content, long, number
from harness.workload.settings import is_idempotent, may_retry, producer_settings, reader_settings

SCENARIO = """
title = "t"
property = "g"
topics = { t = {} }
producers = { p = { topics = ["t"], client = "CLIENT" } }
readers = { r = { topics = ["t"] } }
"""


def own(**more: Any) -> dict[str, Any]:
    return producer_settings(Producer(name="p", topics=("t",), client="java", **more), "h:1", "p-1")


def test_a_scenario_selects_the_java_clients() -> None:
    assert parse(SCENARIO.replace("CLIENT", "java"), "s").java_clients
    assert not parse(SCENARIO.replace("CLIENT", "librdkafka"), "s").java_clients
    with pytest.raises(BadInput, match="client = 'jav'; it is one of librdkafka, java, streams; did you mean 'java'"):
        parse(SCENARIO.replace("CLIENT", "jav"), "s")
    with pytest.raises(BadInput, match="cannot use a secure cluster yet"):
        parse("shape.secure = true\n" + SCENARIO.replace("CLIENT", "java"), "s")


def test_idempotence_is_not_set_since_it_is_the_default_of_the_client() -> None:
    assert "enable.idempotence" not in own()
    assert is_idempotent(own())
    assert own(config={"max.in.flight.requests.per.connection": "1"})["enable.idempotence"] is True
    assert not is_idempotent(own(idempotent=False))
    assert not is_idempotent(own(config={"enable.idempotence": "false"}))


def test_only_without_idempotence_and_retries_a_record_is_sent_once() -> None:
    assert may_retry(own())
    assert may_retry(own(idempotent=False))
    assert not may_retry(own(idempotent=False, config={"retries": "0"}))


def test_idempotence_needs_acks_all() -> None:
    with pytest.raises(BadInput, match="idempotence needs acks=all"):
        own(config={"acks": "1"})


def test_the_transactional_id_is_the_name_of_the_producer() -> None:
    settings = own(transactions=Transactions())
    assert (settings["transactional.id"], settings["delivery.timeout.ms"]) == ("p", 15_000)


def test_a_reader_without_a_group_gets_a_private_one() -> None:
    member = reader_settings(Reader(name="r", topics=("t",), client="java", group="g"), "h:1", "r-1", {})
    alone = reader_settings(Reader(name="r", topics=("t",), client="java"), "h:1", "r-1", {})
    assert (member["group.id"], alone["group.id"]) == ("g", "reader-r")


def test_fields_of_a_frame_survive_a_round_trip() -> None:
    body = b"R" + number(-7) + long(1 << 40) + content(None) + content("\u00e4") + number(1) + content("t") + number(3)
    fields = Fields(body)
    assert (fields.op, fields.i32(), fields.i64(), fields.content(), fields.text()) == (
        b"R",
        -7,
        1 << 40,
        None,
        "\u00e4",
    )
    assert fields.places() == [("t", 3)]


def test_an_exception_is_fatal_or_retriable_by_its_flags() -> None:
    fatal, again = JavaError("ProducerFencedException", 1), JavaError("TimeoutException", 2, "late")
    assert (fatal.fatal(), fatal.retriable(), again.fatal(), again.retriable()) == (True, False, False, True)
    assert str(again) == "TimeoutException: late"


def test_for_an_image_the_clients_are_downloaded_with_the_library_versions_of_the_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def fetched(wanted: Any, *_: Any) -> tuple[Path, ...]:
        asked.extend(f"{one.group}:{one.artifact}:{one.version}" for one in wanted)
        return (Path("published.jar"),)

    monkeypatch.setattr(java_clients, "fetched", fetched)
    monkeypatch.setattr(java_clients, "compiled", lambda *_, **__: Path("driver.jar"))
    names = ("kafka-clients-4.3.1.jar", "lz4-java-1.10.2.jar", "slf4j-api-1.7.36.jar", "scala-library-2.13.16.jar")
    image: Any = SimpleNamespace()
    release = Release("4.3.1", "c", "s", tuple(Path("/opt/kafka/libs", name) for name in names), image=image)
    given = java_clients.with_java_clients(release, maven_repo=None, cache=tmp_path, progress=print)
    assert given.java_clients == (Path("driver.jar"), Path("published.jar"))
    assert asked == [
        "org.apache.kafka:kafka-clients:4.3.1",
        "at.yawk.lz4:lz4-java:1.10.2",
        "org.slf4j:slf4j-api:1.7.36",
    ]
