"""The forms of an event: one line for people, one JSON object for machines."""

from __future__ import annotations

import pytest

from harness.audit.alarms.event import Event, duration, event_plain, line
from suites.unit.audit.alarms.alarm_examples import OPENED_NS, S, alarm, suspicion


def test_a_line_has_the_event_the_records_at_risk_and_what_to_do() -> None:
    assert line(Event.OPENED, alarm(), OPENED_NS) == (
        "2026-11-28T15:20:54.654Z opened LOSS   epoch_below_commit: Records of orders/0 are lost. (records at risk: "
        "50) To do: Stop the producers."
    )


def test_a_line_counts_other_partitions_and_names_the_first_deletion() -> None:
    soon = alarm(suspicion(0, deleted_at_ns=OPENED_NS + 600 * S), suspicion(1, deleted_at_ns=OPENED_NS + 300 * S))
    shown = line(Event.GREW, soon, OPENED_NS)
    assert "The same of 1 more partition." in shown
    assert shown.endswith("(records at risk: 100; deletion: in 5 min, at 2026-11-28T15:25:54.654Z)")
    begun = line(Event.GREW, soon, OPENED_NS + 400 * S)
    assert "deletion: may have begun" in begun


def test_records_of_partitions_that_are_only_counted_are_not_claimed() -> None:
    many = alarm(suspicion(0), suspicion(1))
    many.partitions = 7
    assert "(records at risk: 100 in 2 of the partitions)" in line(Event.GREW, many, OPENED_NS)


def test_an_ended_alarm_says_why_and_how_long_it_was_open() -> None:
    over = alarm(suspicion(first=None))
    over.ended_ns, over.ended_why = OPENED_NS + 12 * S, "it is over"
    assert line(Event.ENDED, over, OPENED_NS).endswith("are lost. The alarm ended after 12 s: it is over.")


def test_an_event_that_is_repeated_after_a_restart_says_so() -> None:
    assert " epoch_below_commit (repeated after a restart): Records" in line(Event.OPENED, alarm(), 0, repeated=True)
    first, second = (event_plain(Event.OPENED, alarm(), "C", at, repeated=at > 0) for at in (0, S))
    assert (first["repeated"], second["repeated"], first["id"]) == (False, True, second["id"])


def test_the_json_has_places_and_null_where_nothing_is_known() -> None:
    plain = event_plain(Event.OPENED, alarm(suspicion(3, first=None)), "C", OPENED_NS + S)
    assert (plain["event"], plain["cluster_id"], plain["at"]) == ("opened", "C", "2026-11-28T15:20:55.654Z")
    assert (plain["records"], plain["ended"], plain["ended_why"], plain["partitions"]) == (None, None, None, 1)
    assert plain["places"] == [
        {
            "topic": "orders",
            "topic_id": "T",
            "partition": 3,
            "what": "Records of orders/3 are lost.",
            "at": "2026-11-28T15:20:54.654Z",
            "first_offset": None,
            "end_offset": None,
            "records": None,
            "deleted_from": None,
            "leader_epoch": 2,
            "metadata_offset": 1234,
        }
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 ms"), (0.034, "34 ms"), (1.44, "1.4 s"), (12, "12 s"), (300, "5 min"), (10_000, "3 h"), (400_000, "5 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
