"""Elections of leaders that may lack committed records, and the exact records that an election lost."""

from __future__ import annotations

import pytest

from harness.audit.rules.epoch_below_commit import EpochBelowCommit
from harness.audit.rules.epochs_fork import EpochsFork
from harness.audit.rules.unclean_leader import UncleanLeader
from harness.audit.store.partitions import Offsets
from harness.model.history.log import Record
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, at, offsets, ranges
from suites.unit.model.history.logs import (
    TOPIC,
    broker,
    change,
    config,
    partition,
    snapshot,
    time_ns,
    topic,
)

PLACE = (TOPIC, 0)
ALONE = change(Isr=(1,), Leader=1)
GONE = change(Isr=(), Leader=-1, EligibleLeaderReplicas=(), LastKnownElr=(1,))


def test_a_leader_outside_isr_and_elr_is_a_loss() -> None:
    scene = Scene(UncleanLeader())
    scene.records(ALONE, change(Leader=-1))
    scene.look(offsets(0, 100, epoch=1))
    (alarm,) = scene.records(change(Leader=2, Isr=(2,), LeaderRecoveryState=1))
    assert (alarm.topic, alarm.partition, alarm.broker, alarm.leader_epoch) == (*PLACE, 2, 3)
    assert (alarm.metadata_offset, alarm.at_ns) == (4, time_ns(4))
    assert (alarm.severity, scene.rule.severity, alarm.needs_look) == (None, Severity.LOSS, False)
    assert (alarm.end_offset, alarm.records) == (100, None)
    assert "although the ISR was [1] and the ELR []" in alarm.what
    assert alarm.what.endswith("The last look saw the high watermark at 100.")


def test_an_eligible_leader_replica_is_passed_over() -> None:
    """Replica 3 is elected although replica 2 is eligible."""
    scene = Scene(UncleanLeader())
    scene.records(change(Isr=(), Leader=-1, EligibleLeaderReplicas=(2,), LastKnownElr=(1,)))
    assert [alarm.severity for alarm in scene.records(change(Leader=3, Isr=(3,)))] == [None]


@pytest.mark.parametrize(
    ("before", "election"),
    [
        (change(Isr=(1, 2)), change(Leader=2, Isr=(2,))),
        (change(Isr=(), Leader=-1, EligibleLeaderReplicas=(2,)), change(Leader=2, Isr=(2,), EligibleLeaderReplicas=())),
        (change(Isr=(1,), Leader=-1), change(Leader=1)),  # the last one in sync is back
        (ALONE, change(Leader=1, Isr=(1,))),  # the epoch is raised without an election
        (ALONE, change(Leader=-1)),
        (ALONE, change(Isr=(1, 3))),
        # The last replica of a reassignment joins the ISR and leads at once.
        (
            change(Replicas=(1, 2, 3, 4), AddingReplicas=(4,), RemovingReplicas=(1, 2, 3)),
            change(Replicas=(4,), AddingReplicas=(), RemovingReplicas=(), Isr=(4,), Leader=4),
        ),
    ],
)
def test_elections_that_lose_nothing(before: Record, election: Record) -> None:
    scene = Scene(UncleanLeader())
    assert scene.records(before, election) == []
    assert scene.tick() == []


def test_the_last_known_leader_is_a_lower_alarm() -> None:
    """KIP-966: ISR and ELR are empty."""
    scene = Scene(UncleanLeader())
    (alarm,) = scene.records(GONE, change(Leader=1, Isr=(1,), LastKnownElr=(), LeaderRecoveryState=1))
    assert alarm.severity is Severity.DANGER
    assert "as the last known leader, because ISR and ELR were empty" in alarm.what


ELIGIBLE = change(Isr=(), Leader=-1, EligibleLeaderReplicas=(2,), LastKnownElr=(1,))
RETURN = change(Leader=1, Isr=(1,), EligibleLeaderReplicas=(), LastKnownElr=(), LeaderRecoveryState=1)


def test_the_last_known_leader_is_elected_when_the_eligible_one_returns_uncleanly() -> None:
    """The registration of broker 2 comes behind the change, in the same batch."""
    scene = Scene(UncleanLeader())
    scene.records(ELIGIBLE)
    (alarm,) = scene.batch(RETURN, broker(2, 9))
    assert alarm.severity is Severity.DANGER


