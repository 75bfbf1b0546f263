"""Records that retention by time may not delete yet: for how long an answer counts, and when it does not."""

from __future__ import annotations

from harness.audit.engine.looker import Asked
from harness.audit.service.young_records import AHEAD_S, SETTLED_S, YoungRecords

WEEK_MS, MINUTE_MS = 7 * 24 * 3_600_000, 60_000
NOW_S = 100_000.0


def asked(partition: int = 0, topic_id: str = "T") -> Asked:
    return Asked("orders", topic_id, partition, 1, 0, (1, 2, 3), False)


def test_an_answer_counts_until_its_records_may_be_old_enough() -> None:
    young = YoungRecords()
    young.saw(asked(), WEEK_MS, NOW_S)
    assert young.due(asked(), NOW_S)
    young.put(asked(), 500, NOW_S)
    assert young.get(asked(), NOW_S) == 500
    assert young.get(asked(), NOW_S + AHEAD_S - 2) == 500
    assert young.get(asked(), NOW_S + AHEAD_S) is None
    assert not young.due(asked(), NOW_S + 10)
    assert young.due(asked(), NOW_S + 100)
    assert young.get(asked(1), NOW_S) is None


def test_a_leader_without_a_young_record_shows_nothing() -> None:
    young = YoungRecords()
    young.saw(asked(), WEEK_MS, NOW_S)
    young.put(asked(), -1, NOW_S)
    assert young.get(asked(), NOW_S) is None
    assert not young.due(asked(), NOW_S + 5)
    assert young.due(asked(), NOW_S + 10)  # sooner than after an answer, as the log may have been empty


def test_a_changed_retention_makes_answers_useless_until_brokers_must_know_it() -> None:
    young = YoungRecords()
    young.saw(asked(), WEEK_MS, NOW_S)
    young.put(asked(), 500, NOW_S)
    young.saw(asked(), MINUTE_MS, NOW_S + 5)
    assert young.get(asked(), NOW_S + 5) is None
    assert not young.due(asked(), NOW_S + 5 + SETTLED_S / 2)
    assert young.due(asked(), NOW_S + 5 + SETTLED_S)
    young.put(asked(), 700, NOW_S + 10 + SETTLED_S)
    assert young.get(asked(), NOW_S + 10 + SETTLED_S) == 700


def test_deleted_topics_are_forgotten() -> None:
    young = YoungRecords()
    for topic_id in ("T", "U"):
        young.saw(asked(topic_id=topic_id), WEEK_MS, NOW_S)
        young.put(asked(topic_id=topic_id), 500, NOW_S)
    young.keep(lambda topic_id: topic_id == "U")
    assert young.get(asked(topic_id="U"), NOW_S) == 500
    young.saw(asked(), WEEK_MS, NOW_S)
    assert young.get(asked(), NOW_S) is None
