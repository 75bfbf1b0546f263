"""A node that ends before it has started: a crash of the release under test, unless something else explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.clusters.processes.runner import ProcessState
from harness.model.errors import HarnessFailure
from harness.model.scenario.scenario import ClusterShape
from suites.unit.clusters.nodes.without_processes import without_processes

UP = "[..] Kafka Server started (kafka.server.KafkaRaftServer)\n"
BROKEN = "[..] ERROR Exiting Kafka (kafka.Kafka$)\njava.lang.NoClassDefFoundError: org/HdrHistogram/Recorder\n"
REFUSED = "org.apache.kafka.common.config.ConfigException: Invalid value 3 for configuration x\n"


class Runner:
    """Each node logs its line as soon as it starts. One that does not say that it is up ends."""

    def __init__(self, logged: dict[str, str]) -> None:
        self.logged = logged
        self.started: list[str] = []

    def start(self, name: str, argv: Any, *, cwd: Path, **_: Any) -> None:
        (cwd / "logs").mkdir(exist_ok=True)
        (cwd / "logs" / "server.log").write_text(self.logged[name])
        self.started.append(name)

    def status(self) -> dict[str, ProcessState]:
        return {
            name: ProcessState(7, None, None) if self.logged[name] == UP else ProcessState(7, 1, 5)
            for name in self.started
        }


def cluster_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: str, **shape: Any) -> tuple[JvmCluster, Runner]:
    monkeypatch.setattr(JvmCluster, "_wait_proxies", lambda _: None)
    runner = Runner({"b1": broker, "c101": UP})
    return without_processes(tmp_path, runner, ClusterShape(brokers=1, **shape)), runner


def test_a_cluster_that_is_up_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, runner = cluster_of(tmp_path, monkeypatch, UP)
    cluster.bring_up()
    cluster.bring_up()
    assert sorted(runner.started) == ["b1", "c101"]


def test_a_node_that_ends_before_it_has_started_has_ended_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = cluster_of(tmp_path, monkeypatch, BROKEN)
    with pytest.raises(HarnessFailure, match=r"^b1 ended before it had started \(exit code 1\): .* Exiting Kafka"):
        cluster.bring_up()
    (found,) = cluster.unexpected_exits()
    assert (found.name, found.code, found.machine_doubt) == ("b1", 1, None)
    assert "server-1.log" in cluster.logs()


@pytest.mark.parametrize(("logged", "shape"), [(REFUSED, {}), (BROKEN, {"starts_on": "3.9.1"})])
def test_refused_settings_and_an_earlier_release_say_nothing_of_the_release_under_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: str, shape: dict[str, str]
) -> None:
    cluster, _ = cluster_of(tmp_path, monkeypatch, logged, **shape)
    with pytest.raises(HarnessFailure, match="b1 ended before it had started"):
        cluster.bring_up()
    assert cluster.exits() == []
