"""The figures of a soak: which alarms have a reason, which have none, and which should have come."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from suites.audit.soak.lawful import LAWFUL, Lawful, Scene
from suites.audit.soak.load import Load
from suites.audit.soak.watched import Heard, Watched

LATE_S: Final = 300.0  # an alarm about an event may come so late, for example when no auditor ran meanwhile
NEEDS_LOOKS: Final = frozenset({"commit_back"})  # nothing tells of it afterwards
OWN: Final = frozenset({"blind", "overdue", "over_budget"})  # what an auditor says about itself


@dataclass(slots=True)
class Happened:
    """One event of the soak, by the wall clock."""

    event: str
    from_s: float
    to_s: float | None = None
    failed: str = ""


class Soak:
    """The figures of the whole, and the files that have them."""

    def __init__(self, folder: Path, auditors: list[Watched], load: Load) -> None:
        self.folder, self.auditors, self.load = folder, auditors, load
        self.begun_s = time.time()
        self.happened: list[Happened] = []
        self.lost: list[str] = []
        self._lawful = {of.name: of for of in LAWFUL}

    def run(self, scene: Scene, seconds: float, pause_s: tuple[float, float]) -> None:
        """One event after another, in random order, until the time is over."""
        until_s = time.monotonic() + seconds
        due: list[Lawful] = []
        while time.monotonic() < until_s:
            if not due:
                due = scene.rng.sample(LAWFUL, len(LAWFUL))
            self._do(due.pop(), scene)
            time.sleep(max(0.0, min(scene.rng.uniform(*pause_s), until_s - time.monotonic())))

    def _do(self, lawful: Lawful, scene: Scene) -> None:
        happened = Happened(lawful.name, time.time())
        self.happened.append(happened)
        try:
            lawful.act(scene)
        except Exception as failed:  # a machine that is too busy for one event does not end the soak
            happened.failed = f"{type(failed).__name__}: {failed}"
        happened.to_s = time.time()
        append(self.folder / "events.jsonl", asdict(happened))

    def reason(self, heard: Heard) -> str | None:
        """The event that an alarm is about; None without one."""
        for happened in reversed(self.happened):
            topic = self._lawful[happened.event].alarms.get(heard.rule)
            in_time = happened.from_s - 1 <= heard.opened_s <= (happened.to_s or time.time()) + LATE_S
            if topic is not None and in_time and all(fnmatchcase(name, topic) for name in heard.topics):
                return happened.event
        return None

    def missing(self) -> list[str]:
        """Alarms that should have come and did not."""
        found = []
        for happened in self.happened:
            if happened.failed or happened.to_s is None or time.time() - happened.to_s < LATE_S:
                continue
            for rule in self._lawful[happened.event].must:
                for auditor in self.auditors:
                    if rule in NEEDS_LOOKS and auditor.was_down(happened.from_s, happened.to_s):
                        continue
                    if not any(self._about(of, rule, happened) for of in auditor.heard):
                        found.append(f"{auditor.plan.name}: no {rule} about {happened.event} at {happened.from_s:.0f}")
        return found

    def _about(self, heard: Heard, rule: str, happened: Happened) -> bool:
        end_s = (happened.to_s or time.time()) + LATE_S
        if heard.rule != rule or heard.event == "ended" or not happened.from_s - 1 <= heard.at_s <= end_s:
            return False
        return all(fnmatchcase(name, self._lawful[happened.event].alarms[rule]) for name in heard.topics)

    def summary(self) -> dict[str, object]:
        opened = [of for auditor in self.auditors for of in auditor.heard if of.event == "opened"]
        reasons = {of: self.reason(of) for of in opened}
        false = [of for of in opened if of.rule not in OWN and reasons[of] is None]
        return {
            "hours": round((time.time() - self.begun_s) / 3600, 3),
            "events": dict(Counter(of.event for of in self.happened)),
            "failed_events": [asdict(of) for of in self.happened if of.failed],
            "false_alarms": [asdict(of) for of in false],
            "alarms_with_a_reason": dict(
                Counter(f"{of.auditor}: {of.rule} after {reasons[of]}" for of in opened if reasons[of])
            ),
            "own_alarms_without_an_event": [asdict(of) for of in opened if of.rule in OWN and reasons[of] is None],
            "missing_alarms": self.missing(),
            "acked": self.load.acked,
            "failed_sends": self.load.failed,
            "transactions": [self.load.committed, self.load.aborted],
            "client_failures": len(self.load.failures),
            "beyond_the_end": self.lost,
            "auditors": {auditor.plan.name: self._auditor(auditor) for auditor in self.auditors},
        }

    def _auditor(self, of: Watched) -> dict[str, object]:
        grown = of.grown()
        long = [outage for outage in of.outages if outage.to_s is not None]
        return {
            "started": of.started,
            "problems": of.problems,
            "memory_mib_after_a_minute_and_most": {
                str(process): [round(first, 1), round(most, 1)] for process, (first, most) in grown.items()
            },
            "memory_mib_now": round(of.samples[-1].memory_mib, 1) if of.samples else None,
            "descriptors_most": max((sample.descriptors for sample in of.samples), default=None),
            "descriptors_now": of.samples[-1].descriptors if of.samples else None,
            "threads_most": max((sample.threads for sample in of.samples), default=None),
            "cpu_share": round(of.samples[-1].cpu_s / of.samples[-1].age_s, 4) if of.samples else None,
            "outages": len(long),
            "outages_not_stated": [asdict(outage) for outage in long if not outage.stated],
            **of.status(),
        }

    def write(self) -> None:
        path = self.folder / "summary.json"
        text = json.dumps(self.summary(), indent=1)
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)

    def check_log_ends(self, scene: Scene) -> None:
        """Whether every acknowledged record lies below the end of its log. Otherwise an alarm may have been right."""
        ends = scene.admin.high_watermark({topic for topic, _ in self.load.last_acked})
        self.lost = [f"{of} {last}" for of, last in self.load.last_acked.items() if last >= ends.get(of, 0)]


def append(path: Path, row: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
