"""Runs the whole auditor on a made cluster of many partitions, in a process of its own, and prints what it costs.

The records of the metadata log are made, and brokers in another process answer made offsets to the real requests. All
else is the real auditor with all of its rules, its looks over connections, its metrics and its budget.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.messages_only import import_messages_only

import_messages_only()  # as `durability audit` does

import harness.audit.service.running  # noqa: E402, F401 - the modules of a running auditor take memory, too
from harness.audit.alarms.metrics import Metrics  # noqa: E402
from harness.audit.engine.auditor import Auditor, Sources  # noqa: E402
from harness.audit.engine.looker import Asked  # noqa: E402
from harness.audit.feeds.feed import Portion  # noqa: E402
from harness.audit.look import PartitionLook  # noqa: E402
from harness.audit.rules.rule import rule_classes  # noqa: E402
from harness.audit.service.broker_looker import BrokerLooker  # noqa: E402
from harness.audit.service.budget import Budget  # noqa: E402
from harness.audit.service.budget_option import BudgetOption  # noqa: E402
from harness.audit.service.vitals import FACT, VitalSigns, Watch  # noqa: E402
from harness.audit.store.database import FILE, Database  # noqa: E402
from harness.kafka.admin.brokers import Brokers  # noqa: E402
from harness.model.history.log import LogBatch, Record, Snapshot, Value  # noqa: E402
from suites.bench.made_brokers import made_brokers  # noqa: E402

BROKERS: Final = range(1, 31)
PER_TOPIC: Final = 1_000
EPOCHS_MAX: Final = 8
ROUNDS: Final = 3
BROKERS_S: Final = 30.0


class Entries:
    """The records of a snapshot, made while they are read, as a feed decodes them."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def __iter__(self) -> Iterator[Record]:
        rng = random.Random(1)
        for topic in range(self.partitions // PER_TOPIC):
            topic_id = f"topic-{topic:016d}"
            yield Record(0, 1, 0, "TopicRecord", 0, {"Name": f"topic-{topic}", "TopicId": topic_id})
            for partition in range(PER_TOPIC):
                replicas = tuple(rng.sample(BROKERS, 3))
                fields: dict[str, Value] = {
                    "PartitionId": partition,
                    "TopicId": topic_id,
                    "Replicas": replicas,
                    "Isr": replicas,
                    "RemovingReplicas": (),
                    "AddingReplicas": (),
                    "Leader": replicas[0],
                    "LeaderRecoveryState": 0,
                    "LeaderEpoch": rng.randrange(EPOCHS_MAX),
                    "PartitionEpoch": 3,
                    "Directories": tuple(f"directory-{broker:012d}" for broker in replicas),
                }
                yield Record(0, 1, 0, "PartitionRecord", 2, fields)


class MadeFeed:
    """A snapshot, and then a heartbeat twice a second."""

    name = "made"

    def __init__(self, partitions: int) -> None:
        self._partitions, self._next = partitions, 0

    def poll(self, wait_s: float) -> Portion | None:
        if self._next == 0:
            self._next = 1
            snapshot = Snapshot(1, 1, 0, Entries(self._partitions))
            return Portion(snapshot, (), 1, 1, time.monotonic())
        time.sleep(wait_s)
        record = Record(self._next, 1, time.time_ns() // 10**6, "NoOpRecord", 0, {})
        self._next += 1
        batch = LogBatch(record.offset, record.offset, 1, 0, (record,))
        return Portion(None, (batch,), self._next, self._next, time.monotonic())

    def close(self) -> None: ...


class LongLooker:
    """The real looks, with as many epochs as the leader epoch says: those of an auditor that has run for long."""

    def __init__(self, looker: BrokerLooker) -> None:
        self._looker = looker

    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]:
        for look in self._looker.look(asked):
            yield replace(look, epochs=[(epoch, epoch) for epoch in range(look.offsets.leader_epoch + 1)])

    def close(self) -> None:
        self._looker.close()


def main(partitions: int, folder: Path) -> None:
    with made_brokers(len(BROKERS)) as addresses:
        measure(partitions, folder, Brokers(addresses[:3]))


def measure(partitions: int, folder: Path, brokers: Brokers) -> None:
    before_mib = resident_mib("VmRSS")
    brokers.refresh(BROKERS_S)
    looker = BrokerLooker(brokers)
    rules = {name: rule() for name, rule in rule_classes().items()}
    database = Database(folder)
    stop = threading.Event()
    coverage = frozenset({"metadata", "offsets", "replicas"})
    sources = Sources(MadeFeed(partitions), LongLooker(looker), coverage=coverage)
    budget = Budget(BudgetOption(cpu=1.0), lambda: looker.received_bytes)
    watch = Watch(cluster_id="made", bootstrap="made", feed="made", rules=tuple(rules))
    metrics = Metrics(0)

    def tick(of: Auditor) -> None:
        vitals = signs.take({})
        database.keep_fact(FACT, vitals.text())
        metrics.show(vitals)
        _stop_after(of, partitions, stop)

    auditor = Auditor(sources, database, rules, look_every_s=0.0, budget=budget, on_tick=tick)
    auditor.state.static = {
        "retention.ms": "604800000",
        "log.retention.ms": "604800000",
        "log.cleanup.policy": "delete",
    }
    looker.setting, looker.exists = (
        auditor.state.setting,
        lambda topic_id: auditor.state.packed.topic(topic_id) is not None,
    )
    signs = VitalSigns(auditor, watch, lambda: budget.option, lambda _topic: True)
    begun_s = time.process_time()
    auditor.run(stop)
    cpu_s = time.process_time() - begun_s
    kept = len(auditor.state.packed)
    metrics.close()
    auditor.close()
    figures = {
        "partitions": kept,
        "bytes": sum(path.stat().st_size for path in folder.glob(f"{FILE}*")),
        "looks": auditor.counts.looks,
        "cpu_s": cpu_s,
        "alarms": auditor.counts.by_rule,
        "before_mib": before_mib,
        "resident_mib": resident_mib("VmRSS"),
        "peak_mib": resident_mib("VmHWM"),
    }
    print(json.dumps(figures))


def _stop_after(auditor: Auditor, partitions: int, stop: threading.Event) -> None:
    if auditor.counts.looks >= ROUNDS * partitions:
        stop.set()


def resident_mib(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
