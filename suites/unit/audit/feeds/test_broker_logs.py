"""Reasons for moved log starts, from lines that brokers of Kafka 4.4.0 wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.audit.feeds import broker_logs
from harness.audit.feeds.broker_logs import BrokerLogs
from harness.audit.look import LogStartReason
from harness.model.errors import BadInput

PLACE = "[UnifiedLog partition=aged-1, dir=/data/b2]"
CLASS = "(org.apache.kafka.storage.internals.log.UnifiedLog)"
MOVED = f"[2026-11-28 15:02:00,687] INFO {PLACE} Incremented log start offset to 1800 due to segment deletion {CLASS}\n"
SEGMENT = "LogSegment(baseOffset=0, size=908982, lastModifiedTime=1795878117364, largestRecordTimestamp=1795878117338)"
BREACH = (
    f"[2026-11-28 15:02:00,688] INFO {PLACE} Deleting segment {SEGMENT} due to log retention time 1000ms breach based "
    f"on the largest record timestamp in the segment {CLASS}\n"
)
SIZE = (
    f"[2026-11-28 15:02:00,688] INFO {PLACE} Deleting segment {SEGMENT} due to log retention size 1000 breach. "
    f"Log size after deletion will be 971982. {CLASS}\n"
)
CLIENT = (
    f"[2026-11-28 15:02:01,000] INFO {PLACE} Incremented log start offset to 2400 due to client delete records request "
    f"{CLASS}\n"
)
OTHER = "[2026-11-28 15:02:01,000] INFO [GroupCoordinator id=2] Elected. (x.Y)\n"


def parts(reasons: list[LogStartReason]) -> list[tuple[str, int, int, int, str, str]]:
    return [(r.topic, r.partition, r.broker, r.log_start, r.reason, r.breach) for r in reasons]


@pytest.fixture
def logs(log: Path) -> Iterator[BrokerLogs]:
    with closing(BrokerLogs(log.parent)) as followed:
        yield followed


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server-2.log"
    path.write_text(MOVED)  # before the start
    return path


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_deletion_names_the_setting_that_was_breached(log: Path, logs: BrokerLogs) -> None:
    write(log, OTHER + MOVED + BREACH)
    write(log, MOVED.replace("aged-1", "sized-orders-0") + SIZE.replace("aged-1", "sized-orders-0"))
    assert parts([*logs.poll()]) == [
        ("aged", 1, 2, 1800, "segment deletion", "retention time 1000ms breach"),
        ("sized-orders", 0, 2, 1800, "segment deletion", "retention size 1000 breach"),
    ]


def test_a_request_of_a_client_is_named_at_once(log: Path, logs: BrokerLogs) -> None:
    write(log, CLIENT)
    assert parts([*logs.poll()]) == [("aged", 1, 2, 2400, "client delete records request", "")]
    assert [*logs.poll()] == []


def test_a_line_that_is_half_written_is_read_later(log: Path, logs: BrokerLogs) -> None:
    write(log, CLIENT[:100])
    assert [*logs.poll()] == []
    write(log, CLIENT[100:])
    assert len([*logs.poll()]) == 1


def test_a_deletion_without_a_breach_is_told_after_a_second(
    log: Path, logs: BrokerLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_logs, "_HELD_S", 0.0)
    write(log, MOVED)
    assert parts([*logs.poll(), *logs.poll()]) == [("aged", 1, 2, 1800, "segment deletion", "")]


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_too(log: Path, logs: BrokerLogs) -> None:
    write(log, CLIENT)
    log.rename(log.with_name("server-2.log.1"))
    log.write_text(CLIENT.replace("2400", "2500"))
    assert [r.log_start for r in [*logs.poll(), *logs.poll()]] == [2400, 2500]


def test_a_broker_is_known_by_its_lines_before_the_name_of_the_file(log: Path, logs: BrokerLogs) -> None:
    write(
        log,
        "[2026-11-28 15:02:00,001] INFO [KafkaRaftServer nodeId=7] Kafka Server started (kafka.server.X)\n" + CLIENT,
    )
    assert [r.broker for r in logs.poll()] == [7]


def test_a_new_file_is_read_from_its_start(log: Path, logs: BrokerLogs) -> None:
    folder = log.parent / "broker-3"
    folder.mkdir()
    (folder / "server.log").write_text(CLIENT)
    assert [r.broker for r in logs.poll()] == [3]


def test_lines_of_a_leader_and_of_local_retention_are_told_apart(log: Path, logs: BrokerLogs) -> None:
    write(log, MOVED.replace("segment deletion", "leader offset increment"))
    write(log, MOVED.replace("log start offset to 1800 due to", "local log start offset to 1800 due to reason"))
    assert [r.reason for r in logs.poll()] == ["leader offset increment"]


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder"):
        BrokerLogs(tmp_path / "missing")
