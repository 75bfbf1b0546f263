"""The auditor beside brokers under load: its processor time, the latency of producers with and without it, and how fast
an alarm comes.

Windows with and without the auditor alternate on one cluster. BENCH_PAIRS, BENCH_SECONDS, BENCH_PARTITIONS and
BENCH_ALARMS set how many windows, how long each is, and how much there is to watch. The order changes with each pair,
so that a drift of the machine counts on both sides.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.model.scenario.scenario import ClusterShape, Topic
from suites.audit.auditing import AuditorProcess, auditing, bootstrap, controllers
from suites.gate.cluster_probes import quiet, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600)]

PAIRS: Final = int(os.environ.get("BENCH_PAIRS", "4"))
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "30"))
PARTITIONS: Final = int(os.environ.get("BENCH_PARTITIONS", "1000"))
ALARMS: Final = int(os.environ.get("BENCH_ALARMS", "40"))
RATE: Final = int(os.environ.get("BENCH_RATE", "2000"))  # records in a second
PER_TOPIC: Final = 100
VALUE: Final = b"v" * 500
CPU_RATIO_MAX: Final = 0.05
TICKS: Final = os.sysconf("SC_CLK_TCK")
WEEK, HOUR = "604800000", "3600000"


@dataclass(frozen=True, slots=True)
class Window:
    """Processor time in seconds, and latencies of acks in ms."""

    with_auditor: bool
    brokers_s: float
    auditor_s: float
    acked: int
    p50_ms: float
    p99_ms: float


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), ClusterShape(), backend="processes") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(watched: JvmCluster) -> Iterator[AdminView]:
    with AdminView({node: watched.direct_address(node) for node in watched.brokers}) as view:
        view.create_topics(
            [Topic(name=f"load-{number}", partitions=PER_TOPIC) for number in range(PARTITIONS // PER_TOPIC)], 180
        )
        yield view


class Load:
    """One producer with acks=all that sends RATE records a second to all partitions in turn, and their latencies."""

    def __init__(self, cluster: JvmCluster) -> None:
        self._settings = quiet({"bootstrap.servers": cluster.bootstrap_direct(), "acks": "all", "linger.ms": 5})
        self._latencies_ms: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def take(self) -> list[float]:
        """The latencies since the last call."""
        taken, self._latencies_ms = self._latencies_ms, []
        return sorted(taken)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _acked(self, error: KafkaError | None, message: Message) -> None:
        latency_s = message.latency()
        if error is None and latency_s is not None:
            self._latencies_ms.append(1000 * latency_s)

    def _send(self) -> None:
        producer = Producer(self._settings)
        sent, begun_s = 0, time.monotonic()
        while not self._stop.wait(0.02):
            due = int((time.monotonic() - begun_s) * RATE)
            for number in range(sent, due):
                place = number * 7 % PARTITIONS
                topic, partition = f"load-{place // PER_TOPIC}", place % PER_TOPIC
                try:
                    producer.produce(topic, VALUE, partition=partition, on_delivery=self._acked)
                except BufferError:  # a stall: it catches up afterwards
                    due = number
                    break
            sent = due
            producer.poll(0)
        producer.flush(30)


def cpu_s(pid: int) -> float:
    """The processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def window(cluster: JvmCluster, load: Load, auditor: AuditorProcess | None) -> Window:
    pids = [cluster.pid(broker) for broker in cluster.brokers]
    load.take()
    before = sum(map(cpu_s, pids)), 0.0 if auditor is None else cpu_s(auditor.process.pid)
    time.sleep(SECONDS)
    after = sum(map(cpu_s, pids)), 0.0 if auditor is None else cpu_s(auditor.process.pid)
    latencies = load.take()
    assert latencies, f"no record was acknowledged within {SECONDS} s: the machine is too busy to measure anything"
    return Window(
        with_auditor=auditor is not None,
        brokers_s=after[0] - before[0],
        auditor_s=after[1] - before[1],
        acked=len(latencies),
        p50_ms=latencies[len(latencies) // 2],
        p99_ms=latencies[int(len(latencies) * 0.99)],
    )


def test_the_auditor_costs_little_beside_brokers_under_load(
    watched: JvmCluster, admin: AdminView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows: list[Window] = []
    load = Load(watched)
    try:
        time.sleep(SECONDS / 2)  # the brokers warm up
        for pair in range(PAIRS):
            for with_auditor in (True, False) if pair % 2 else (False, True):
                with ExitStack() as stack:
                    options = (*bootstrap(watched), *controllers(watched))
                    auditor = stack.enter_context(auditing(tmp_path, *options)) if with_auditor else None
                    time.sleep(3)  # a process that has just started costs more, with or without it
                    windows.append(window(watched, load, auditor))
                    assert auditor is None or auditor.status()["vitals"]["partitions"] >= PARTITIONS
    finally:
        load.close()
    with capsys.disabled():
        for one in windows:
            print(
                f"\n{'with' if one.with_auditor else 'without':8} brokers {one.brokers_s:6.2f} s, auditor "
                f"{one.auditor_s:5.2f} s of processor time; {one.acked:,} acks, p50 {one.p50_ms:.1f} ms, p99 "
                f"{one.p99_ms:.1f} ms",
                end="",
            )
        print(f"\n{compared(windows)}")
    having = [one for one in windows if one.with_auditor]
    assert all(one.acked for one in windows)
    assert sum(one.auditor_s for one in having) / sum(one.brokers_s for one in having) <= CPU_RATIO_MAX


def compared(windows: list[Window]) -> str:
    """Both sides in one sentence. The noise is how much the windows without the auditor differ among themselves."""
    having, lacking = ([one for one in windows if one.with_auditor is wanted] for wanted in (True, False))
    ratio = sum(one.auditor_s for one in having) / sum(one.brokers_s for one in having)
    p99 = [statistics.median(one.p99_ms for one in side) for side in (having, lacking)]
    pairs = [with_.p99_ms / without.p99_ms for with_, without in zip(having, lacking, strict=True)]
    noise = max(one.p99_ms for one in lacking) / min(one.p99_ms for one in lacking)
    return (
        f"auditor / brokers: {100 * ratio:.1f} % of processor time; p99 with {p99[0]:.1f} ms, without {p99[1]:.1f} ms "
        f"(medians); with / without by pair {', '.join(f'{pair:.2f}' for pair in pairs)}; windows without it differ by "
        f"a factor of {noise:.2f}"
    )


def test_an_alarm_comes_soon_after_its_record(
    watched: JvmCluster, admin: AdminView, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record's time is the clock of the controller, which is that of this machine."""
    admin.create_topics(
        [Topic(name=f"lowered-{number}", partitions=1, config={"retention.ms": WEEK}) for number in range(ALARMS)], 180
    )
    delays_ms = []
    load = Load(watched)
    try:
        with auditing(tmp_path, *bootstrap(watched), *controllers(watched)) as auditor:
            for number in range(ALARMS):
                admin.alter_topic_config(f"lowered-{number}", {"retention.ms": HOUR})
            for number in range(ALARMS):
                row = auditor.row("opened", rule="setting_weakened", cause=cause(auditor, f"lowered-{number}"))
                delays_ms.append(1000 * (seconds(row["opened"]) - seconds(row["places"][0]["at"])))
    finally:
        load.close()
    delays_ms.sort()
    with capsys.disabled():
        print(
            f"\nrecord to alarm, {ALARMS} of them, {PARTITIONS:,} partitions: median "
            f"{statistics.median(delays_ms):.0f} ms, p99 {delays_ms[int(0.99 * len(delays_ms))]:.0f} ms, most "
            f"{delays_ms[-1]:.0f} ms"
        )
    assert len(delays_ms) == ALARMS


def cause(auditor: AuditorProcess, topic: str) -> str:
    """The cause of the alarm about a topic, as soon as it is there."""
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for row in auditor.read():
            if row["event"] == "opened" and row["places"][0]["topic"] == topic:
                return str(row["cause"])
        time.sleep(0.1)
    raise AssertionError(f"no alarm about {topic} came within 60 s")


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
