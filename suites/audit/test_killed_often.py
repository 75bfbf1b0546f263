"""An auditor that is killed at random moments, again and again: its database opens each time, and it misses nothing.

AUDIT_KILLS sets how often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from harness.audit.queries.status import Status, status_of
from harness.kafka.admin.client import AdminView
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import COMMAND, auditing, bootstrap, controllers
from suites.audit.soak.load import PLAIN, TOPICS, Load
from suites.gate.cluster_probes import observer, start

KILLS: Final = int(os.environ.get("AUDIT_KILLS", "10"))
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600 + 60 * KILLS)]

WEEK, HOUR = "604800000", "3600000"
WATCHING_S: Final = 90.0
LIFE_S: Final = 6.0  # after it began to watch, at most
OWN: Final = frozenset({"blind", "overdue"})  # what an auditor says about itself on a busy machine


@dataclass
class Lives:
    """The processes of one auditor, one after another, and what really happened to the cluster."""

    folder: Path
    options: tuple[str, ...]
    admin: AdminView
    rng: random.Random = field(default_factory=lambda: random.Random(17))
    ended_ns: list[int] = field(default_factory=list)
    lowered: list[str] = field(default_factory=list)
    early: int = 0  # killed before they watched

    def live(self, number: int) -> None:
        """One life: something may happen before it or in it, and it ends at a random moment."""
        happens = self.rng.choice(("before", "during", "at the end", "never", "never"))
        if happens == "before":
            self.lower()
        out = self.folder / f"life-{number}.out"
        with out.open("wb") as file:
            command = [*COMMAND, *self.options, "--db", str(self.database), "--json"]
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            if self.rng.random() < 0.3:
                time.sleep(self.rng.uniform(0, 3))  # it starts, opens the database, or has just begun to read
                self.early += b'"watching"' not in out.read_bytes()
            else:
                self._watches(process, out)
                if happens == "during":
                    self.lower()
                time.sleep(self.rng.uniform(0, LIFE_S))
                if happens == "at the end":
                    self.lower()
            assert process.poll() is None, out.read_text()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        self.ended_ns.append(time.time_ns())

    @property
    def database(self) -> Path:
        return self.folder / "db"

    def status(self) -> Status | None:
        """BadInput only before the first life has saved something."""
        try:
            return status_of(self.database)
        except BadInput:
            assert not any(b'"watching"' in path.read_bytes() for path in self.folder.glob("life-*.out"))
            return None

    def lower(self) -> None:
        """Lowers the retention of a topic of its own: one real alarm."""
        name = f"lowered-{len(self.lowered)}"
        self.admin.create_topics([Topic(name=name, partitions=1, config={"retention.ms": WEEK})])
        self.admin.alter_topic_config(name, {"retention.ms": HOUR})
        self.lowered.append(name)

    @staticmethod
    def _watches(process: subprocess.Popen[bytes], out: Path) -> None:
        wait_for(
            lambda: process.poll() is not None or b'"watching"' in out.read_bytes(),
            until=bool,
            deadline_s=WATCHING_S,
            what="the auditor to watch",
        )


def test_an_auditor_that_is_killed_again_and_again_misses_nothing(tmp_path: Path, backend: str) -> None:
    with start(tmp_path, ClusterShape(), backend=backend) as cluster, observer(cluster) as admin:
        admin.create_topics(TOPICS[:-1])  # without the one that needs a tier
        options = (*bootstrap(cluster), *controllers(cluster))
        load = Load(cluster.bootstrap_direct(), without={TOPICS[-1].name})
        lives = Lives(tmp_path, options, admin)
        try:
            with auditing(tmp_path, *options):
                pass  # the first one sees the beginning; what happened before is no alarm
            for number in range(KILLS):
                lives.live(number)
                lives.status()
            with auditing(tmp_path, *options) as last:
                wait_for(
                    lambda: topics_in(status_of(lives.database)),
                    until=lambda found: found.keys() >= {*lives.lowered},
                    deadline_s=60,
                    what="every alarm",
                    interval_s=1.0,
                )
                assert last.end() == 0
        finally:
            load.close()
        ended = status_of(lives.database)
        print(
            f"{KILLS} kills, {lives.early} of them before it watched; {len(lives.lowered)} alarms; "
            f"{len(ended.unwatched)} times not watched, {load.acked} records and {load.committed} transactions beside"
        )
        assert topics_in(ended) == Counter(lives.lowered)  # each once
        assert {alarm.rule for alarm in ended.alarms} - OWN <= {"setting_weakened"}
        for at_ns in lives.ended_ns:
            assert any(gap.from_ns <= at_ns <= gap.to_ns for gap in ended.unwatched), at_ns
        stated_s = sum(gap.to_ns - gap.from_ns for gap in ended.unwatched) / NS_PER_S
        assert stated_s <= (lives.ended_ns[-1] - ended.unwatched[0].from_ns) / NS_PER_S + WATCHING_S
        assert load.acked > 0
        assert max(place[0] == PLAIN for place in load.last_acked)


def topics_in(status: Status) -> Counter[str]:
    """How many alarms about a weakened setting each topic has."""
    weakened = (alarm for alarm in status.alarms if alarm.rule == "setting_weakened")
    return Counter(suspicion.topic for alarm in weakened for suspicion in alarm.suspicions[:1])
