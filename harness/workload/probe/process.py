"""The probe as a process of its own, because its client library needs more memory than a whole auditor may.

The first line of standard input is the task, as JSON. Each line of standard output is a row, as JSON: `started`,
`counts`, `finding` or `refused`. The process ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.security import security_of
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import BadInput
from harness.workload.probe.ledger import ProbeLedger
from harness.workload.probe.prober import Finding, Prober
from harness.workload.probe.replicas import Placed, ProbedTopic, Replicas, described
from harness.workload.probe.topic import KEPT_S, probe_topic
from harness.workload.probe.writer import ProbeWriter

TICK_S: Final = 1.0
_PLACES_S: Final = 3.0  # leaders and ISRs are read again
_FORGET_S: Final = 60.0
_COUNTS_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Task:
    """client: settings in librdkafka's names, without the addresses. folder: of the ledger. tiered: of the brokers."""

    bootstrap: str
    client: Mapping[str, str]
    topic: str
    folder: str
    tiered: bool = False


def main() -> None:
    """Works until standard input ends."""
    task = Task(**json.loads(sys.stdin.readline()))
    stop = threading.Event()
    threading.Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
    try:
        _Probe(task).run(stop)
    except (BadInput, Unanswered) as refused:
        _say("refused", why=str(refused))


def _wait_for_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _say(row: str, **values: object) -> None:
    print(json.dumps({"row": row, **values}), flush=True)


class _Probe:
    def __init__(self, task: Task) -> None:
        self._task = task
        security = security_of(task.client)
        self._brokers = Brokers(addresses_of(task.bootstrap), security)
        self._brokers.refresh()
        self._ledger = ProbeLedger(Path(task.folder))
        client = {**task.client, "bootstrap.servers": task.bootstrap}
        self._topic = probe_topic(task.topic, self._brokers, client, self._ledger, tiered=task.tiered)
        run = int(self._ledger.fact("run") or 0)
        self._writer = ProbeWriter(client, task.topic, self._ledger, run)
        self._prober = Prober(Replicas(self._brokers, task.topic, run), self._ledger, tiered=task.tiered)
        self._due_s: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        _say("started", topic=self._task.topic, topic_id=self._topic.topic_id, partitions=len(self._topic.partitions))
        while not stop.wait(TICK_S):
            self._tick()
        self._writer.close()
        self._ledger.close()
        self._brokers.close()

    def _tick(self) -> None:
        if self._due("places", _PLACES_S):
            self._learn_places()
        placed = self._topic.partitions
        self._writer.write([of.partition for of in placed])
        self._prober.follow(placed)
        self._prober.look_again(placed)
        for finding in self._prober.confirmed(placed):
            self._report(finding)
        if self._due("forget", _FORGET_S):
            self._ledger.forget(int((time.time() - KEPT_S) * 1000))
        self._ledger.save()
        if self._due("counts", _COUNTS_S):
            counts = {"acked": self._writer.acked, "not acked": self._writer.failed, **self._prober.counts}
            _say("counts", counts=counts, error=self._writer.last_error)

    def _due(self, what: str, every_s: float) -> bool:
        now_s = time.monotonic()
        if now_s < self._due_s.get(what, 0.0):
            return False
        self._due_s[what] = now_s + every_s
        return True

    def _learn_places(self) -> None:
        """Leaders and ISRs now. BadInput if the topic is not the probe's any more."""
        try:
            self._brokers.refresh()
            found = described(self._brokers, self._task.topic)
        except Unanswered:
            self._topic = ProbedTopic(self._topic.topic_id, tuple(Placed(p.partition, -1, ()) for p in self._topic[1]))
            return
        if found is None or found.topic_id != self._topic.topic_id:
            what = "was deleted" if found is None else "was deleted and created again"
            raise BadInput(f"the topic {self._task.topic} of the probe {what}; restart the auditor to begin again")
        self._topic = found

    def _report(self, finding: Finding) -> None:
        _say("finding", topic=self._task.topic, topic_id=self._topic.topic_id, at_ns=time.time_ns(), **asdict(finding))
