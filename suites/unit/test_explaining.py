"""`durability contract`: what is told of a configuration and of topics, and what is refused. No broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import cli, explaining
from harness.kafka import live
from harness.kafka.client_config import client_config
from harness.kafka.live import LiveTopic
from harness.model.configuration import ClientSettings, TopicSettings
from harness.model.errors import BadInput
from harness.model.exits import Exit

GOOD = TopicSettings(replicas=3, min_isr=2, elr=True)
CLIENT = ClientSettings()


def topic(name: str, isr: int = 3, known: bool = True, **settings: Any) -> LiveTopic:
    return LiveTopic(
        name=name,
        internal=name.startswith("__"),
        settings=replace(GOOD, **settings),
        isr={0: isr, 1: 3},
        elr_known=known,
    )


def test_a_configuration_is_told_in_words_the_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--acks", "all", "--min-isr", "1", "--rf", "3", "--unclean"]) is Exit.PASS
    first, _, worst, which, because, mend, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "3 replicas, min.insync.replicas=1, unclean elections, ELR off; a producer with acks=all, idempotent"
    )
    assert worst == "lost: the last replica in sync dies, others are up"
    assert which == "  acknowledged records at or above the log end of the replica that is elected"
    assert because.startswith("  because: an unclean election makes a replica the leader")
    assert mend == (
        "  mend by: unclean.leader.election.enable=false, min.insync.replicas=2, "
        "eligible.leader.replicas.version=1 (from 4.0)"
    )


def test_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--json", "--compacted", "--no-idempotent", "--retries", "0"]) is Exit.PASS
    told = {row["event"]["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert told["answer_lost"]["effects"] == ["outcome not told"]
    assert "grows_old" not in told
    assert told["written_again"]["effects"] == ["deleted as configured"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--acks", "1"], "idempotence needs acks=all: say --acks all, or --no-idempotent"),
        (["--rf", "0"], "a topic has a replication factor and a min.insync.replicas of 1 or more"),
        (["--topic", "x"], "--topic: which cluster? say --bootstrap HOST:PORT"),
        (["--bootstrap", "x:1", "--rf", "2", "--unclean"], "--rf, --unclean: with --bootstrap the cluster tells"),
        (["--acks", "2"], "'2' is not one of '0', '1', 'all'"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["contract", *arguments]) is Exit.USAGE
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err


def test_nobody_at_the_address_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DEADLINE_S", 0.5)
    assert cli.invoke(["contract", "--bootstrap", "127.0.0.1:1"]) is Exit.USAGE
    (said,) = capsys.readouterr().err.splitlines()
    assert "no broker answers at 127.0.0.1:1 within 0.5 s" in said


def test_a_setting_that_no_client_has_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocoll=SSL\n")
    assert cli.invoke(["contract", "--bootstrap", "h:1", "--command-config", str(path)]) is Exit.USAGE
    (said,) = capsys.readouterr().err.splitlines()
    assert 'No such configuration property: "security.protocoll"; mend --bootstrap or --command-config' in said


def test_the_worst_topic_comes_first_and_the_good_ones_are_named_at_the_end() -> None:
    topics = [
        topic("fine"),
        topic("strict", min_isr=3),
        topic("__consumer_offsets", min_isr=1),
        topic("lone", replicas=1, min_isr=1),
        topic("unclean", min_isr=1, unclean=True),
    ]
    names = [one.name for one in explaining.worst_first(topics, CLIENT)]
    assert names == ["lone", "unclean", "__consumer_offsets", "strict", "fine"]
    lines = explaining.live_explained("h:1", topics, CLIENT)
    assert lines[0] == "5 topics of h:1, as if written to by a producer with acks=all, idempotent"
    assert "as safe as three replicas of which two must be in sync: fine" in lines
    at = lines.index("strict: 3 replicas, min.insync.replicas=3, clean elections only, ELR on")
    assert lines[at + 1 : at + 5] == [
        "  unavailable when one replica is down",
        "    writes with acks=all until it is back and has caught up; reads go on",
        "    because: fewer are in sync than min.insync.replicas=3 (Kafka documentation, min.insync.replicas; "
        "KAFKA-15583)",
        "    mend by: min.insync.replicas=2",
    ]
    assert lines[-2] == "what the settings above do not spare any topic:"


def test_of_the_topic_that_keeps_offsets_it_is_told_that_groups_may_go_back() -> None:
    lines = explaining.live_explained("h:1", [topic("__consumer_offsets", unclean=True, keeps_offsets=True)], CLIENT)
    at = lines.index("  duplicated when who has a group's offsets dies, alone in sync, and others are up")
    assert lines[at + 3] == "    mend by: unclean.leader.election.enable=false"
    lines = explaining.live_explained("h:1", [topic("__consumer_offsets", keeps_offsets=True)], CLIENT)
    assert "as safe as three replicas of which two must be in sync: __consumer_offsets" in lines


def test_partitions_below_their_minimum_are_told_even_of_a_good_topic() -> None:
    lines = explaining.live_explained("h:1", [topic("fine", isr=1), topic("other")], CLIENT)
    assert lines[2:4] == [
        "fine: 3 replicas, min.insync.replicas=2, clean elections only, ELR on",
        "  now: partitions 0 have fewer replicas in sync than that",
    ]
    assert topic("fine", isr=2).short == []
    assert topic("lone", isr=1, replicas=1, min_isr=2).short == []  # one of one is enough


def test_where_nobody_tells_of_elr_that_is_said() -> None:
    said = "nobody tells whether eligible leader replicas (KIP-966) are on; they are taken to be off"
    assert said in explaining.live_explained("h:1", [topic("fine", known=False, elr=False)], CLIENT)
    assert said not in explaining.live_explained("h:1", [topic("fine")], CLIENT)


def test_an_empty_cluster_has_nothing_to_tell() -> None:
    assert explaining.live_explained("h:1", [], CLIENT) == [
        "0 topics of h:1, as if written to by a producer with acks=all, idempotent"
    ]


def test_client_settings_are_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# ours\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    assert client_config(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    path.write_text("security.protocol\n")
    with pytest.raises(BadInput, match=r"line 1: 'security\.protocol' is no key=value"):
        client_config(path)
    with pytest.raises(BadInput, match="cannot be read"):
        client_config(tmp_path / "none")
