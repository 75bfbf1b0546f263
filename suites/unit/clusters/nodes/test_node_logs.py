"""What is read out of the logs of nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.nodes.node_logs import LogWatch, last_error_of, tail


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


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            ["INFO a", "java.lang.NoClassDefFoundError: x", "Caused by: java.lang.Exception: y", "\t... 6 more"],
            "Caused by: java.lang.Exception: y",
        ),
        (["[..] ERROR Exiting Kafka (kafka.Kafka$)", "[..] INFO bye"], "[..] ERROR Exiting Kafka (kafka.Kafka$)"),
        (["INFO a", "INFO b", " "], "INFO b"),
        ([], "no output"),
    ],
)
def test_the_last_error_is_no_line_of_a_stack_trace(lines: list[str], error: str) -> None:
    assert last_error_of(lines) == error