def test_the_registration_comes_behind_the_changes_of_all_partitions() -> None:
    scene = Scene(UncleanLeader())
    eligible = {"Isr": (), "EligibleLeaderReplicas": (2,), "LastKnownElr": (1,)}
    scene.records(partition(number=1), ELIGIBLE, change(number=1, Leader=-1, **eligible))
    leads = change(number=1, Leader=1, Isr=(1,), EligibleLeaderReplicas=(), LastKnownElr=())
    found = scene.batch(RETURN, leads, broker(2, 9))
    assert [(alarm.partition, alarm.severity) for alarm in found] == [(0, Severity.DANGER), (1, Severity.DANGER)]


@pytest.mark.parametrize("behind", [[broker(3, 9)], [config("a", "b")], []])
def test_without_the_return_of_the_eligible_one_it_was_unclean(behind: list[Record]) -> None:
    scene = Scene(UncleanLeader())
    scene.records(ELIGIBLE)
    found = [*scene.batch(RETURN, *behind), *scene.tick()]
    assert [(alarm.severity, alarm.metadata_offset) for alarm in found] == [(None, 3)]


def test_a_later_registration_of_the_eligible_one_proves_nothing() -> None:
    scene = Scene(UncleanLeader())
    scene.records(ELIGIBLE)
    assert [alarm.severity for alarm in scene.records(RETURN, broker(2, 9))] == [None]


def test_an_eligible_replica_that_lost_its_unflushed_records_is_a_lower_alarm() -> None:
    """It left the ELR because it ended uncleanly, and the controller elects it as the last known leader."""
    scene = Scene(UncleanLeader())
    scene.records(change(Isr=(), Leader=-1, EligibleLeaderReplicas=(1,), LastKnownElr=(1,)))
    (alarm,) = scene.batch(RETURN, broker(1, 9))
    assert alarm.severity is Severity.DANGER


def test_a_snapshot_does_not_show_an_election() -> None:
    """The auditor was away, so the state before the election is not known."""
    scene = Scene(UncleanLeader())
    scene.records(ALONE)
    assert scene.load(snapshot(9, topic(), partition(isr=(3,), leader=3, LeaderEpoch=4))) == []
    assert scene.tick() == []


def test_partitions_of_one_election_have_one_cause() -> None:
    scene = Scene(UncleanLeader())
    scene.records(partition(number=1), ALONE, change(number=1, Isr=(1,), Leader=1))
    found = scene.batch(change(Leader=2, Isr=(2,)), change(number=1, Leader=2, Isr=(2,)))
    assert [(alarm.partition, alarm.metadata_offset) for alarm in found] == [(0, 5), (1, 6)]
    assert len({alarm.cause for alarm in found}) == 1


# Records that the election lost


def test_an_epoch_that_begins_below_the_committed_end_names_the_lost_records() -> None:
    scene = Scene(EpochBelowCommit())
    scene.look(at(offsets(0, 150), epochs=[(0, 0)]))
    scene.records(change(Leader=2, Isr=(2,)))
    found = scene.look(at(offsets(0, 120, epoch=1), epochs=[(0, 0), (1, 100)]))
    (alarm,) = scene.confirm(found, at(offsets(0, 400, epoch=1), epochs=[(0, 0), (1, 100)]))
    assert ranges([alarm]) == [(*PLACE, 100, 150)]
    assert (alarm.records, alarm.leader_epoch, alarm.needs_look) == (50, 1, True)
    assert "Leader epoch 1 of orders/0 begins at 100" in alarm.what
    assert "50 records, offsets 100 to 149, are lost" in alarm.what


def test_without_the_start_of_the_epoch_its_high_watermark_proves_a_part() -> None:
    scene = Scene(EpochBelowCommit())
    scene.look(offsets(0, 150))
    (alarm,) = scene.look(offsets(0, 120, epoch=1))
    assert ranges([alarm]) == [(*PLACE, 120, 150)]
    assert not alarm.needs_look  # it only grows from now on
    assert "at least 30 records, offsets 120 to 149" in alarm.what


