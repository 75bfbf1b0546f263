"""Tests of `durability contract` for a described configuration: its answer and its refusals. No broker."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import click
import pytest

from harness.commands import cli
from harness.commands.contract_options import Given
from harness.kafka.admin import live_topics
from harness.kafka.admin.client_config import client_config
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.errors import BadInput
from harness.model.exits import Exit


def test_each_setting_has_an_option() -> None:
    """A setting without an option would have its default, whatever the user means."""
    options = {option.name for option in cli.contract.params}
    settings = {field.name for kind in (ClientSettings, TopicSettings) for field in fields(kind)}
    assert settings - options == {"deletes", "compaction_lag_ms", "append_time", "keeps_offsets", "keeps_tier"}
    assert Given.__annotations__.keys() <= options


def test_the_worst_event_of_a_configuration_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--acks", "all", "--min-isr", "1", "--rf", "3", "--unclean"]) is Exit.PASS
    first, _, worst, which, because, fix, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "3 replicas, min.insync.replicas=1, unclean elections, ELR off; a producer with acks=all, idempotent; "
        "a consumer that commits after it processes, read_committed, auto.offset.reset=latest, "
        "its group is empty at times"
    )
    assert worst == "lost: the last in-sync replica dies, and others are up"
    assert which == "  acknowledged records at or above the log end of the replica that is elected"
    assert because.startswith("  because: an unclean election makes a replica the leader")
    assert fix == (
        "  how to fix: unclean.leader.election.enable=false, min.insync.replicas=2, "
        "eligible.leader.replicas.version=1 (from 4.0)"
    )


def test_the_answer_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--json", "--compacted", "--no-idempotent", "--retries", "0"]) is Exit.PASS
    reported = {row["event"]["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert reported["answer_lost"]["effects"] == ["outcome unknown"]
    assert "grows_old" not in reported
    assert reported["written_again"]["effects"] == ["deleted as configured"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--acks", "1", "--idempotent"], "idempotence needs acks=all: give --acks all, or --no-idempotent"),
        (["--in-flight", "10"], "idempotence needs retries and at most 5 requests in flight: give --retries 1"),
        (["--acks", "1", "--transactional"], "idempotence needs acks=all: give --acks all, or no --transactional"),
        (
            ["--long-producer-id-expiration", "--acks", "1"],
            "--long-producer-id-expiration has no effect here; use --idempotent without",
        ),
        (["--isolation", "read_uncommitted"], "--isolation has no effect here; add --transactional"),
        (
            ["--commits", "share", "--reset", "none", "--group-never-empty"],
            "--group-never-empty, --reset has no effect here; use a value of --commits other than share",
        ),
        (["--flush-ms", "-1", "--flush-scheduler-ms", "5"], "--flush-scheduler-ms has no effect here; leave out"),
        (
            ["--compacted", "--reads-within-compaction-lag"],
            "--reads-within-compaction-lag has no effect here; add --cleanup-policy compact and",
        ),
        (
            ["--tiered", "--compacted"],
            "a compacted topic cannot be tiered (KIP-405, KAFKA-19273); leave out --tiered",
        ),
        (["--tiered", "--cleanup-policy", "compact,delete"], "a compacted topic cannot be tiered"),
        (
            ["--tiered", "--retention-ms", "1000", "--local-retention-ms", "1001"],
            "local.retention.ms=1001 exceeds retention.ms=1000; give at most 1000, or -2",
        ),
        (
            ["--tiered", "--retention-bytes", "9", "--local-retention-bytes", "-1"],
            "local.retention.bytes=-1 exceeds retention.bytes=9; give at most 9, or -2",
        ),
        (["--retention-ms", "9" * 24], "9999; it must be at most 9223372036854775807"),
        (["--retries", "99999999999"], "retries is 99999999999; it must be at most 2147483647"),
        (["--rf", "0"], "the replication factor is 0; it must be 1 or more"),
        (["--topic", "x"], "--topic needs a cluster; add --bootstrap HOST:PORT"),
        (
            ["--bootstrap", "x:1", "--rf", "2", "--unclean"],
            "--rf, --unclean: with --bootstrap this is read from the cluster",
        ),
        (["--acks", "2"], "'2' is not one of '0', '1', 'all'"),
        (["--retention-ms", "-5"], "retention.ms is -5; it must be 0 or more, or -1 for never or no limit"),
        (["--retention-bytes", "-9"], "retention.bytes is -9; it must be 0 or more, or -1 for never or no limit"),
        (["--flush-messages", "0"], "flush.messages is 0; it must be 1 or more, or -1 for never or no limit"),
        (["--flush-messages", "-7"], "flush.messages is -7; it must be 1 or more, or -1 for never or no limit"),
        (["--flush-ms", "-2"], "flush.ms is -2; it must be 0 or more, or -1 for never or no limit"),
        (["--compacted", "--delete-retention-ms", "-1"], "delete.retention.ms is -1; it must be 0 or more"),
        (["--compacted", "--min-compaction-lag-ms", "-1"], "min.compaction.lag.ms is -1; it must be 0 or more"),
        (["--transaction-version", "1"], "--transaction-version has no effect here; add --transactional"),
        (
            ["--long-transactional-id-expiration"],
            "--long-transactional-id-expiration has no effect here; add --transactional",
        ),
        (
            ["--long-producer-id-expiration", "--no-idempotent"],
            "--long-producer-id-expiration has no effect here; use --idempotent without",
        ),
        (
            ["--compacted", "--retention-ms", "5"],
            "--retention-ms has no effect here; add --cleanup-policy compact,",
        ),
        (
            ["--delete-retention-ms", "5"],
            "--delete-retention-ms has no effect here; add --cleanup-policy compact",
        ),
        (["--compacted", "--cleanup-policy", "delete"], "--compacted and --cleanup-policy set the same thing; use one"),
        (["--reset", "by_duration:PT1H"], "by_duration:PT1H (KIP-1106) has no rule; ask for earliest and for latest"),
        (["--local-retention-ms", "5"], "--local-retention-ms has no effect here; add --tiered"),
        (["--tiered", "--local-retention-ms", "-3"], "local.retention.ms is -3; it must be -2 (the value of"),
        (["--reset", "oldest"], "'oldest' is not one of 'earliest', 'latest', 'none'"),
        (
            ["--bootstrap", "x:1", "--timestamp-type", "CreateTime"],
            "--timestamp-type: with --bootstrap this is read from the cluster",
        ),
    ],
)
def test_each_refusal_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", *arguments]) is Exit.USAGE
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert cli.invoke(["contract", *arguments]) is Exit.PASS
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--commits", "before"], "a consumer that commits before it processes, read_committed"),
        (["--transactional", "--isolation", "read_uncommitted"], "commits after it processes, read_uncommitted"),
        (["--acks", "1"], "acks=1, not idempotent, 5 in flight; "),
        (["--retries", "0"], "acks=all, not idempotent, no retries; "),
        (["--acks", "0", "--no-idempotent", "--in-flight", "9"], "acks=0, not idempotent, 9 in flight; "),
        (["--flush-scheduler-ms", "1000"], "on disk within 2000 ms; "),
        (["--tiered", "--retention-bytes", "9", "--local-retention-bytes", "9"], "local.retention.bytes=9; "),
        (["--tiered", "--local-retention-ms", "604800000"], "local.retention.ms=604800000; "),
        (
            ["--compacted", "--min-compaction-lag-ms", "7", "--reads-within-compaction-lag"],
            "empty at times, reads within min.compaction.lag.ms",
        ),
        (["--reset", "none"], "auto.offset.reset=none"),
        (["--reset", "error"], "auto.offset.reset=none"),
        (["--group-never-empty"], "its group always has a member"),
        (["--transactional"], "transactional, transaction.version 2; "),
        (["--transactional", "--transaction-version", "1"], "transactional, transaction.version 1; "),
        (
            ["--transactional", "--long-transactional-id-expiration"],
            "transaction.version 2, a transactional.id that outlives its pauses; ",
        ),
        (
            ["--long-producer-id-expiration"],
            "acks=all, idempotent, producer.id.expiration.ms above delivery.timeout.ms; ",
        ),
        (["--retries", "5"], "acks=all, idempotent, retries=5; "),
        (["--flush-ms", "0"], "flush.ms=0 without effect; "),
        (["--flush-ms", "0", "--flush-scheduler-ms", "1000"], "on disk within 1000 ms; "),
        (["--timestamp-type", "LogAppendTime"], "message.timestamp.type=LogAppendTime; "),
        (["--cleanup-policy", "compact,delete"], "compacted and deleted; "),
        (["--compacted", "--delete-retention-ms", "4"], "compacted, delete.retention.ms=4; "),
        (["--cleanup-policy", "compact", "--min-compaction-lag-ms", "7"], "compacted, min.compaction.lag.ms=7; "),
    ],
)
def test_the_first_line_repeats_the_settings(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = reported(capsys)[0]
    assert said not in plain
    assert said in reported(capsys, *arguments)[0]


def test_a_fix_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    event = "records are sent with timestamps that are older than the retention time"
    lines = reported(capsys, "--retention-ms", "1000")
    fix = lines[lines.index(f"deleted as configured: {event}") + 3]
    assert fix == "  how to fix: message.timestamp.type=LogAppendTime, retention.ms=-1"
    assert f"kept: {event}" in reported(capsys, "--retention-ms", "1000", "--timestamp-type", "LogAppendTime")


def test_where_elr_decides_both_results_are_shown_with_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    lines = reported(capsys, "--min-isr", "2")
    at = lines.index("lost: the last in-sync replica returns without the records that it had not flushed")
    with_elr = "  with ELR, the default in clusters formatted by 4.1 or later (--elr): kept"
    assert with_elr in lines[at : at + 5]
    assert lines[lines.index("lost: all machines lose power at once") + 4] == ""
    assert not [line for line in reported(capsys, "--min-isr", "1") if line.startswith("  with ELR")]
    lines = reported(capsys, "--min-isr", "2", "--elr")
    without = "  without ELR, the default in clusters formatted before 4.1: lost"
    at = lines.index("kept: the last in-sync replica returns without the records that it had not flushed")
    assert without in lines[at : at + 5]


def test_each_option_names_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    helped = " ".join(" ".join(reported(capsys, "--help")).split())
    own = (
        "--rf",
        "--isolation",
        "--commits",
        "--elr",
        "--transaction-version",
        "--long-transactional-id-expiration",
        "--long-producer-id-expiration",
    )
    for option in own:
        assert "Kafka's default" in helped.split(f" {option} ", 1)[1].split(" --")[0], option
    options = [o for o in cli.commands.commands["contract"].params if isinstance(o, click.Option)]
    settings = options[: [o.name for o in options].index("bootstrap")]
    assert not [
        o.name for o in settings if not (o.show_default or "Default: " in (o.help or "") or o.name == "compacted")
    ]


def test_an_address_without_a_broker_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_topics, "DEADLINE_S", 0.5)
    assert cli.invoke(["contract", "--bootstrap", "127.0.0.1:1"]) is Exit.USAGE
    (said,) = capsys.readouterr().err.splitlines()
    assert "no broker answers at 127.0.0.1:1 within 0.5 s" in said


def test_an_unknown_client_setting_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocoll=SSL\n")
    assert cli.invoke(["contract", "--bootstrap", "h:1", "--command-config", str(path)]) is Exit.USAGE
    (said,) = capsys.readouterr().err.splitlines()
    assert 'No such configuration property: "security.protocoll"; correct --bootstrap or --command-config' in said


def test_client_settings_are_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# ours\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    assert client_config(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    path.write_text("security.protocol\n")
    with pytest.raises(BadInput, match=r"line 1: 'security\.protocol' is not key=value"):
        client_config(path)
    with pytest.raises(BadInput, match="cannot be read"):
        client_config(tmp_path / "none")
