"""Scenarios with a remote tier: the settings that they need, those that are refused, and how many records they
write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clusters.choosing import check_release
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import Node, node_properties
from harness.kafka.settings.tier_settings import Tier
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.model.scenario.tier_rules import SEGMENTS_MIN, records_min, tiered_topics
from harness.model.scenario.toml import from_plain

SMALL = {"remote.storage.enable": "true", "segment.bytes": 1 << 20, "local.retention.bytes": 1}


def scenario(
    config: dict[str, Any] | None = None, shape: dict[str, Any] | None = None, producers: dict[str, Any] | None = None
) -> Scenario:
    plain = {
        "title": "t",
        "property": "g",
        "shape": {"tier": "local"} if shape is None else shape,
        "topics": {"far": {"partitions": 2, "config": SMALL if config is None else config}, "near": {}},
        "producers": producers or {"p": {"topics": ["far"], "value_bytes": 2000}},
    }
    return from_plain(plain, "s")


def test_a_topic_in_the_tier() -> None:
    assert tiered_topics(scenario()) == ["far"]
    assert tiered_topics(scenario(config={}, shape={})) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, 'tier is set, and no topic uses it; set "remote.storage.enable" = "true"'),
        ({"remote.storage.enable": "yes"}, "give true or false"),
        ({**SMALL, "cleanup.policy": "compact"}, "a compacted topic cannot use the remote tier"),
        ({**SMALL, "cleanup.policy": "compact,delete"}, "a compacted topic cannot use the remote tier"),
        ({k: v for k, v in SMALL.items() if k != "segment.bytes"}, "a tiered topic needs small segments"),
        ({k: v for k, v in SMALL.items() if "local" not in k}, "brokers would keep every segment too"),
    ],
)
def test_settings_of_a_topic_that_a_tier_cannot_have_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        scenario(config)


def test_shapes_that_a_tier_cannot_have_are_refused() -> None:
    with pytest.raises(BadInput, match=r'far: remote\.storage\.enable needs a remote tier; set tier = "local"'):
        scenario(shape={})
    with pytest.raises(BadInput, match=r"log_dirs = 2 with a tier; .* has 1 log directory \(KIP-405\)"):
        scenario(shape={"tier": "local", "log_dirs": 2})
    with pytest.raises(BadInput, match="tier"):
        scenario(shape={"tier": "cloud"})


def test_enough_records_are_written_for_the_segments_of_each_partition() -> None:
    records = records_min(scenario())
    assert records * 2000 / 2 >= SEGMENTS_MIN << 20
    assert records_min(scenario(config={}, shape={})) == 0
    # A producer with the same rate that writes to another topic takes half of the records.
    both = {"p": {"topics": ["far"], "value_bytes": 2000}, "q": {"topics": ["near"]}}
    assert records_min(scenario(producers=both)) == 2 * records
    # A producer with a rate of its own does not share the budget.
    slow = {"p": {"topics": ["far"], "value_bytes": 2000, "rate_per_s": 10}}
    assert records_min(scenario(producers=slow)) == 0


def release(version: str) -> Release:
    return Release(version, "c", "s", (Path("/kafka.jar"),), tier_jars=(Path("/a.jar"), Path("/b.jar")))


def test_a_release_without_remote_storage_is_refused() -> None:
    check_release(release("3.6.0"), ClusterShape(tier="local"))
    with pytest.raises(BadInput, match=r"Kafka 3.5.2 has no remote storage \(KIP-405\): give a release from 3.6 on"):
        check_release(release("3.5.2"), ClusterShape(tier="local"))
    check_release(release("3.5.2"), ClusterShape())


def test_every_node_has_the_settings_of_the_tier_and_none_without_one() -> None:
    tier = Tier((Path("/a.jar"), Path("/b.jar")), Path("/run/tier"))
    node = Node(node=101, address="h", advertised=None, controllers=(101,), brokers=5, data=Path("/d"), tier=tier)
    said = node_properties(release("4.3.1"), node)
    assert said["remote.log.storage.system.enable"] == "true"
    assert said["remote.log.storage.manager.class.path"] == "/a.jar:/b.jar"
    assert said["remote.log.storage.manager.class.name"] == "durability.FileStorage"
    assert said["rsm.config.durability.folder"] == "/run/tier/kafka-tiered-storage"
    assert said["rlmm.config.remote.log.metadata.topic.replication.factor"] == "3"
    assert said["remote.log.metadata.manager.listener.name"] == "REPL"
    bare = Node(node=101, address="h", advertised=None, controllers=(101,), brokers=5, data=Path("/d"))
    assert not any(key.startswith(("remote.", "rsm.", "rlmm.")) for key in node_properties(release("4.3.1"), bare))


def test_with_tier_faults_the_faulty_storage_wraps_that_of_the_tier() -> None:
    tier = Tier((Path("/a.jar"), Path("/faulty.jar")), Path("/run/tier"), faulty=True)
    node = Node(node=101, address="h", advertised=None, controllers=(101,), brokers=3, data=Path("/d"), tier=tier)
    said = node_properties(release("4.3.1"), node)
    assert said["remote.log.storage.manager.class.name"] == "durability.FaultyStorage"
    assert said["remote.log.storage.manager.class.path"] == "/a.jar:/faulty.jar"
    assert said["rsm.config.durability.storage"] == "durability.FileStorage"
    assert said["rsm.config.durability.folder"] == "/run/tier/kafka-tiered-storage"
    assert said["rsm.config.durability.orders"] == "/run/tier/orders"
    assert said["rsm.config.durability.reported"] == "/run/tier/reported"


def test_local_tiered_storage_makes_its_folder_in_the_given_one() -> None:
    tier = Tier((Path("/a.jar"), Path("/b.jar")), Path("/run/tier"), local_tiered=True)
    node = Node(node=1, address="h", advertised=None, controllers=(101,), brokers=3, data=Path("/d"), tier=tier)
    said = node_properties(release("4.3.1"), node)
    assert said["remote.log.storage.manager.class.name"].endswith(".LocalTieredStorage")
    assert said["rsm.config.dir"] == "/run/tier"


def test_a_tier_in_s3_has_the_address_of_its_server() -> None:
    for faulty in (False, True):
        tier = Tier((Path("/s3.jar"),), Path("/run/tier"), faulty, "http://127.16.6.1:21097")
        node = Node(node=1, address="h", advertised=None, controllers=(101,), brokers=3, data=Path("/d"), tier=tier)
        said = node_properties(release("4.3.1"), node)
        assert said["rsm.config.durability.s3.endpoint"] == "http://127.16.6.1:21097"
        assert said["rsm.config.durability.s3.bucket"] == "kafka-tiered-storage"
        first = said["remote.log.storage.manager.class.name"]
        assert first == ("durability.FaultyStorage" if faulty else "durability.S3Storage")
        assert said.get("rsm.config.durability.storage") == ("durability.S3Storage" if faulty else None)
