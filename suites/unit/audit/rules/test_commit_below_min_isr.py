"""A high watermark that moves below min.insync.replicas: only if both looks and the ISR are beyond doubt."""

from __future__ import annotations

import pytest

from harness.audit.rules.commit_below_min_isr import CommitBelowMinIsr
from harness.audit.rules.rule import Suspicion
from harness.model.severity import Severity
from suites.unit.audit.rules.scene import Scene, feature, offsets, ranges
from suites.unit.model.history.logs import TOPIC, change, config, partition, topic

BELOW = change(Isr=(1,), Leader=1)


def scene_with(min_isr: str = "2", level: int = 15, replicas: tuple[int, ...] = (1, 2, 3)) -> Scene:
    scene = Scene(CommitBelowMinIsr(), made=False)
    scene.records(topic(), config("min.insync.replicas", min_isr), partition(Replicas=replicas, isr=replicas))
    scene.records(feature("metadata.version", level))
    scene.look(offsets(0, 100))
    return scene


def suspected(scene: Scene) -> list[Suspicion]:
    scene.look(offsets(0, 100, epoch=1))
    return scene.look(offsets(0, 110, epoch=1))


def test_a_high_watermark_that_moves_below_min_isr() -> None:
    scene = scene_with()
    scene.records(BELOW)
    found = suspected(scene)
    (alarm,) = scene.confirm(found, *(offsets(0, 110 + 10 * at, epoch=1) for at in range(20)))
    assert scene.rule.severity is Severity.DANGER
    assert alarm.records is not None
    assert alarm.records > 0
    assert alarm.metadata_offset == 4
    assert alarm.leader_epoch == 1
    assert "while the ISR was [1] in partition epoch 1, fewer than the 2 replicas" in alarm.what
    assert ranges([alarm]) == [(TOPIC, 0, alarm.first_offset, alarm.end_offset)]
    assert not scene.over(alarm)
    scene.records(change(Isr=(1, 2)))
    assert scene.over(alarm)


def test_a_leader_that_learns_of_the_isr_late_commits_once() -> None:
    scene = scene_with()
    scene.records(BELOW)
    assert scene.confirm(suspected(scene), offsets(0, 120, epoch=1)) == []


def test_commits_within_the_time_in_which_a_leader_learns_do_not_count() -> None:
    scene = scene_with()
    scene.records(BELOW)
    assert scene.confirm(suspected(scene), offsets(0, 110, epoch=1), offsets(0, 120, epoch=1)) == []


def test_an_idle_partition_below_min_isr() -> None:
    scene = scene_with()
    scene.records(BELOW)
    for _ in range(5):
        assert scene.look(offsets(0, 100, epoch=1)) == []


def test_it_is_suspected_again_after_a_while_only() -> None:
    scene = scene_with()
    scene.records(BELOW)
    assert len(suspected(scene)) == 1
    seen = [len(scene.look(offsets(0, 200 + second, epoch=1))) for second in range(60)]
    assert sum(seen) == 2
    assert seen[0] == 0


def test_an_isr_that_grew_before_the_metadata_log_said_so() -> None:
    """The leader commits at once; the record comes between the last look and the alarm."""
    scene = scene_with()
    scene.records(BELOW)
    (suspicion,) = suspected(scene)
    for seen in (110, 110, 110, 130):
        answer = scene.rule.confirmed(suspicion, scene.timed(offsets(0, seen, epoch=1)), scene.view)
        assert answer is not None
        assert answer.again
        suspicion = answer
    scene.records(change(Isr=(1, 2)))
    assert scene.confirm([suspicion], offsets(0, 140, epoch=1)) == []


@pytest.mark.parametrize(
    "scene",
    [
        scene_with(min_isr="1"),
        scene_with(level=14),  # 3.6
        scene_with(replicas=(1,)),  # min(min.insync.replicas, replicas) = 1
    ],
)
def test_high_watermarks_that_move_rightly(scene: Scene) -> None:
    scene.records(BELOW)
    assert suspected(scene) == []


def test_a_high_watermark_of_another_epoch_is_not_compared() -> None:
    scene = scene_with()
    scene.records(BELOW)
    assert scene.look(offsets(0, 110, epoch=1)) == []


def test_nothing_is_concluded_while_the_metadata_log_is_silent() -> None:
    scene = scene_with()
    scene.records(BELOW)
    found = suspected(scene)
    scene.view.covered.discard("metadata")
    assert scene.confirm(found, *(offsets(0, 110 + 10 * at, epoch=1) for at in range(20))) == []


def test_a_lower_setting_ends_the_doubt() -> None:
    scene = scene_with()
    scene.records(BELOW)
    found = suspected(scene)
    scene.records(config("min.insync.replicas", "1"))
    assert scene.confirm(found, *(offsets(0, 110 + 10 * at, epoch=1) for at in range(20))) == []
