"""`durability contract`: what is told of a configuration and of topics, and what is refused. No broker."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

from harness import cli
from harness.explaining_live import avoidable, live_as_plain, live_explained, worst_first
from harness.kafka import live
from harness.kafka.client_config import client_config
from harness.kafka.live import LiveTopic
from harness.model.configuration import ClientSettings, TopicSettings
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.internal_topics import OWN

GOOD = TopicSettings(replicas=3, min_isr=2, elr=True)
CLIENT = ClientSettings()


def topic(name: str, isr: int = 3, known: bool = True, **settings: Any) -> LiveTopic:
    return LiveTopic(
        name=name,
        internal=name in OWN,
        settings=replace(GOOD, **settings),
        isr={0: isr, 1: 3},
        elr_known=known,
    )


def test_a_configuration_is_told_in_words_the_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--acks", "all", "--min-isr", "1", "--rf", "3", "--unclean"]) is Exit.PASS
    first, _, worst, which, because, mend, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "3 replicas, min.insync.replicas=1, unclean elections, ELR off; a producer with acks=all, idempotent; "
        "a consumer that commits after it processes, read_committed, auto.offset.reset=latest, "
        "with a group that is left at times"
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
        (["--retention-ms", "-5"], "retention.ms is 0 or more, or -1 for never or without limit, and not -5"),
        (["--retention-bytes", "-9"], "retention.bytes is 0 or more, or -1 for never or without limit, and not -9"),
        (["--flush-messages", "0"], "flush.messages is 1 or more, or -1 for never or without limit, and not 0"),
        (["--flush-messages", "-7"], "flush.messages is 1 or more, or -1 for never or without limit, and not -7"),
        (["--flush-ms", "-2"], "flush.ms is 0 or more, or -1 for never or without limit, and not -2"),
        (["--compacted", "--delete-retention-ms", "-1"], "delete.retention.ms is 0 or more, and not -1"),
        (["--compacted", "--min-compaction-lag-ms", "-1"], "min.compaction.lag.ms is 0 or more, and not -1"),
        (["--transaction-version", "1"], "--transaction-version: it changes nothing here; say --transactional, too"),
        (["--id-outlives"], "--id-outlives: it changes nothing here; say --transactional, too"),
        (["--remembered", "--no-idempotent"], "--remembered: it changes nothing here; say --idempotent, without"),
        (
            ["--compacted", "--retention-ms", "5"],
            "--retention-ms: it changes nothing here; say --cleanup-policy compact,",
        ),
        (
            ["--delete-retention-ms", "5"],
            "--delete-retention-ms: it changes nothing here; say --cleanup-policy compact",
        ),
        (["--compacted", "--cleanup-policy", "delete"], "--compacted is --cleanup-policy compact: say one of them"),
        (["--reset", "by_duration:PT1H"], "no rule speaks of by_duration:PT1H (KIP-1106): what it does lies between"),
        (["--local-retention-ms", "5"], "--local-retention-ms: it changes nothing here; say --tiered, too"),
        (["--tiered", "--local-retention-ms", "-3"], "local.retention.ms is -2, for as retention.ms, or more, and not"),
        (["--reset", "oldest"], "'oldest' is not one of 'earliest', 'latest', 'none'"),
        (
            ["--bootstrap", "x:1", "--timestamp-type", "CreateTime"],
            "--timestamp-type: with --bootstrap the cluster tells",
        ),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["contract", *arguments]) is Exit.USAGE
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert cli.invoke(["contract", *arguments]) is Exit.PASS
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--commits", "before"], "a consumer that commits before it processes, read_committed"),
        (["--isolation", "read_uncommitted"], "commits after it processes, read_uncommitted"),
        (["--reset", "none"], "auto.offset.reset=none"),
        (["--reset", "error"], "auto.offset.reset=none"),
        (["--stays"], "with a group that somebody is always in"),
        (["--transactional"], "transactional, transaction.version 2; "),
        (["--transactional", "--transaction-version", "1"], "transactional, transaction.version 1; "),
        (["--transactional", "--id-outlives"], "transaction.version 2, an id that outlives its pauses; "),
        (["--remembered"], "acks=all, idempotent, remembered for longer than it waits; "),
        (["--retries", "5"], "acks=all, idempotent, retries=5; "),
        (["--flush-ms", "0"], "flush.ms=0, for which nobody looks; "),
        (["--flush-ms", "0", "--flush-scheduler-ms", "1000"], "on disk within 1000 ms; "),
        (["--timestamp-type", "LogAppendTime"], "message.timestamp.type=LogAppendTime; "),
        (["--cleanup-policy", "compact,delete"], "compacted and deleted; "),
        (["--compacted", "--delete-retention-ms", "4"], "compacted, delete.retention.ms=4; "),
        (["--cleanup-policy", "compact", "--min-compaction-lag-ms", "7"], "compacted, min.compaction.lag.ms=7; "),
    ],
)
def test_the_first_line_says_what_was_asked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = told(capsys)[0]
    assert said not in plain
    assert said in told(capsys, *arguments)[0]


def test_what_mends_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    event = "records bear times that are too old when they are sent"
    lines = told(capsys, "--retention-ms", "1000")
    mend = lines[lines.index(f"deleted as configured: {event}") + 3]
    assert mend == "  mend by: message.timestamp.type=LogAppendTime, retention.ms=-1"
    assert f"kept: {event}" in told(capsys, "--retention-ms", "1000", "--timestamp-type", "LogAppendTime")


def test_where_elr_decides_that_is_said_and_what_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "--min-isr", "2")
    at = lines.index("lost: the last replica in sync returns without what it had not flushed")
    with_elr = "  with ELR, which is on by default in clusters formatted by 4.1 or later (--elr): kept"
    assert with_elr in lines[at : at + 5]
    assert lines[lines.index("lost: all machines lose their power at once") + 4] == ""
    assert not [line for line in told(capsys, "--min-isr", "1") if line.startswith("  with ELR")]
    lines = told(capsys, "--min-isr", "2", "--elr")
    without = "  without ELR, as in clusters formatted before 4.1 that did not turn it on: lost"
    at = lines.index("kept: the last replica in sync returns without what it had not flushed")
    assert without in lines[at : at + 5]


def test_each_setting_has_an_option_that_says_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    helped = " ".join(" ".join(told(capsys, "--help")).split())
    own = ("--rf", "--isolation", "--commits", "--elr", "--transaction-version", "--id-outlives", "--remembered")
    for option in own:
        assert "Kafka's own" in helped.split(f" {option} ", 1)[1].split(" --")[0], option
    options = [o for o in cli.commands.commands["contract"].params if isinstance(o, click.Option)]
    settings = options[: [o.name for o in options].index("bootstrap")]
    assert not [
        o.name for o in settings if not (o.show_default or "Default: " in (o.help or "") or o.name == "compacted")
    ]


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
    names = [one.name for one in worst_first(topics, CLIENT)]
    assert names == ["lone", "unclean", "__consumer_offsets", "strict", "fine"]
    lines = live_explained("h:1", topics, CLIENT)
    assert lines[:3] == [
        "5 topics of h:1, as if written to by a producer with acks=all, idempotent",
        "and read by a consumer that commits after it processes, read_committed, auto.offset.reset=latest, "
        "with a group that is left at times",
        "__consumer_offsets: written by brokers, with acks=all, whatever producers do",
    ]
    assert "as safe as three replicas of which two must be in sync: fine" in lines
    at = lines.index("strict: 3 replicas, min.insync.replicas=3, clean elections only, ELR on")
    assert lines[at + 1 : at + 5] == [
        "  unavailable when one replica is down",
        "    writes with acks=all until it is back and has caught up; reads go on",
        "    because: fewer are in sync than min.insync.replicas=3 (Kafka documentation, min.insync.replicas; "
        "KAFKA-15583)",
        "    mend by: min.insync.replicas=2",
    ]
    assert lines[-3] == "what three replicas do not spare them, of which two must be in sync:"


def test_of_the_topic_that_keeps_offsets_it_is_told_that_groups_may_go_back() -> None:
    lines = live_explained("h:1", [topic("__consumer_offsets", unclean=True, keeps_offsets=True)], CLIENT)
    at = lines.index("  duplicated when who has a group's offsets dies, alone in sync, and others are up")
    assert lines[at + 3] == "    mend by: unclean.leader.election.enable=false"
    lines = live_explained("h:1", [topic("__consumer_offsets", keeps_offsets=True)], CLIENT)
    assert "as safe as three replicas of which two must be in sync: __consumer_offsets" in lines


def test_partitions_below_their_minimum_are_told_even_of_a_good_topic() -> None:
    lines = live_explained("h:1", [topic("fine", isr=1), topic("other")], CLIENT)
    assert lines[3:5] == [
        "fine: 3 replicas, min.insync.replicas=2, clean elections only, ELR on",
        "  now: partitions 0 have fewer replicas in sync than that",
    ]
    assert topic("fine", isr=2).short == []
    assert topic("lone", isr=1, replicas=1, min_isr=2).short == []  # one of one is enough


def test_where_nobody_tells_of_elr_that_is_said() -> None:
    said = "nobody tells whether eligible leader replicas (KIP-966) are on; they are taken to be off"
    assert said in live_explained("h:1", [topic("fine", known=False, elr=False)], CLIENT)
    assert said not in live_explained("h:1", [topic("fine")], CLIENT)


def tail(*topics: LiveTopic, client: ClientSettings = CLIENT) -> list[str]:
    lines = live_explained("h:1", topics, client)
    return lines[lines.index("what three replicas do not spare them, of which two must be in sync:") + 1 :]


def test_what_nothing_spares_is_told_of_the_topics_that_it_concerns_with_what_mends_it() -> None:
    power = "  lost when all machines lose their power at once"
    which = "acknowledged records that the operating system had not written to a disk"
    flushed, plain = topic("a_flushed", flush_messages=1), topic("plain")
    mend = "    mend by: replicas on power supplies of their own, flush.messages=1"
    assert tail(flushed, plain)[:2] == [f"{power}, of plain: {which}", mend]
    assert tail(plain, topic("other"))[:2] == [f"{power}: {which}", mend]
    assert not [line for line in live_explained("h:1", [flushed], CLIENT) if line.startswith(power)]


def test_without_elr_one_is_told_to_turn_it_on() -> None:
    def told(**settings: Any) -> list[str]:
        lines = tail(topic("plain", **settings))
        return [after for line, after in pairwise(lines) if "returns without" in line]

    assert told(elr=False) == ["    mend by: eligible.leader.replicas.version=1 (from 4.0)"]
    assert told() == []


def test_producers_say_nothing_of_what_brokers_write() -> None:
    one = ClientSettings(acks="1", idempotent=False)
    topics = [topic("plain"), topic("__consumer_offsets", keeps_offsets=True), topic("__mine")]
    lines = tail(*topics, client=one)
    at = next(n for n, line in enumerate(lines) if line.startswith("  lost when the leader's process dies"))
    assert ", of plain, __mine: acknowledged records at or above" in lines[at]
    assert lines[at + 1] == "    mend by: acks=all"
    for of, expected in ((topics[1], ["kept"]), (topics[2], ["lost"])):
        promised = {row["event"]["name"]: list(row["effects"]) for row in live_as_plain(of, one)["promises"]}
        assert promised["leader_dies"] == expected


@pytest.mark.parametrize("name", OWN)
def test_of_kafka_s_own_topics_it_is_said_what_goes_with_them(name: str) -> None:
    said = [line for line in live_explained("h:1", [topic(name)], CLIENT) if line.startswith(f"  with {name} goes ")]
    assert len(said) == 1
    lines = live_explained("h:1", [topic(name, replicas=1, min_isr=1)], CLIENT)
    assert [line for line in lines if line.startswith("  with it goes ")] == [said[0].replace(name, "it")]
    assert not [line for line in live_explained("h:1", [topic("__mine")], CLIENT) if " goes " in line]


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
def test_what_is_deleted_before_a_reader_is_back_is_bad(settings: dict[str, Any], events: list[str]) -> None:
    one = topic("soon", **settings)
    assert [promise.event.name for promise in avoidable(one, CLIENT)] == events
    lines = live_explained("h:1", [one], CLIENT)
    assert ("    mend by: retention.ms=86400000 (24 h) or more" in lines) == bool(events)
    assert ("as safe as three replicas of which two must be in sync: soon" in lines) == (not events)


def test_records_that_come_back_are_bad() -> None:
    assert "deleted_and_killed" in [p.event.name for p in avoidable(topic("lone", replicas=1, min_isr=1), CLIENT)]
    assert "deleted_and_killed" not in [p.event.name for p in avoidable(topic("fine"), CLIENT)]


def test_topics_that_keep_so_many_bytes_are_named() -> None:
    topics = [topic("big", retention_bytes=10**9), topic("kept", retention_bytes=1, deletes=False, compacted=True)]
    lines = live_explained("h:1", [*topics, topic("plain")], CLIENT)
    assert lines[-2:] == [
        "deleted beyond retention.bytes, however young, read or not: big",
        "  mend by: retention.bytes=-1, or as much as comes in 24 h",
    ]


def test_an_empty_cluster_has_nothing_to_tell() -> None:
    first, second = live_explained("h:1", [], CLIENT)
    assert first == "0 topics of h:1, as if written to by a producer with acks=all, idempotent"
    assert second.startswith("and read by a consumer that ")


def test_client_settings_are_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# ours\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    assert client_config(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    path.write_text("security.protocol\n")
    with pytest.raises(BadInput, match=r"line 1: 'security\.protocol' is no key=value"):
        client_config(path)
    with pytest.raises(BadInput, match="cannot be read"):
        client_config(tmp_path / "none")
