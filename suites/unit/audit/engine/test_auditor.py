"""The engine: second looks, incidents, restarts, and times without a watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.audit.engine import second_looks
from harness.audit.engine.looks import LookReason
from harness.audit.rules.metadata_unreadable import MetadataUnreadable
from harness.audit.rules.own_coverage import Blind
from harness.audit.store.database import Database
from harness.audit.store.partitions import Offsets
from harness.model.severity import Severity
from harness.model.waiting import wait_for
from suites.unit.audit.engine.engine_examples import Driven, LeaderLost, WentBack, driven
from suites.unit.model.history.logs import TOPIC, TOPIC_ID, change, noop, partition, record, removed, snapshot, topic

LOST = change(Leader=-1, Isr=(1,))
BACK = change(Leader=1)
INCIDENT = f"leader-lost: {TOPIC}/0"


def lines(running: Driven, number: int) -> list[tuple[str, str]]:
    return wait_for(
        lambda: list(running.shown.lines),
        until=lambda seen: len(seen) >= number,
        deadline_s=10,
        what=f"{number} lines of alarms",
    )


def read(running: Driven, offset: int) -> None:
    wait_for(
        lambda: running.auditor.counts.last_offset,
        until=lambda seen: seen >= offset,
        deadline_s=10,
        what=f"metadata record {offset}",
    )


def dismissed(running: Driven) -> None:
    wait_for(lambda: running.auditor.second_looks.dismissed, until=bool, deadline_s=10, what="a dismissed suspicion")


def test_a_second_look_confirms_a_suspicion_and_the_alarm_ends(tmp_path: Path) -> None:
    with driven(tmp_path, LeaderLost()) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition(), LOST)
        assert lines(running, 1) == [("opened", INCIDENT)]
        (alarm,) = running.shown.alarms
        assert (alarm.severity, alarm.partitions) == (Severity.DANGER, 1)
        assert alarm.suspicions[0].metadata_offset == 2
        running.feed.put(BACK)
        assert lines(running, 2)[1:] == [("ended", INCIDENT)]
    assert [ended is not None for _, ended, _ in Database(tmp_path, read_only=True).alarms()] == [True]


def test_a_second_look_dismisses_a_suspicion(tmp_path: Path) -> None:
    with driven(tmp_path, LeaderLost()) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=100)
        running.feed.put(topic(), partition(), LOST)
        wait_for(
            lambda: running.auditor.second_looks.dismissed, until=bool, deadline_s=10, what="a dismissed suspicion"
        )
        assert running.shown.lines == []


def test_a_look_that_began_before_the_suspicion_does_not_confirm_it(tmp_path: Path) -> None:
    with driven(tmp_path, LeaderLost()) as running:
        running.looker.hold.clear()
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition())  # its look is held
        read(running, 1)
        running.feed.put(LOST)
        read(running, 2)
        assert running.shown.lines == []
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=100)
        running.looker.hold.set()
        wait_for(
            lambda: running.auditor.second_looks.dismissed, until=bool, deadline_s=10, what="a dismissed suspicion"
        )
        assert running.shown.lines == []


def suspected(running: Driven) -> None:
    """A look shows a lower high watermark, before another record of the metadata log. No look is spent on it yet."""
    running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
    running.feed.put(topic(), partition())
    wait_for(lambda: running.auditor.counts.looks, until=bool, deadline_s=10, what="a look")
    running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=0)
    running.feed.put(change(Isr=(1, 2)))
    put_off(running, 3)
    ordered = running.auditor.rounds.ordered
    assert (ordered[LookReason.CHANGE], ordered[LookReason.SUSPICION], ordered[LookReason.AGAIN]) == (2, 0, 0)
    assert running.auditor.counts.suspicions == 1
    assert running.shown.lines == []


def put_off(running: Driven, times: int) -> None:
    wait_for(
        lambda: running.auditor.second_looks.put_off,
        until=lambda seen: seen >= times,
        deadline_s=10,
        what=f"{times} looks that are put off",
    )


def test_a_look_is_judged_when_the_metadata_log_is_known_up_to_it(tmp_path: Path) -> None:
    with driven(tmp_path, WentBack()) as running:
        suspected(running)
        running.feed.put(noop())
        assert lines(running, 1) == [("opened", f"went-back: {TOPIC}/0")]
        assert running.shown.alarms[0].what.endswith("went back.")


def test_brokers_answer_for_a_recreated_topic_before_the_auditor_reads_of_it(tmp_path: Path) -> None:
    with driven(tmp_path, WentBack()) as running:
        suspected(running)
        running.feed.put(removed(), topic(TOPIC, "new-id"), partition(TopicId="new-id"))
        second_looks = running.auditor.second_looks
        wait_for(lambda: len(second_looks), until=lambda n: n == 0, deadline_s=10, what="no waiting suspicion")
        assert running.shown.lines == []


def test_records_that_are_still_to_be_read_may_be_the_reason_too(tmp_path: Path) -> None:
    with driven(tmp_path, WentBack()) as running:
        suspected(running)
        running.feed.put(noop(), committed=9)
        read(running, 3)
        put_off(running, running.auditor.second_looks.put_off + 2)
        assert running.shown.lines == []


def test_a_silent_metadata_log_delays_an_alarm_and_hides_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_looks, "_METADATA_S", 3.0)
    with driven(tmp_path, WentBack()) as running:
        suspected(running)
        assert lines(running, 1) == [("opened", f"went-back: {TOPIC}/0")]
        (alarm,) = running.shown.alarms
        assert alarm.severity is Severity.LOSS
        assert alarm.what.endswith("The metadata log could not be read since, so a change in it may be the reason.")


def test_a_suspicion_without_a_second_look_is_shown_late_and_low(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_looks, "SECOND_LOOK_S", 3.0)
    with driven(tmp_path, LeaderLost()) as running:
        running.feed.put(topic(), partition(), LOST)
        assert lines(running, 1) == [("opened", INCIDENT)]
        (alarm,) = running.shown.alarms
        assert alarm.severity is Severity.NOTICE
        assert alarm.what.endswith("A second look was not possible for 3 s.")
        assert running.looker.asked.count((TOPIC, 0)) > 1  # it was asked again


def test_what_happened_before_the_first_start_is_no_alarm(tmp_path: Path) -> None:
    with driven(tmp_path, LeaderLost(), empty=False) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition(), LOST, committed=4)
        running.feed.put(BACK, committed=4)
        running.feed.put(LOST, committed=5)
        assert lines(running, 1) == [("opened", INCIDENT)]
        assert running.shown.alarms[0].suspicions[0].metadata_offset == 4


def test_an_unreadable_record_before_the_first_start_is_an_alarm(tmp_path: Path) -> None:
    with driven(tmp_path, MetadataUnreadable(), empty=False) as running:
        running.feed.put(topic(), record("Invented"), committed=2)
        assert lines(running, 1) == [("opened", "metadata_unreadable: records with key None, version 0")]


def test_one_cause_is_one_alarm_after_a_restart_too(tmp_path: Path) -> None:
    with driven(tmp_path, LeaderLost()) as running:
        running.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        running.feed.put(topic(), partition(), LOST)
        lines(running, 1)
    with driven(tmp_path, LeaderLost()) as again:
        again.looker.answers[TOPIC, 0] = Offsets(leader_epoch=0, high_watermark=7)
        again.feed.put(change(Leader=-1), first=3)
        read(again, 3)
        wait_for(lambda: again.looker.asked, until=bool, deadline_s=10, what="a look")
        again.feed.put(BACK)
        assert lines(again, 1) == [("ended", INCIDENT)]


def test_the_state_goes_on_after_a_restart(tmp_path: Path) -> None:
    with driven(tmp_path) as running:
        running.looker.answers[TOPIC, 0] = seen = Offsets(0, 1, 20, 22)
        running.feed.put(topic(), partition(), change(Isr=(1, 2)))
        wait_for(lambda: running.auditor.counts.looks, until=bool, deadline_s=10, what="a look")
    with driven(tmp_path) as again:
        state = again.auditor.state
        kept = state.partition(TOPIC_ID, 0)
        assert kept is not None
        assert (kept.isr, kept.partition_epoch, state.topic_id(TOPIC)) == ((1, 2), 1, TOPIC_ID)
        assert state.offsets(TOPIC_ID, 0) == seen
        again.feed.put(change(Leader=2), first=3)
        read(again, 3)
        kept = state.partition(TOPIC_ID, 0)
        assert kept is not None
        assert (kept.leader, kept.leader_epoch, kept.isr) == (2, 1, (1, 2))


def test_records_of_an_open_transaction_are_read_again_after_a_restart(tmp_path: Path) -> None:
    with driven(tmp_path) as running:
        running.feed.put(topic(), partition(), record("BeginTransaction"), change(Isr=(1,)))
        read(running, 3)
    database = Database(tmp_path, read_only=True)
    assert database.progress().next_offset == 0  # the portion had an open transaction at its end
    with driven(tmp_path) as again:
        again.feed.put(topic(), partition(), record("BeginTransaction"), change(Isr=(1,)), record("EndTransaction"))
        read(again, 4)
        kept = again.auditor.state.partition(TOPIC_ID, 0)
        assert kept is not None
        assert (kept.isr, kept.partition_epoch) == ((1,), 1)


def test_records_that_were_missed_are_a_time_without_a_watch(tmp_path: Path) -> None:
    with driven(tmp_path, empty=False) as running:
        running.feed.put(topic(), partition(), missed="nothing is missed before the first start")
        read(running, 1)
    with driven(tmp_path) as again:
        again.feed.put(
            noop(), first=9, snapshot=snapshot(9, topic(), partition()), missed="records 2 to 8 were deleted"
        )
        read(again, 9)
    (time,) = Database(tmp_path, read_only=True).unwatched()
    assert time.why == "records 2 to 8 were deleted"
    assert 0 < time.from_ns < time.to_ns


def test_a_deleted_partition_is_no_alarm_about_a_second_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_looks, "SECOND_LOOK_S", 1.5)
    with driven(tmp_path, LeaderLost()) as running:
        running.feed.put(topic(), partition(), LOST, removed())
        read(running, 3)
        wait_for(
            lambda: len(running.auditor.second_looks), until=lambda n: n == 0, deadline_s=5, what="no waiting suspicion"
        )
        assert running.auditor.counts.suspicions == 1
        assert running.shown.lines == []


def test_silence_of_the_metadata_log_is_blindness_and_ends(tmp_path: Path) -> None:
    with driven(tmp_path) as running:
        running.auditor.rules["blind"].limit = Blind({"silent_s": 0.5}).limit
        running.feed.portions.put("controller 3 answers not")
        assert lines(running, 1) == [("opened", "blind: metadata log")]
        assert "(controller 3 answers not)" in running.shown.alarms[0].what
        running.auditor.rules["blind"].limit = Blind({"silent_s": 3600}).limit
        running.feed.put(noop())
        assert lines(running, 2)[1:] == [("ended", "blind: metadata log")]
