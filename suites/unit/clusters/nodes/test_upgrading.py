"""Two releases in one cluster: which can be upgraded, which scenarios are valid, and what a node gets to run each."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import clusters
from harness.clusters.nodes import jvm_cluster, upgrading
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.clusters.processes.runner import ProcessState
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage
from harness.kafka.release.release import Release
from harness.kafka.release.repository import NotPublished
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import ClusterShape
from harness.model.version import PREVIOUS_MINOR, numbers_of
from suites.unit.clusters.nodes.without_processes import without_processes
from suites.unit.faults.steps.test_step_validation import with_steps
from suites.unit.model.scenario.test_toml import read, refused

SHAPE = ClusterShape(starts_on="3.9.1")
BEFORE = ClusterShape(starts_on=PREVIOUS_MINOR)
UP = '{ do = "roll", node = "brokers" }'
RAISE = '{ do = "raise_features" }'
OLD = 'starts_on = "3.9.1"'


def release(version: str, image: BrokerImage | None = None) -> Release:
    return Release(version, "abc", "here", (Path(f"/jars/kafka-{version}.jar"),), image=image)


@pytest.mark.parametrize(("version", "numbers"), [("4.3.1", (4, 3, 1)), ("3.9.2-SNAPSHOT", (3, 9, 2))])
def test_versions_are_compared_by_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert numbers_of(version) == numbers


def test_confluents_builds_count_as_kafkas() -> None:
    assert numbers_of("7.9.1-ccs") == (3, 9, 1)


def test_a_release_of_which_nothing_is_known_has_no_numbers() -> None:
    assert numbers_of("unknown") == ()


# --- which releases can be upgraded ---


@pytest.mark.parametrize("version", ["3.9.1", "3.9.0", "3.8.1"])
def test_an_upgrade_needs_a_newer_release(version: str) -> None:
    with pytest.raises(BadInput, match=rf"Kafka {version} is no upgrade of 3\.9\.1; give --kafka a newer release"):
        clusters.refuse_upgrade(SHAPE, release(version))


def test_an_image_cannot_be_upgraded_to() -> None:
    image = BrokerImage("apache/kafka:4.3.1", "sha256:1", LAYOUTS[0])
    with pytest.raises(BadInput, match=r"upgraded to one of image:apache/kafka:4\.3\.1; give --kafka a version"):
        clusters.refuse_upgrade(SHAPE, release("4.3.1", image))
    clusters.refuse_upgrade(ClusterShape(), release("4.3.1", image))


def test_an_earlier_release_may_come_from_maven_central(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []

    def resolve(spec: str, *, maven_repo: str | None, **_: Any) -> Release:
        asked.append(maven_repo)
        if maven_repo is not None:
            raise NotPublished("not here")
        return release(spec)

    monkeypatch.setattr(upgrading, "resolve", resolve)
    how: dict[str, Any] = {"cache": Path(), "progress": print}
    found = clusters.find_start(SHAPE, release("4.3.1"), maven_repo="https://staging", **how)
    assert found == release("3.9.1")
    assert asked == ["https://staging", None]
    assert clusters.find_start(ClusterShape(), release("4.3.1"), maven_repo=None, **how) is None
    monkeypatch.setattr(upgrading, "resolve", lambda *_, **__: (_ for _ in ()).throw(NotPublished("nowhere")))
    with pytest.raises(NotPublished, match="nowhere"):
        clusters.find_start(SHAPE, release("4.3.1"), maven_repo=None, **how)


def test_the_previous_minor_release_may_come_from_maven_central(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def newest_before(numbers: tuple[int, ...], *, maven_repo: str | None, **_: Any) -> Release:
        asked.append(maven_repo)
        if maven_repo is not None:
            raise NotPublished("not here")
        assert numbers == (4, 4, 0)
        return release("4.3.1")

    monkeypatch.setattr(upgrading, "newest_before", newest_before)
    found = clusters.find_start(
        BEFORE, release("4.4.0-rc1"), maven_repo="https://staging", cache=Path(), progress=print
    )
    assert (found, asked) == (release("4.3.1"), ["https://staging", None])


def test_the_first_release_with_kraft_has_no_previous_one() -> None:
    with pytest.raises(BadInput, match=r"no release before Kafka 3\.3\.2 has KRaft for production"):
        clusters.refuse_upgrade(BEFORE, release("3.3.2"))
    clusters.refuse_upgrade(BEFORE, release("3.4.0"))


def test_releases_know_on_which_one_a_shape_starts() -> None:
    both = clusters.Releases(release("4.3.1"), {"3.9.1": release("3.9.1")})
    assert both.start(SHAPE) == release("3.9.1")
    assert both.start(ClusterShape()) is None


# --- which scenarios are valid ---


def test_a_valid_upgrade_scenario_is_read() -> None:
    text = with_steps(UP, RAISE, '{ do = "downgrade_refused" }', shape=OLD)
    assert read(f"fresh = true\n{text}").shape.starts_on == "3.9.1"
    text = with_steps(UP, shape=f'starts_on = "{PREVIOUS_MINOR}"')
    assert read(f"fresh = true\n{text}").shape.starts_on == PREVIOUS_MINOR


@pytest.mark.parametrize(
    ("steps", "shape", "reported"),
    [
        ([UP], 'starts_on = "newest"', "starts_on = 'newest' is no version of Kafka; give one such as 3.9.1"),
        (['{ do = "hold", seconds = 1 }'], OLD, "starts_on needs a step that upgrades"),
        (['{ do = "roll", to = "start" }'], OLD, "starts_on needs a step that upgrades"),
        ([UP], "", 'the cluster has only one release; set starts_on = "3.9.1"'),
        ([UP, '{ do = "roll", node = "controllers" }'], OLD, "there is no majority left"),
        ([UP, RAISE, '{ do = "roll", to = "start", name = "b" }'], OLD, "'raise_features' raises feature levels"),
        ([RAISE, UP], OLD, "no node was upgraded"),
        ([UP, '{ do = "downgrade_refused" }'], OLD, "a downgrade is allowed until a feature level is raised"),
        (
            [UP, RAISE, '{ do = "downgrade_refused", node = "brokers" }'],
            OLD,
            "names 3 brokers, and this step takes one",
        ),
        ([UP, '{ do = "roll", to = "newest" }'], OLD, "unknown value 'newest'"),
    ],
)
def test_an_upgrade_scenario_without_sense_is_refused(steps: list[str], shape: str, reported: str) -> None:
    assert reported in refused(f"fresh = true\n{with_steps(*steps, shape=shape)}")


def test_an_upgrade_scenario_needs_a_cluster_of_its_own() -> None:
    assert "set fresh = true" in refused(with_steps(UP, shape=OLD))


# --- the files of a node ---


@pytest.fixture
def cluster(tmp_path: Path) -> JvmCluster:
    """A running broker and a running controller on 3.9.1, which can be upgraded to 4.3.1. No process is real."""
    runner = SimpleNamespace(running=True)
    runner.status = lambda: dict.fromkeys(("b1", "c101"), ProcessState(1, None if runner.running else 0, None))
    return without_processes(tmp_path, runner, ClusterShape(brokers=1, starts_on="3.9.1"))


def test_a_cluster_starts_on_the_release_that_its_shape_names(cluster: JvmCluster) -> None:
    assert cluster.release.version == "4.3.1"
    assert {node: cluster.release_of(node).version for node in (1, 101)} == {1: "3.9.1", 101: "3.9.1"}
    arguments = (cluster.directory / "nodes" / "b1" / "java.args").read_text()
    assert "/jars/3.9.1.jar" in arguments
    assert "-Dlog4j.configuration=" in arguments


def test_a_stopped_node_gets_the_other_release_and_keeps_its_disk(cluster: JvmCluster) -> None:
    cluster._runner.running = False  # type: ignore[attr-defined]
    node = cluster.directory / "nodes" / "b1"
    identity = (node / "data" / "meta.properties").read_text()
    cluster.use_release(1, "tested")
    arguments = (node / "java.args").read_text()
    assert "/jars/4.3.1.jar" in arguments
    assert "-Dlog4j2.configurationFile=" in arguments
    assert "SharedArchiveFile=4.3.1.jsa" in arguments
    assert "3.9.1" not in arguments
    assert "share.coordinator" in (node / "server.properties").read_text()
    assert (node / "data" / "meta.properties").read_text() == identity
    assert [cluster.release_of(node).version for node in (1, 101)] == ["4.3.1", "3.9.1"]
    cluster.use_release(1, "start")
    assert "share.coordinator" not in (node / "server.properties").read_text()


def test_a_full_disk_during_a_fault_is_a_failure_of_the_harness_in_one_sentence(
    cluster: JvmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/run/hosts")

    cluster._runner.running = False  # type: ignore[attr-defined]
    acts: dict[str, Callable[[], None]] = {
        "configure": lambda: cluster.use_release(1, "tested"),
        "reformat": lambda: cluster.wipe(1),
    }
    for name, act in acts.items():
        monkeypatch.setattr(jvm_cluster, name, fill)
        with pytest.raises(HarnessFailure, match=r"^/tmp/run/hosts cannot be written \(No space .*: free"):
            act()


def test_a_running_node_keeps_its_release(cluster: JvmCluster) -> None:
    with pytest.raises(HarnessFailure, match="b1 cannot be given another release while it runs"):
        cluster.use_release(1, "tested")
    with pytest.raises(HarnessFailure, match="'newest': the cluster has tested, start"):
        cluster.use_release(1, "newest")
    assert cluster.release_of(1).version == "3.9.1"


def test_an_expected_end_is_no_unexpected_exit(cluster: JvmCluster) -> None:
    cluster._runner.running = False  # type: ignore[attr-defined]
    cluster.let_end(1)
    cluster.let_end(101)
    states = cluster._runner.status()
    cluster._runner.status = lambda: {**states, "toxiproxy": ProcessState(2, None, None)}  # type: ignore[method-assign]
    assert cluster.unexpected_exits() == []