def test_epochs_between_two_looks_count_too() -> None:
    scene = Scene(EpochBelowCommit())
    scene.look(offsets(0, 150))
    found = scene.look(at(offsets(0, 300, epoch=3), epochs=[(0, 0), (1, 100), (3, 180)]))
    assert ranges(found) == [(*PLACE, 100, 150)]


@pytest.mark.parametrize(
    "after",
    [
        at(offsets(0, 150, epoch=1), epochs=[(0, 0), (1, 150)]),
        at(offsets(0, 150, epoch=1), epochs=[(0, 0), (1, 170)]),  # records that were not committed are kept
        at(offsets(0, 150, epoch=1)),
        at(offsets(0, 140)),  # the same epoch: `high_watermark_back`
        at(Offsets(leader_epoch=1), error="OFFSET_NOT_AVAILABLE"),
        at(Offsets(leader_epoch=1)),
        at(offsets(0, 150, epoch=1), epochs=[(0, 0), (1, 160)]),
    ],
)
def test_epochs_that_begin_rightly(after: object) -> None:
    scene = Scene(EpochBelowCommit())
    scene.look(at(offsets(0, 150, 170), epochs=[(0, 0)]))
    assert scene.look(after) == []  # type: ignore[arg-type]


def test_a_second_answer_about_the_start_dismisses_it() -> None:
    scene = Scene(EpochBelowCommit())
    scene.look(offsets(0, 150))
    found = scene.look(at(offsets(0, 150, epoch=1), epochs=[(1, 100)]))
    assert scene.confirm(found, at(offsets(0, 150, epoch=1), epochs=[(1, 150)])) == []


def test_the_first_look_of_all_compares_with_nothing() -> None:
    assert Scene(EpochBelowCommit()).look(at(offsets(0, 50, epoch=4), epochs=[(4, 10)])) == []


# Forks

KNOWN = at(offsets(5, 300, epoch=3), epochs=[(1, 10), (2, 100), (3, 200)])


def test_two_starts_of_one_epoch_are_a_fork() -> None:
    scene = Scene(EpochsFork())
    assert scene.look(KNOWN) == []
    forked = at(offsets(5, 300, epoch=4), epochs=[(1, 10), (2, 90), (3, 200), (4, 300)])
    found = scene.look(forked)
    (alarm,) = scene.confirm(found, offsets(5, 300, epoch=4), forked)
    assert ranges([alarm]) == [(*PLACE, 90, 100)]
    assert scene.rule.severity is Severity.LOSS
    assert "Leader epoch 2 of orders/0 begins at 90" in alarm.what
    assert "and began at 100" in alarm.what
    assert scene.confirm(found, KNOWN) == []


@pytest.mark.parametrize(
    "epochs",
    [
        [(1, 10), (2, 100), (3, 200), (4, 300)],
        [(3, 200), (4, 300)],  # older ones were deleted
        [(2, 100), (4, 300)],  # a leader without records of epoch 3 does not know it
        [],
    ],
)
def test_chains_that_agree(epochs: list[tuple[int, int]]) -> None:
    scene = Scene(EpochsFork())
    scene.look(KNOWN)
    assert scene.look(at(offsets(5, 300, epoch=4), epochs=epochs)) == []


def test_deletion_moves_the_start_of_the_oldest_epoch() -> None:
    scene = Scene(EpochsFork())
    scene.look(KNOWN)
    assert scene.look(at(offsets(150, 300, epoch=4), epochs=[(2, 150), (3, 200)])) == []


def test_a_replica_that_deleted_less_shows_an_earlier_start_of_the_oldest_epoch() -> None:
    scene = Scene(EpochsFork())
    scene.look(at(offsets(150, 300, epoch=3), epochs=[(2, 150), (3, 200)]))
    assert scene.look(at(offsets(120, 300, epoch=4), epochs=[(2, 130), (3, 200)])) == []
    assert ranges(scene.look(at(offsets(120, 300, epoch=4), epochs=[(2, 130), (3, 190)]))) == [(*PLACE, 190, 200)]


def test_compaction_moves_the_start_of_an_epoch_on_a_new_replica() -> None:
    scene = Scene(EpochsFork())
    scene.records(config("cleanup.policy", "compact"))
    scene.look(KNOWN)
    assert scene.look(at(offsets(5, 300, epoch=4), epochs=[(1, 10), (2, 130), (3, 200)])) == []
