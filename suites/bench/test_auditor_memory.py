"""What the auditor keeps of a partition, on disk and in memory, with 100,000 of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PARTITIONS = int(os.environ.get("BENCH_PARTITIONS", "100000"))
RESIDENT_MIB_MAX = 64
BYTES_MAX = 500


def test_many_partitions_fit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "suites.bench.audited_partitions", str(PARTITIONS), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout.splitlines()[-1])
    bytes_each = figures["bytes"] / figures["partitions"]
    print(
        f"\n{figures['partitions']:,} partitions: {bytes_each:.0f} bytes each on disk; {figures['peak_mib']:.1f} MiB "
        f"resident at most, {figures['before_mib']:.1f} of it before the first; "
        f"{1e6 * figures['cpu_s'] / figures['looks']:.0f} CPU microseconds a look"
    )
    assert figures["partitions"] == PARTITIONS
    assert figures["alarms"].keys() <= {"blind"}  # a busy machine makes it late
    assert figures["peak_mib"] <= RESIDENT_MIB_MAX
    assert bytes_each <= BYTES_MAX
