"""`audit explain`: everything about one partition, and what it may lose next."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.audit.queries.explain import explain
from harness.audit.store.partitions import Offsets
from harness.model.errors import BadInput
from harness.model.history.log import Record
from suites.unit.audit.alarms.alarm_examples import alarm, suspicion
from suites.unit.audit.queries.database_examples import database
from suites.unit.audit.service.vitals_examples import VITALS
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, change, partition, record, topic

PLACE = f"{TOPIC}-0"
LOOK = {(TOPIC_ID, 0): Offsets(5, 10, 100, 101)}


def setting(key: str, value: str) -> Record:
    return record("Config", ResourceType=2, ResourceName=TOPIC, Name=key, Value=value)


def explained(folder: Path, *changes: Record) -> list[str]:
    return explain(PLACE, database(folder, topic(), partition(), *changes, vitals=VITALS, looks=LOOK), as_json=False)


def test_a_healthy_partition(tmp_path: Path) -> None:
    lines = explained(tmp_path, setting("min.insync.replicas", "2"))
    assert lines[0].startswith(f"{PLACE} (topic id {TOPIC_ID}): leader 1 in epoch 0")
    assert "  replicas 1, 2, 3; ISR 1, 2, 3; ELR none" in lines
    assert "  last look, in epoch 5: log start 10, high watermark 100, log end 101" in lines
    assert "  epochs: 0 from offset 0, 5 from offset 80" in lines
    assert "  min.insync.replicas=2*" in lines
    assert "  retention.ms=604800000" in lines
    assert "  If leader 1 fails, one of 2, 3 leads, and every committed record stays." in lines
    assert not any(line.startswith("  lost when the leader's process dies") for line in lines)
    assert lines[-1] == "alarms: 0"


def test_a_leader_that_is_alone_in_sync(tmp_path: Path) -> None:
    lines = explained(tmp_path, change(Isr=(1,)), setting("unclean.leader.election.enable", "true"))
    assert any(line.startswith("  Broker 1 is alone in sync.") for line in lines)
    assert "  Out of the ISR: 2, 3." in lines
    assert any(line.startswith("  lost when the last in-sync replica dies, and others are up") for line in lines)


def test_too_few_in_sync_for_acks_all(tmp_path: Path) -> None:
    lines = explained(tmp_path, change(Isr=(1, 2)), setting("min.insync.replicas", "3"))
    assert "  Producers with acks=all are refused now: 2 in sync, 3 required." in lines
    near = explained(tmp_path / "near", change(Isr=(1, 2)), setting("min.insync.replicas", "2"))
    assert "  One more replica out of the ISR, and producers with acks=all are refused." in near


def test_a_partition_without_a_leader(tmp_path: Path) -> None:
    lines = explained(tmp_path, change(Leader=-1, Isr=(), EligibleLeaderReplicas=(2,)))
    assert lines[0].startswith(f"{PLACE} (topic id {TOPIC_ID}): no leader in epoch 1")
    assert any("one of 2 can lead" in line for line in lines)


def test_its_alarms_are_those_that_name_it_or_its_topic(tmp_path: Path) -> None:
    own, whole, other = (alarm(suspicion()) for _ in range(3))
    for found, of, number in ((own, "own", 0), (whole, "whole", None), (other, "other", 1)):
        found.cause = of
        (s,) = found.suspicions
        found.suspicions = [replace(s, topic_id=TOPIC_ID, partition=number, what=of)]
    folder = database(tmp_path, topic(), partition(), vitals=VITALS, alarms=(own, whole, other))
    plain = json.loads("\n".join(explain(PLACE, folder, as_json=True)))
    assert [found["cause"] for found in plain["alarms"]] == ["whole", "own"]
    assert plain["partition"]["isr"] == [1, 2, 3]
    assert plain["settings"]["retention.ms"] == {"value": "604800000", "of_topic": False}
    assert plain["offsets"] is None
    assert "    Source: KIP-101" in explain(PLACE, folder, as_json=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("orders", "is no partition; give it as TOPIC-PARTITION"),
        ("nowhere-0", "has no topic nowhere"),
        (f"{TOPIC}-7", "has 1 partitions, and no partition 7"),
    ],
)
def test_a_partition_that_is_not_there_is_refused(tmp_path: Path, text: str, said: str) -> None:
    folder = database(tmp_path, topic(), partition(), vitals=VITALS)
    with pytest.raises(BadInput) as refused:
        explain(text, folder, as_json=False)
    assert said in str(refused.value)
