"""An existing cluster as the harness sees it: what its hooks do to nodes and links. The commands are real."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clusters.attached.cluster import AttachedCluster
from harness.clusters.attached.discovery import Door
from harness.clusters.base import party
from harness.kafka.release.release import Release
from harness.model.errors import BadInput, HarnessFailure
from harness.model.hooks import read_hooks
from harness.model.live_cluster import LiveCluster
from suites.unit.live_clusters import live

# A node is down, or a link is cut, while its file is there.
HOOKS = "".join(
    f"""
[{operation}]
command = "touch {operation}-{of}"
inverse = "rm -f {operation}-{of}"
in_effect = "test -e {operation}-{of}"
undone = "test ! -e {operation}-{of}"
deadline_s = 5
"""
    for operation, of in (("kill", "{node}"), ("terminate", "{node}"), ("pause", "{node}"), ("cut", "{src}-{dst}"))
)


@pytest.fixture
def listening() -> Iterator[LiveCluster]:
    """A cluster whose brokers' addresses accept connections."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    yield replace(live(), brokers={number: server.getsockname() for number, server in enumerate(servers, 1)})
    for server in servers:
        server.close()


def cluster(folder: Path, of: LiveCluster, hooks: str | None = HOOKS) -> AttachedCluster:
    file = folder / "hooks.toml"
    file.write_text(hooks or "")
    release = Release("4.4.0", "", "the cluster", ())
    return AttachedCluster(
        Door("h:1"), of, release, read_hooks(file) if hooks else None, folder / "own" / "x-hooks.log"
    )


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("hooks.toml", "own"))


def test_a_node_is_down_until_it_is_started(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    assert one.running(2)
    one.kill(2, 3)
    assert there(tmp_path) == ["kill-2", "kill-3"]
    assert (one.running(1), one.running(2)) == (True, False)
    one.kill(2)  # which is down
    one.start(2, 3)
    assert there(tmp_path) == []
    assert one.running(2)
    one.stop()


def test_a_node_that_does_not_listen_is_not_running(tmp_path: Path, listening: LiveCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    one = cluster(tmp_path, replace(listening, brokers={**listening.brokers, 3: address}), None)
    assert (one.running(1), one.running(3)) == (True, False)


def test_a_node_is_paused_until_it_is_resumed(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    one.pause(1)
    assert (one.paused(1), one.paused(2)) == (True, False)
    one.resume(1, 2)
    assert not one.paused(1)
    one.stop()


def test_healing_and_stopping_undo_whatever_is_left(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    one.terminate(1)
    one.pause(2)
    one.links.cut(party(1), party(3), "silent")
    assert there(tmp_path) == ["cut-1-3", "pause-2", "terminate-1"]
    one.heal()
    assert there(tmp_path) == []
    one.kill(3)
    one.stop()
    assert there(tmp_path) == []


def test_what_cannot_be_undone_is_an_error_with_the_place_of_the_log(tmp_path: Path, listening: LiveCluster) -> None:
    text = HOOKS.replace('inverse = "rm -f kill-{node}"', 'inverse = "true"').replace(
        "deadline_s = 5", "deadline_s = 0.5"
    )
    one = cluster(tmp_path, listening, text)
    one.kill(1)
    with pytest.raises(
        HarnessFailure, match=r"hooks are NOT undone: .*kill of node 1.*undo them by hand, see .*x-hooks.log"
    ):
        one.stop()


def test_links_between_nodes_are_cut_and_healed(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    one.links.cut(party(1), party(2), "refusing", "requests")
    assert [line.split(" ")[0] for line in one.links.active()] == ["cut"]
    one.links.heal(party(1), party(2), "slow")  # it is not slow
    assert there(tmp_path) == ["cut-1-2"]
    one.links.heal(party(1), party(2))
    assert (one.links.active(), there(tmp_path)) == ([], [])
    assert party(1) in one.links.parties_reaching(party(2))
    assert party(2) not in one.links.parties_reaching(party(2))
    one.stop()


def test_what_no_hook_can_do_is_refused(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    with pytest.raises(BadInput, match=r"add \[slow\] to --hooks"):
        one.links.slow(party(1), party(2), latency_ms=5)
    with pytest.raises(BadInput, match="is none between two nodes"):
        one.links.cut("client", party(2), "silent")
    one.stop()
    bare = cluster(tmp_path, listening, None)
    assert bare.capabilities == set()
    with pytest.raises(HarnessFailure, match="no hooks were given"):
        bare.kill(1)
    bare.heal()
    bare.stop()


def test_files_and_processes_are_out_of_reach(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening, None)
    for closed in (one.server_log, one.wipe, one.directory_id, one.log_directories):
        with pytest.raises(HarnessFailure, match="the files and the process of node 1 are out of reach"):
            closed(1)
    assert one.exits() is None
    assert one.logs() == {}


def test_the_output_of_hooks_is_a_log_of_the_cluster(tmp_path: Path, listening: LiveCluster) -> None:
    one = cluster(tmp_path, listening)
    one.kill(1)
    one.stop()
    (name,) = one.logs()
    assert name == "hooks.log"
    assert "kill of node 1, inverse" in one.logs()[name].read_text()


def test_clients_get_the_addresses_of_all_brokers_also_of_ipv6(tmp_path: Path) -> None:
    one = cluster(tmp_path, replace(live(), brokers={2: ("::1", 9), 1: ("h", 8), 3: ("i", 7)}), None)
    assert one.bootstrap() == "h:8,[::1]:9,i:7"
