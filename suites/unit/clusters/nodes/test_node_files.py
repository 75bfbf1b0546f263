"""The paths of a node's files, and watching its log."""

from __future__ import annotations

from pathlib import Path

from harness.clusters.nodes.node_files import LogWatch, NodeFiles, tail


def test_only_a_new_log_line_shows_that_a_node_has_started(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[..] Kafka Server started (kafka.server.KafkaRaftServer)\n")
    watch = LogWatch(log)
    assert not watch.seen()
    with log.open("a") as file:
        file.write("[..] Kafka Serv")
        file.flush()
        assert not watch.seen()
        file.write("er started (kafka.server.KafkaRaftServer)\n")
        file.flush()
        assert watch.seen()
    assert not LogWatch(tmp_path / "absent.log").seen()


def test_tail_returns_the_last_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert tail(log, 2) == "line 98\nline 99"
    assert tail(tmp_path / "absent.log") == ""


def test_paths_of_the_files_of_a_node(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path)
    assert files.log_directories == (tmp_path / "data",)
    assert NodeFiles(tmp_path, log_dirs=3).log_directories == tuple(tmp_path / n for n in ("data", "data-2", "data-3"))
    assert files.server_log.parent == files.console.parent
