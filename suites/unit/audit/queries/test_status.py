"""`audit status`: what is watched and what is not, and the open alarms, the worst first."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from harness.audit.queries.status import status_of, status_text
from harness.audit.store.database import Database, Unwatched
from harness.audit.store.lock import locked
from harness.model.errors import BadInput
from harness.model.severity import Severity
from suites.unit.audit.alarms.alarm_examples import OPENED_NS, S, alarm, suspicion
from suites.unit.audit.queries.database_examples import database
from suites.unit.audit.service.vitals_examples import VITALS, vitals

GAP = Unwatched(OPENED_NS - 600 * S, OPENED_NS - 300 * S, "no auditor ran")


def lines(folder: Path) -> list[str]:
    return [*status_text(status_of(folder))]


def test_an_auditor_that_has_ended(tmp_path: Path) -> None:
    notice = alarm(suspicion(1), severity=Severity.NOTICE)
    notice.cause = "broker 4"
    over = alarm(suspicion(2))
    over.cause, over.ended_ns, over.ended_why = "broker 5", OPENED_NS + S, "it is over"
    folder = database(tmp_path, vitals=VITALS, alarms=(notice, over, alarm()), unwatched=(GAP,))
    shown = lines(folder)
    assert shown[0] == "cluster C at h:9092: no auditor runs; the last one ended at 2026-11-28T15:20:54.654Z"
    assert shown[1].endswith("2 topics with 1,043 partitions, groups g; 2 rules")
    assert "  NOT covered: logs: no --logs were given" in shown
    assert "  NOT covered: offsets: nothing was heard in time" in shown
    assert "  NOT covered: tier: TOPIC_AUTHORIZATION_FAILED" in shown
    assert "  NOT covered: 1 topics that this client may not describe: secret" in shown
    assert "  not watched: 5 min in 1 times" in shown
    assert "  webhook: 2 messages dropped, 3 wait: it answered 500" in shown
    assert "  probe: 10 acked" in shown
    at = shown.index("open alarms: 2 (1 have ended)")
    assert [row.split()[0] for row in shown[at + 1 :: 3]] == ["LOSS", "NOTICE"]
    assert shown[at + 2].endswith("records at risk: 50")
    assert shown[at + 3] == "         To do: Stop the producers."


def test_an_auditor_that_runs_and_one_that_is_stuck(tmp_path: Path) -> None:
    folder = database(tmp_path, vitals=vitals(at_ns=time.time_ns()))
    with locked(folder):
        assert ", started " in lines(folder)[0]
        assert "last heard 200 ms ago" in "".join(lines(folder))
    database(tmp_path / "stuck", vitals=vitals(at_ns=time.time_ns() - 60 * S))
    with locked(tmp_path / "stuck"):
        assert "runs, but has been stuck for 60 s" in lines(tmp_path / "stuck")[0]


def test_as_json(tmp_path: Path) -> None:
    folder = database(tmp_path, vitals=VITALS, alarms=(alarm(),), unwatched=(GAP,))
    plain = json.loads(status_of(folder).json())
    assert (plain["running"], plain["process"], plain["ended_alarms"]) == (False, None, 0)
    assert plain["vitals"]["watch"]["cluster_id"] == "C"
    assert plain["unwatched"][0]["why"] == "no auditor ran"
    assert [found["incident"] for found in plain["alarms"]] == ["epoch_below_commit: broker 3"]


def test_while_another_process_writes_it(tmp_path: Path) -> None:
    folder = database(tmp_path, vitals=VITALS)
    writer = Database(folder)
    writer.keep_fact("vitals", vitals(looks=6000).text())  # an open transaction
    assert status_of(folder).vitals.looks == 5000
    writer.put_fact("other", "1")
    assert status_of(folder).vitals.looks == 6000
    writer.close()


def test_a_folder_without_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no audit\.sqlite: name the folder"):
        status_of(tmp_path)
    Database(tmp_path).close()
    with pytest.raises(BadInput, match="has no auditor's state yet"):
        status_of(tmp_path)
