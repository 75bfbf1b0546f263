"""Settings as variables: images read each one under its own name, or it has no variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka.release.release import Release
from harness.kafka.settings.image_variables import setting_of, variable_of
from harness.kafka.settings.node_settings import Advertised, Node, node_properties


@pytest.mark.parametrize(
    ("setting", "variable"),
    [
        ("node.id", "KAFKA_NODE_ID"),
        ("log.dirs", "KAFKA_LOG_DIRS"),
        ("a_b.c-d", "KAFKA_A__B_C___D"),
        ("listener.name.client.ssl.keystore.location", "KAFKA_LISTENER_NAME_CLIENT_SSL_KEYSTORE_LOCATION"),
        ("rsm.config.kafka_id", "KAFKA_RSM_CONFIG_KAFKA__ID"),
    ],
)
def test_a_setting_and_its_variable_map_to_each_other(setting: str, variable: str) -> None:
    assert variable_of(setting) == variable
    assert setting_of(variable) == setting


@pytest.mark.parametrize(
    "setting",
    [
        "rsm.Config",  # is read in lower case
        "ssl.a.b.c",  # underscores around one letter: images differ
        "a._b",
        "a__b",
        "a_-b",
        "heap.opts",  # a variable of the scripts
        "data.dirs",
    ],
)
def test_a_setting_that_would_be_read_as_another_has_no_variable(setting: str) -> None:
    assert variable_of(setting) is None


@pytest.mark.parametrize("variable", ["PATH", "CLUSTER_ID", "KAFKA_HEAP_OPTS", "KAFKA_JMX_PORT", "KAFKA_SSL_A_B_C"])
def test_variables_that_are_not_settings_are_ignored(variable: str) -> None:
    assert setting_of(variable) is None


@pytest.mark.parametrize("version", ["3.7.0", "3.9.1", "4.3.1"])
@pytest.mark.parametrize("voters", ["static", "dynamic"])
@pytest.mark.parametrize("advertised", [None, Advertised(("h", 1), ("h", 2), ("h", 3))])
def test_every_setting_of_a_node_has_a_variable(version: str, voters: str, advertised: Advertised | None) -> None:
    node = Node(
        node=1,
        address="10.0.0.1",
        advertised=advertised,
        controllers=(101, 102, 103),
        brokers=3,
        data=Path("/d"),
        more_data=(Path("/e"),),
        voters="dynamic" if voters == "dynamic" else "static",
    )
    properties = node_properties(Release(version, "c", "here", ()), node)
    assert {key: setting_of(variable_of(key) or "") for key in properties} == {key: key for key in properties}
