"""What the soak counts as a false alarm, and what as one that is missing."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import cast

from suites.audit.soak.figures import Happened, Soak
from suites.audit.soak.load import KEPT, PLAIN, Load
from suites.audit.soak.watched import Heard, Outage, Plan, Sample, Watched

NOW_S = time.time()


class NoLoad:
    acked = failed = committed = aborted = 0
    failures: tuple[str, ...] = ()


def soak(tmp_path: Path, *heard: Heard, event: str = "retention_lowered_for_a_while", ago_s: float = 1000) -> Soak:
    """One auditor that watches all the time, and one event of 10 s."""
    auditor = Watched(Plan("steady", (), None), tmp_path, random.Random(1), lambda _file, _row: None)
    auditor.heard.extend(heard)
    auditor.samples.append(Sample("steady", 0, NOW_S - 5000, 1, 40.0, 20, 8, 1.0))
    made = Soak(tmp_path, [auditor], cast(Load, NoLoad()))
    made.happened.append(Happened(event, NOW_S - ago_s, NOW_S - ago_s + 10))
    return made


def alarm(rule: str, topic: str, ago_s: float, event: str = "opened") -> Heard:
    at_s = NOW_S - ago_s
    return Heard("steady", event, at_s, at_s, rule, "danger", f"{rule}: {topic}", (topic,), "text")


def false(of: Soak) -> list[str]:
    rows = cast(list[dict[str, str]], of.summary()["false_alarms"])
    return [row["incident"] for row in rows]


def test_an_alarm_about_an_event_has_a_reason(tmp_path: Path) -> None:
    made = soak(tmp_path, alarm("setting_weakened", KEPT, 995))
    assert (false(made), made.missing()) == ([], [])


def test_an_alarm_of_another_rule_or_topic_or_time_has_none(tmp_path: Path) -> None:
    others = (
        alarm("log_start_moved", KEPT, 995),
        alarm("setting_weakened", PLAIN, 995),
        alarm("setting_weakened", KEPT, 1100),
    )
    made = soak(tmp_path, *others)
    assert false(made) == [of.incident for of in others]
    assert made.missing() == [f"steady: no setting_weakened about retention_lowered_for_a_while at {NOW_S - 1000:.0f}"]


def test_an_alarm_about_itself_is_no_false_one(tmp_path: Path) -> None:
    made = soak(tmp_path, alarm("setting_weakened", KEPT, 995), alarm("blind", "", 20))
    assert false(made) == []
    assert len(cast(list[object], made.summary()["own_alarms_without_an_event"])) == 1


def test_nothing_tells_of_a_reset_that_no_auditor_saw(tmp_path: Path) -> None:
    made = soak(tmp_path, event="offsets_reset_by_an_operator")
    assert len(made.missing()) == 1
    made.auditors[0].outages.append(Outage("SIGKILL", NOW_S - 1005, NOW_S - 995))
    assert made.missing() == []
