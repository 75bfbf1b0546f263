"""The feeds fit into the memory of a process that watches 100,000 partitions for weeks: 64 MiB with everything else."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from harness.audit import feeds
from harness.kafka.storage.uuids import new_uuid
from suites.unit.kafka.storage.metadata_bytes import control_batch, log_folder, record_value
from suites.unit.kafka.storage.test_record_batch import rechecked

MODULES = sorted(module.name for module in pkgutil.iter_modules(feeds.__path__, f"{feeds.__name__}."))
NEVER = ("pyarrow", "pyspark", "pydantic", "confluent_kafka", "numpy", "click", "cryptography")
IMPORTED_MIB_MAX = 42  # measured 33.6
SNAPSHOT_MIB_MAX = 8  # more than that while 100,000 partitions are read; measured 1.5
PARTITIONS, TOPICS = 100_000, 1000

_PEAK = """
def peak_mib():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
"""


def run(program: str, *args: str) -> str:
    """Returns the output of a new interpreter."""
    command = [sys.executable, "-c", _PEAK + program, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_nothing_large_is_imported() -> None:
    printed = run(f"import sys, {', '.join(MODULES)}\nprint(peak_mib(), *(m for m in {NEVER!r} if m in sys.modules))")
    peak_mib, *found = printed.split()
    print(f"{len(MODULES)} modules: {peak_mib} MiB resident")
    assert found == []
    assert float(peak_mib) < IMPORTED_MIB_MAX


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A metadata log that begins with a snapshot of 100,000 partitions, in batches of several megabytes as in Kafka."""
    topics = [new_uuid() for _ in range(TOPICS)]
    values = [record_value("TopicRecord", Name=f"topic-{n}", TopicId=topic) for n, topic in enumerate(topics)]
    directories = tuple(new_uuid() for _ in range(3))
    values += [
        record_value(
            "PartitionRecord",
            1,
            PartitionId=n // TOPICS,
            TopicId=topics[n % TOPICS],
            Replicas=(1, 2, 3),
            Isr=(1, 2, 3),
            Leader=1,
            Directories=directories,
        )
        for n in range(PARTITIONS)
    ]
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 64 << 20)
    for delta, value in enumerate(values):
        assert builder.append(delta, 1, None, value, []) is not None
    batch = rechecked(bytearray(builder.build()))
    assert len(batch) > 10 << 20
    header, footer = control_batch(0, "SnapshotHeaderRecord"), control_batch(len(values), "SnapshotFooterRecord")
    return log_folder(tmp_path, {200_000: b""}, {"00000000000000200000-0000000001": header + batch + footer})


def test_a_snapshot_of_many_partitions_is_never_in_memory_as_a_whole(folder: Path) -> None:
    program = """
import sys
from pathlib import Path
from harness.audit.feeds.directory_feed import DirectoryFeed
feed = DirectoryFeed(Path(sys.argv[1]), lambda: None)
before = peak_mib()
portion = feed.poll(1.0)
print(sum(1 for entry in portion.snapshot.entries if entry.kind == "PartitionRecord"), peak_mib() - before)
feed.close()
"""
    partitions, more_mib = run(program, str(folder)).split()
    print(f"{partitions} partitions: {more_mib} MiB more")
    assert int(partitions) == PARTITIONS
    assert float(more_mib) < SNAPSHOT_MIB_MAX
