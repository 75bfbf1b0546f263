"""A budget that is lowered while the auditor runs: it looks more rarely, says how late it is, and skips nothing."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from harness.audit.engine.looks import LookReason
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import AuditorProcess, auditing, bootstrap, controllers
from suites.audit.test_audit_command import metrics
from suites.gate.cluster_probes import observer, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PARTITIONS, PER_TOPIC = 1000, 100
MEASURED_S: Final = 60.0
SHARE: Final = 0.01
TOLERANCE: Final = 0.005  # a look that the budget let begin is paid for afterwards
ROUND_S: Final = 3.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(), backend=backend) as started, observer(started) as admin:
        admin.create_topics(
            [Topic(name=f"many-{number}", partitions=PER_TOPIC) for number in range(PARTITIONS // PER_TOPIC)], 180
        )
        yield started


def share(auditor: AuditorProcess, for_s: float) -> float:
    """The share of one processor that it uses during this time."""

    def used_s() -> float:
        fields = Path(f"/proc/{auditor.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    before_s, begun_s = used_s(), time.monotonic()
    time.sleep(for_s)  # a share is one of a time
    return (used_s() - before_s) / (time.monotonic() - begun_s)


def quiet_share(auditor: AuditorProcess) -> tuple[float, float]:
    """The share of one processor, and the looks a second, in a minute without a look that no budget delays.

    Brokers on a busy machine may be late for their heartbeats, and each change of a partition is looked at.
    """
    urgent = {}
    for _ in range(3):
        before = auditor.status()["vitals"]["ordered_looks"]
        kept = share(auditor, MEASURED_S)
        after = auditor.status()["vitals"]["ordered_looks"]
        looks = {reason: after[reason] - before[reason] for reason in after}
        print(f"{100 * kept:.2f} % of a processor, looks by reason: {looks}")
        urgent = {reason: count for reason, count in looks.items() if reason != LookReason.ROUND and count}
        if not urgent:
            return kept, looks[LookReason.ROUND] / MEASURED_S
    raise AssertionError(f"the cluster was not quiet in any of three minutes; looks in the last one: {urgent}")


def overdue_metric(port: int) -> float:
    found = re.search(r"^durability_audit_look_overdue_seconds ([0-9.e+]+)$", metrics(port), re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_a_lower_budget_is_kept_by_rarer_looks(cluster: JvmCluster, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    text = f'budget = "cpu={{}}%"\n[overdue]\nround_s = {ROUND_S}\n'
    rules.write_text(text.format(100))
    options = (*bootstrap(cluster), *controllers(cluster), "--rules", str(rules), "--metrics", "0")
    with auditing(tmp_path, *options) as auditor:
        port = auditor.row("started")["metrics_port"]
        vitals = wait_for(
            lambda: auditor.status()["vitals"],
            until=lambda seen: seen["round_ended_ns"] is not None and seen["partitions"] >= PARTITIONS,
            deadline_s=120,
            what="a round over all partitions",
            interval_s=1.0,
        )
        free = share(auditor, MEASURED_S / 3)
        looks_free = (auditor.status()["vitals"]["looks"] - vitals["looks"]) / (MEASURED_S / 3)
        rules.write_text(text.format(100 * SHARE))
        auditor.process.send_signal(signal.SIGHUP)
        auditor.row("changed")
        auditor.row("opened", rule="overdue", deadline_s=60)
        kept, looks_kept = quiet_share(auditor)
        status = auditor.status()
        print(
            f"\nwith cpu=100% {100 * free:.1f} % and {looks_free:.0f} looks a second, with cpu={100 * SHARE:.0f}% "
            f"{100 * kept:.2f} % and {looks_kept:.1f}; late by {status['vitals']['overdue_s']:.0f} s"
        )
        assert kept <= SHARE + TOLERANCE
        assert looks_kept < looks_free
        late_s = wait_for(
            lambda: (auditor.status()["vitals"]["overdue_s"], overdue_metric(port)),
            until=lambda seen: min(seen) > 0,
            deadline_s=60,
            what="the time by which looks are late, in status and metrics",
            interval_s=0.5,
        )
        print(f"late by {late_s} s in status and metrics")
        rules.write_text(text.format(100))
        auditor.process.send_signal(signal.SIGHUP)
        auditor.row("ended", rule="overdue", deadline_s=120)
