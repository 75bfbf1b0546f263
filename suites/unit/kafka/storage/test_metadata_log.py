"""The metadata log of a node: real files of several releases, and damage of every kind."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kafka.storage.message_reader import BROKEN, MessageReader
from harness.kafka.storage.message_schema import NO_VERSIONS, Versions, definitions
from harness.kafka.storage.metadata_log import MetadataLogReader
from harness.model.history.changes import ProblemKind
from harness.model.history.fold import fold
from harness.model.history.log import Entry, NodeLog, Record, Unreadable, Value
from suites.unit.kafka.storage.metadata_bytes import (
    control_batch,
    data_batch,
    encoded,
    log_folder,
    message,
    record_value,
    tags,
)
from suites.unit.kafka.storage.test_record_batch import batch_bytes

NOOP = record_value("NoOpRecord")
TOPIC = record_value("TopicRecord", Name="orders", TopicId="AAAAAAAAAAAAAAAAAAAABw")
GZIP = 1
REAL = Path(__file__).parent / "metadata_log"
HEADER = control_batch(0, "SnapshotHeaderRecord", LastContainedLogTimestamp=77)
FOOTER = control_batch(2, "SnapshotFooterRecord")


def entries(log: NodeLog) -> list[Entry]:
    return [entry for batch in log.batches for entry in batch.entries]


def read(directory: Path, *segments: bytes, **snapshots: bytes) -> NodeLog:
    """The log of node 7, in one segment for each of `segments`."""
    files = {10 * at: data for at, data in enumerate(segments)}
    log_folder(directory, files, {name[1:].replace("_", "-"): data for name, data in snapshots.items()})
    return MetadataLogReader().read(7, [directory])


def strange(directory: Path, data: bytes) -> Unreadable:
    """The only entry of a log of one record."""
    (entry,) = entries(read(directory, data_batch(0, data)))
    assert isinstance(entry, Unreadable)
    return entry


# Real files


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_files_of_a_real_cluster_are_read_in_full(release: str) -> None:
    """A topic lost its leader, got one by an unclean election, and was deleted and created again."""
    log = MetadataLogReader().read_folder(101, REAL / release)
    assert log.torn is None
    assert [snapshot.problem for snapshot in log.snapshots] == [None]
    every = [*entries(log), *log.snapshots[0].entries]
    assert [entry for entry in every if isinstance(entry, Unreadable)] == []
    assert [entry.offset for entry in entries(log)] == list(range(log.end))
    history = fold([log], high_watermark=log.end)
    others = [ProblemKind.MISSING_VOTER] * (len(history.voters) - 1)
    assert ([problem.kind for problem in history.problems], history.unknown) == (others, ())
    assert [election.after.leader for election in history.elections() if election.unclean] == [2]
    assert [life.deleted is not None for life in history.topics if life.topic == "probe"] == [True, False]


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_a_real_snapshot_has_what_the_log_says(release: str) -> None:
    log = MetadataLogReader().read_folder(101, REAL / release)
    history = fold([log], snapshots_since_ms=0)
    assert [(row.node, row.differences) for row in history.snapshots] == [(101, 0)]


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_a_real_log_that_begins_with_its_snapshot_ends_in_the_same_state(release: str) -> None:
    whole = MetadataLogReader().read_folder(101, REAL / release)
    (start,) = whole.snapshots
    rest = tuple(batch for batch in whole.batches if batch.base_offset >= start.end_offset)
    histories = [fold([log], [101]) for log in (whole, NodeLog(101, rest, (start,)))]
    ends = [{life.topic_id for life in history.topics if life.deleted is None} for history in histories]
    assert ends[0] == ends[1]
    levels = [history.features_at(1 << 62) for history in histories]
    assert levels[0] == levels[1] != {}


# Messages


@pytest.mark.parametrize("kind", ["metadata", "control"])
def test_every_message_comes_back_in_every_version(kind: str) -> None:
    for found in definitions(kind).values():
        last = found.versions.last
        assert last is not None
        for version in range(found.versions.first, last + 1):
            data = encoded(found.fields, version, {})
            decoded = found.decode(MessageReader(data), version)
            expected = {field.name for field in found.fields if version in field.versions}
            assert decoded.keys() == expected


def test_there_are_all_messages_of_kafka_4_4() -> None:
    assert definitions("metadata").keys() == set(range(30)) - {6, 13, 16}
    assert definitions("control").keys() == {2, 3, 4, 5, 6}


def test_fields_that_are_given_come_back(tmp_path: Path) -> None:
    data = record_value("PartitionChangeRecord", 2, PartitionId=4, Isr=(1, 2), Leader=2, Directories=None)
    endpoint: Value = {"Name": "C", "Host": "h", "Port": 65535, "SecurityProtocol": 0}
    broker = record_value("RegisterBrokerRecord", 4, BrokerId=1, EndPoints=(endpoint,), Rack=None, LogDirs=())
    change, registered = entries(read(tmp_path, data_batch(0, data, broker)))
    assert isinstance(change, Record)
    assert isinstance(registered, Record)
    assert (change.offset, change.kind, change.version, change.epoch) == (0, "PartitionChangeRecord", 2, 1)
    assert (change.integer("PartitionId"), change.integers("Isr"), change.integer("Leader")) == (4, (1, 2), 2)
    assert (change.fields["Replicas"], change.fields["LeaderRecoveryState"]) == (None, -1)
    assert (registered.offset, registered.fields["EndPoints"], registered.fields["Rack"]) == (1, (endpoint,), None)


def test_versions_of_a_definition() -> None:
    assert [version in Versions.parse("1-2") for version in range(4)] == [False, True, True, False]
    assert [version in Versions.parse("3+") for version in (2, 3, 99)] == [False, True, True]
    assert [version in Versions.parse("0") for version in (0, 1)] == [True, False]
    assert 0 not in NO_VERSIONS


# Unknown records


@pytest.mark.parametrize(
    ("data", "seen", "why"),
    [
        (b"\2" + NOOP[1:], (2, None, None), "frame version 2"),
        (b"\1\x63\0\0", (1, 99, 0), "no message has the number 99"),
        (b"\1\2\1" + TOPIC[3:], (1, 2, 1), "TopicRecord has no version 1 here"),
        (TOPIC[:-1] + tags({9: b"xy"}), (1, 2, 0), "unknown tagged field 9 of 2 bytes"),
        (TOPIC + b"\0", (1, 2, 0), "1 bytes after TopicRecord"),
        (TOPIC[:-1], (1, 2, 0), "index out of range"),
        (b"\1\2\0\0" + bytes(16) + b"\0", (1, 2, 0), "Name is null"),
        (b"", (None, None, None), "index out of range"),
    ],
)
def test_what_is_unknown_is_returned(
    tmp_path: Path, data: bytes, seen: tuple[int | None, int | None, int | None], why: str
) -> None:
    entry = strange(tmp_path, data)
    assert (entry.frame, entry.key, entry.version) == seen
    assert why in entry.why
    assert entry.time_ms > 0


def test_records_beside_an_unknown_one_are_read(tmp_path: Path) -> None:
    kept = entries(read(tmp_path, data_batch(0, TOPIC, b"\1\x63\0\0", NOOP)))
    assert [type(entry) for entry in kept] == [Record, Unreadable, Record]
    assert [entry.offset for entry in kept] == [0, 1, 2]


def test_a_compressed_batch_is_unknown(tmp_path: Path) -> None:
    (entry,) = entries(read(tmp_path, data_batch(0, *[TOPIC] * 9, codec=GZIP)))
    assert isinstance(entry, Unreadable)
    assert entry.why == "a batch with compression gzip"


def test_an_unknown_control_record_is_returned(tmp_path: Path) -> None:
    data = batch_bytes(0, [b"\0\0"], leader_epoch=1, attributes=0x20, key=struct.pack(">hh", 0, 12))
    (entry,) = entries(read(tmp_path, data))
    assert isinstance(entry, Unreadable)
    assert (entry.key, entry.why) == (12, "a control record: no control record has the number 12")


def test_a_leader_of_a_dynamic_quorum_names_directories(tmp_path: Path) -> None:
    voters: Value = ({"VoterId": 3, "VoterDirectoryId": "AAAAAAAAAAAAAAAAAAAABw"},)
    (entry,) = entries(read(tmp_path, control_batch(0, "LeaderChangeMessage", Version=1, LeaderId=3, Voters=voters)))
    assert isinstance(entry, Record)
    assert (entry.version, entry.integer("LeaderId"), entry.fields["Voters"]) == (1, 3, voters)


# The end of the log


def test_segments_follow_each_other(tmp_path: Path) -> None:
    log = read(tmp_path, data_batch(0, *[NOOP] * 10), data_batch(10, NOOP))
    assert (log.start, log.end, log.torn) == (0, 11, None)


@pytest.mark.parametrize("kept", [1, 20, 60, 61, 70])
def test_a_torn_batch_ends_the_log(tmp_path: Path, kept: int) -> None:
    first = data_batch(0, TOPIC)
    log = read(tmp_path, first + data_batch(1, TOPIC)[:kept])
    assert log.end == 1
    assert log.torn is not None
    assert (log.torn.position, log.torn.size_bytes) == (len(first), kept)


def test_zeros_at_the_end_are_torn_too(tmp_path: Path) -> None:
    log = read(tmp_path, data_batch(0, NOOP) + bytes(100))
    assert log.torn is not None
    assert log.torn.reason == "zeros"


def test_a_wrong_checksum_ends_the_log_and_later_segments_do_not_count(tmp_path: Path) -> None:
    damaged = bytearray(data_batch(1, TOPIC))
    damaged[-1] ^= 1
    log = read(tmp_path, data_batch(0, NOOP) + damaged, data_batch(10, NOOP))
    assert (log.end, log.torn and log.torn.reason) == (1, "the checksum is wrong")


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (data_batch(2, NOOP), "offset 2 follows 0"),
        (data_batch(0, NOOP), "offset 0 follows 0"),
        (data_batch(1, NOOP, epoch=0), "leader epoch 0 follows 1"),
    ],
)
def test_batches_that_do_not_follow_each_other_end_the_log(tmp_path: Path, second: bytes, reason: str) -> None:
    log = read(tmp_path, data_batch(0, NOOP) + second)
    assert (log.end, log.torn and log.torn.reason) == (1, reason)


def test_a_later_epoch_follows(tmp_path: Path) -> None:
    log = read(tmp_path, data_batch(0, NOOP) + data_batch(1, NOOP, epoch=5))
    assert (log.end, log.last_epoch, log.torn) == (2, 5, None)


def test_a_node_without_a_log_has_an_empty_one(tmp_path: Path) -> None:
    log = MetadataLogReader().read(7, [tmp_path / "absent", tmp_path])
    assert (log.node, log.end, log.last_epoch, log.torn) == (7, 0, -1, None)


def test_a_disk_that_cannot_be_read_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_folder(tmp_path, {0: data_batch(0, NOOP)})

    def refuse(self: Path, *args: object, **kwargs: object) -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", refuse)
    log = MetadataLogReader().read(7, [tmp_path])
    assert log.torn is not None
    assert log.torn.reason == "it cannot be read (Input/output error)"


def test_a_batch_of_two_nodes_is_decoded_once(tmp_path: Path) -> None:
    reader = MetadataLogReader()
    logs = []
    for node in (1, 2):
        log_folder(tmp_path / str(node), {0: data_batch(0, TOPIC)})
        logs.append(reader.read(node, [tmp_path / str(node)]))
    assert logs[0].batches[0] is logs[1].batches[0]


# Snapshots


def test_a_snapshot_is_read_with_its_time(tmp_path: Path) -> None:
    name = {"_00000000000000000020_0000000003": HEADER + data_batch(1, TOPIC) + FOOTER}
    log = read(tmp_path, **name)
    (snapshot,) = log.snapshots
    assert (snapshot.end_offset, snapshot.epoch, snapshot.time_ms, snapshot.problem) == (20, 3, 77, None)
    kinds = Counter(entry.kind for entry in snapshot.entries if isinstance(entry, Record))
    assert kinds == {"SnapshotHeaderRecord": 1, "TopicRecord": 1, "SnapshotFooterRecord": 1}
    assert (log.start, log.end, log.last_epoch) == (20, 20, 3)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (HEADER + data_batch(1, TOPIC), "it has no header or no footer"),
        (data_batch(1, TOPIC) + FOOTER, "it has no header or no footer"),
        (b"", "it has no header or no footer"),
        (HEADER + data_batch(1, TOPIC) + FOOTER[:-3], "a batch of 75 bytes, of which 72 are there"),
        (HEADER + data_batch(1, TOPIC)[:-1] + b"\7" + FOOTER, "the checksum is wrong"),
    ],
)
def test_a_damaged_snapshot_has_a_problem_and_is_not_used(tmp_path: Path, data: bytes, problem: str) -> None:
    log = read(tmp_path, _00000000000000000020_0000000003=data)
    assert [snapshot.problem for snapshot in log.snapshots] == [problem]
    assert (log.end, log.last_epoch) == (0, -1)


def test_unfinished_and_deleted_snapshots_do_not_count(tmp_path: Path) -> None:
    folder = log_folder(tmp_path, {})
    for suffix in ("checkpoint.part", "checkpoint.deleted"):
        (folder / f"00000000000000000020-0000000003.{suffix}").write_bytes(b"x")
    assert MetadataLogReader().read(7, [tmp_path]).snapshots == ()


# Anything else


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for kind in ("metadata", "control"):
        for found in definitions(kind).values():
            try:
                found.decode(MessageReader(data), 0)
            except BROKEN:
                continue


@given(st.data())
def test_a_partition_change_comes_back(data: st.DataObject) -> None:
    brokers = st.lists(st.integers(0, 9), max_size=4).map(tuple)
    names = ("Isr", "Replicas", "EligibleLeaderReplicas", "LastKnownElr")
    chosen = {name: data.draw(st.none() | brokers) for name in names} | {"Leader": data.draw(st.integers(-2, 9))}
    _, found = message("metadata", "PartitionChangeRecord")
    decoded = found.decode(MessageReader(encoded(found.fields, 2, chosen)), 2)
    assert {name: decoded[name] for name in chosen} == chosen
