"""Runs the whole auditor on a made cluster of many partitions, in a process of its own, and prints what it costs.

The metadata log and the answers of brokers are made; everything behind them is the real auditor with all of its rules
and the modules that a running one has.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.kafka.messages_only import import_messages_only

import_messages_only()  # as `durability audit` does

import harness.audit.service.running  # noqa: E402, F401 - the modules of a running auditor take memory, too
from harness.audit.engine.auditor import Auditor, Sources  # noqa: E402
from harness.audit.engine.looker import Asked  # noqa: E402
from harness.audit.feeds.feed import Portion  # noqa: E402
from harness.audit.look import PartitionLook  # noqa: E402
from harness.audit.rules.rule import rule_classes  # noqa: E402
from harness.audit.store.database import FILE, Database  # noqa: E402
from harness.audit.store.partitions import Offsets  # noqa: E402
from harness.model.history.log import LogBatch, Record, Snapshot, Value  # noqa: E402

BROKERS: Final = range(1, 31)
PER_TOPIC: Final = 1_000
EPOCHS_MAX: Final = 8
ROUNDS: Final = 3


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


class MadeLooker:
    """Every log grows between two looks. A leader has as many epochs as its leader epoch says."""

    def __init__(self) -> None:
        self._looks = 0

    def look(self, asked: Sequence[Asked]) -> Iterable[PartitionLook]:
        self._looks += 1
        end, now_ns = 10 * self._looks, time.time_ns()
        for of in asked:
            yield PartitionLook(
                topic=of.topic,
                topic_id=of.topic_id,
                partition=of.partition,
                asked_ns=now_ns,
                answered_ns=now_ns + 1,
                offsets=Offsets(of.leader_epoch, 0, end, end),
                log_ends=dict.fromkeys(of.replicas, end),
                epochs=[(epoch, epoch) for epoch in range(of.leader_epoch + 1)],
            )

    def close(self) -> None: ...


def main(partitions: int, folder: Path) -> None:
    before_mib = resident_mib("VmRSS")
    rules = {name: rule() for name, rule in rule_classes().items()}
    database = Database(folder)
    stop = threading.Event()
    sources = Sources(MadeFeed(partitions), MadeLooker(), coverage=frozenset({"metadata", "offsets"}))
    auditor = Auditor(sources, database, rules, look_every_s=0.0, on_tick=lambda a: _stop_after(a, partitions, stop))
    begun_s = time.process_time()
    auditor.run(stop)
    cpu_s = time.process_time() - begun_s
    kept = len(auditor.state.packed)
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
