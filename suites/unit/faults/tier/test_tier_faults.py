"""Faults of the remote tier without brokers: what is refused, what changes on disk, what proves an effect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.faults.steps.registry import check_steps
from harness.faults.tier import common as shared
from harness.faults.tier.common import WaitTiered, WaitUntiered, copies_failed
from harness.faults.tier.damage_object import DamageObject
from harness.faults.tier.delete_objects import DeleteObjects
from harness.faults.tier.tier_outage import TierOutage, exchange
from harness.faults.tier.tier_swapped import TierSwapped
from harness.kafka.admin.fetch import Served
from harness.kafka.admin.offsets import TieredReplica
from harness.kafka.storage.local_tier import ROOT
from harness.model.documents.steps import Event
from harness.model.errors import BadInput, HarnessFailure, HarnessTimeout
from harness.model.scenario.scenario import ClusterShape, Producer, Scenario, Step, Topic
from suites.steps_json import untimed
from suites.unit.kafka.storage.test_local_tier import SEGMENT, TOPIC_ID
from suites.unit.kafka.storage.test_record_batch import batch_bytes

FAR = Topic(name="far", partitions=1, config={"remote.storage.enable": "true"})
NEAR = Topic(name="near", partitions=1)
BATCHES = [batch_bytes(0, [b"a" * 50]), batch_bytes(1, [b"b" * 50]), batch_bytes(2, [b"c" * 50])]
ANOTHER = batch_bytes(3, [b"d" * 50])


def scenario(step: dict[str, Any], tier: str = "local") -> Scenario:
    args = {key: value for key, value in step.items() if key != "do"}
    return Scenario(
        name="s",
        title="",
        property="",
        shape=ClusterShape(tier=cast(Any, tier)),
        topics=(FAR, NEAR),
        producers=(Producer(name="p", topics=("far",)),),
        steps=(Step(do=step["do"], name="it", args=args),),
    )


@pytest.mark.parametrize(
    "step",
    [
        {"do": "tier_outage"},
        {"do": "tier_swapped"},
        {"do": "damage_object", "of": "far/0", "what": "lost"},
        {"do": "delete_objects", "of": "far/0"},
        {"do": "wait_tiered"},
        {"do": "wait_untiered", "on": ["far/*"]},
        {"do": "replay"},
    ],
)
def test_faults_of_the_tier_are_refused_without_a_tier(step: dict[str, Any]) -> None:
    check_steps(scenario(step))
    with pytest.raises(BadInput, match=f'{step["do"]} needs a remote tier; set tier = "local"'):
        check_steps(scenario(step, tier=""))


def test_topics_that_are_not_in_the_tier_are_refused() -> None:
    for step in (
        {"do": "damage_object", "of": "near/0", "what": "lost"},
        {"do": "delete_objects", "of": "near/0"},
        {"do": "wait_tiered", "on": ["near/*"]},
        {"do": "wait_untiered", "on": ["near/*"]},
        {"do": "replay", "on": ["near/0"]},
    ):
        with pytest.raises(BadInput, match="topic near is not in the remote tier"):
            check_steps(scenario(step))


class Admin:
    """Serves the objects of the store from an offset on, as a leader does: without checking them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reported: dict[tuple[str, int, int], TieredReplica] = {}

    def partitions(self, topics: Any) -> list[Any]:
        return [SimpleNamespace(topic="far", partition=0, leader=1, leader_epoch=0, isr=(1,), replicas=(1,))]

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Served | None:
        if not self.path.exists():
            return Served("UNKNOWN_SERVER_ERROR", b"")
        return Served(None, self.path.read_bytes()[sum(map(len, BATCHES[:offset])) :][:max_bytes])

    def tiered_replicas(self, topics: Any) -> dict[tuple[str, int, int], TieredReplica]:
        return self.reported


@pytest.fixture
def context(tmp_path: Path) -> Any:
    folder = tmp_path / "tier" / ROOT / f"far-0-{TOPIC_ID}"
    folder.mkdir(parents=True)
    path = folder / f"{0:020}-{SEGMENT}.log"
    path.write_bytes(b"".join(BATCHES))
    replica = tmp_path / "b1" / "far-0"
    replica.mkdir(parents=True)
    for base in (0, 3):
        (replica / f"{base:020}.log").write_bytes(b"")
    log = tmp_path / "server.log"
    log.write_text("Error occurred while copying log segments of partition: before\n")
    admin = Admin(path)
    cluster = SimpleNamespace(
        brokers=(1,),
        tier_store=tmp_path / "tier",
        server_log=lambda _: log,
        log_directories=lambda _: [tmp_path / "b1"],
    )
    reported: list[Event] = []
    return SimpleNamespace(
        cluster=cluster,
        admin=admin,
        reported=reported,
        record_event=reported.append,
        topics=(FAR, NEAR),
        path=path,
        log=log,
        states=lambda places: {(s.topic, s.partition): s for s in admin.partitions(())},
        places=lambda on: [("far", 0)],
    )


@pytest.mark.parametrize(
    ("what", "left", "answer"),
    [
        ("lost", None, "UNKNOWN_SERVER_ERROR"),
        ("cut", BATCHES[:2], "nothing"),
        ("zero", [bytes(sum(map(len, BATCHES)))], "other bytes"),
    ],
)
def test_an_object_is_changed_and_restored(context: Any, what: Any, left: list[bytes] | None, answer: str) -> None:
    with DamageObject(of="far/0", what=what).active(context) as injected:
        assert (context.path.read_bytes() if context.path.exists() else None) == (left and b"".join(left))
        effect = injected.probe()
        assert (effect.held, effect.because.endswith(f"answered with {answer}")) == (True, True), effect.because
    assert context.path.read_bytes() == b"".join(BATCHES)
    assert [path.name for path in context.path.parent.iterdir()] == [context.path.name]


def test_one_bit_flips_in_the_middle_and_stays_flipped_with_kept(context: Any) -> None:
    with DamageObject(of="far/0", what="flip", kept=True).active(context) as injected:
        assert injected.probe().held
        assert injected.resolved["offset"] == 1
    was, now = b"".join(BATCHES), context.path.read_bytes()
    (at,) = [n for n in range(len(was)) if was[n] != now[n]]
    assert (was[at] ^ now[at]).bit_count() == 1
    assert len(BATCHES[0]) < at < len(BATCHES[0]) + len(BATCHES[1])


def test_a_batch_that_the_leader_serves_as_before_proves_nothing(context: Any) -> None:
    with DamageObject(of="far/0", what="lost").active(context) as injected:
        context.path.write_bytes(b"".join(BATCHES))
        assert injected.probe().because == "the leader serves far-0 at offset 0 as before"
        context.admin.fetch = lambda *_: None
        assert injected.probe().because == "no leader of far-0 at offset 0 answers"


def test_an_empty_tier_has_nothing_to_damage(context: Any) -> None:
    context.path.unlink()
    with pytest.raises(HarnessFailure, match="no segment of far-0 is in the remote tier"):
        DamageObject(of="far/0", what="lost").active(context).__enter__()


def test_during_an_outage_a_file_takes_the_place_of_the_folder(
    context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared, "await_recent_acks", lambda _, chosen: dict.fromkeys([("far", 0)]))
    with TierOutage().active(context) as injected:
        assert (tmp_path / "tier" / ROOT).is_file()
        assert injected.probe().because == "no broker failed to copy a segment to the remote tier"
        with context.log.open("a") as log:
            log.write("ERROR Error occurred while copying log segments of partition: x:far-0\n")
        assert injected.probe().seen == {"failed": [1]}
    assert context.path.read_bytes() == b"".join(BATCHES)
    assert [path.name for path in (tmp_path / "tier").iterdir()] == [ROOT]


def test_an_outage_without_load_proves_nothing(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "await_recent_acks", lambda _, chosen: {})
    assert copies_failed(context)().because == "no partition of the remote tier had acks in the last second"


def test_paths_that_cannot_be_swapped_are_reported(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    with pytest.raises(HarnessFailure, match="cannot be swapped: No such file"):
        exchange(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize(("highest", "local"), [(2, 0), (None, 3)])
def test_the_wait_ends_when_the_rolled_segments_are_in_the_tier(context: Any, highest: int | None, local: int) -> None:
    context.admin.reported = {("far", 0, 1): TieredReplica(0, 0, 9, -1 if highest else None)}
    with pytest.raises(HarnessTimeout, match="in the tier below 0 of 3"):
        WaitTiered(deadline_s=0.01).perform(context)
    assert context.reported == []
    context.admin.reported = {("far", 0, 1): TieredReplica(0, local, 9, highest)}
    assert WaitTiered(deadline_s=1).perform(context).resolved["tiered_below"] == {"far/0": 3}
    assert untimed(context.reported) == [{"kind": "tiered_seen", "topic": "far", "partition": 0, "below": 3}]


def test_the_wait_for_deletion_ends_when_no_replica_has_the_segments(context: Any) -> None:
    (in_part, whole) = (TieredReplica(0, 0, 9, 2), TieredReplica(0, 3, 9, 2))
    context.admin.reported = {("far", 0, 1): whole, ("far", 0, 2): in_part}
    with pytest.raises(HarnessTimeout, match="deleted below 0 of 3"):
        WaitTiered(deleted=True, deadline_s=0.01).perform(context)
    context.admin.reported = {("far", 0, 1): whole, ("far", 0, 2): whole}
    assert WaitTiered(deleted=True, deadline_s=1).perform(context).resolved["tiered_below"] == {"far/0": 3}


@pytest.mark.parametrize(("reached", "left"), [(-1, 2), (2, 1)])
def test_the_active_segment_does_not_count_as_untiered(context: Any, reached: int, left: int) -> None:
    (context.cluster.log_directories(1)[0] / "far-0" / f"{6:020}.log").write_bytes(b"")
    context.admin.reported = {("far", 0, 1): TieredReplica(0, 0, 9, reached)}
    found = WaitUntiered(on=("far/0",), segments=left, deadline_s=1).perform(context).resolved
    assert cast(Any, found["untiered"])["far/0"] == left
    with pytest.raises(HarnessTimeout, match="rolled segments of each partition not to be in the remote tier"):
        WaitUntiered(on=("far/0",), segments=left + 1, deadline_s=0.01).perform(context)


def test_another_object_takes_the_place_of_the_oldest(context: Any) -> None:
    newest = context.path.with_name(f"{3:020}-{SEGMENT[::-1]}.log")
    newest.write_bytes(ANOTHER)
    with DamageObject(of="far/0", what="another").active(context) as injected:
        assert context.path.read_bytes() == newest.read_bytes()
        assert injected.probe().because.endswith("answered with other bytes")
    assert context.path.read_bytes() == b"".join(BATCHES)


def test_only_the_objects_of_the_newest_segment_are_deleted(context: Any) -> None:
    newest = context.path.with_name(f"{3:020}-{SEGMENT[::-1]}.log")
    newest.write_bytes(ANOTHER)
    newest.with_suffix(".index").write_bytes(b"")
    whole, in_part = TieredReplica(0, 4, 9, 3), TieredReplica(0, 3, 9, 3)
    context.admin.reported = {("far", 0, 1): whole, ("far", 0, 2): in_part}
    DeleteObjects(of="far/0").perform(context)
    assert [path.name for path in context.path.parent.iterdir()] == [context.path.name]
    deleted = {"kind": "objects_deleted", "topic": "far", "partition": 0, "segment_id": SEGMENT[::-1]}
    assert untimed(context.reported) == [deleted | {"base_offset": 3, "last_offset": 3, "local_start": 3}]
    with pytest.raises(HarnessFailure, match="only 1 of 2 segments of far-0 are in the remote tier"):
        DeleteObjects(of="far/0", segments=2).perform(context)
    assert context.path.exists()


def test_an_empty_folder_takes_the_place_of_the_tier(context: Any, tmp_path: Path) -> None:
    root = tmp_path / "tier" / ROOT
    name = f"{3:020}-{SEGMENT[::-1]}.log"
    with TierSwapped().active(context) as injected:
        assert list(root.iterdir()) == []
        assert injected.probe().because == "no broker has copied a segment into the other folder"
        for place in (context.path.parent.name, f"far-1-{TOPIC_ID}"):
            (root / place).mkdir()
            (root / place / name).write_bytes(ANOTHER)
        assert injected.probe().seen == {"copied": 2}
        context.admin.fetch = lambda *_: Served(None, b"".join(BATCHES))
        assert injected.probe().because == "the leader serves far-0 at offset 0 as before"
    assert context.path.read_bytes() == b"".join(BATCHES)
    assert (context.path.parent / name).read_bytes() == ANOTHER
    assert (root / f"far-1-{TOPIC_ID}" / name).read_bytes() == ANOTHER
    assert [path.name for path in (tmp_path / "tier").iterdir()] == [ROOT]


def test_the_folder_of_a_server_cannot_be_swapped() -> None:
    with pytest.raises(BadInput, match='tier_swapped needs a folder that brokers share; set tier = "local"'):
        check_steps(scenario({"do": "tier_swapped"}, tier="s3"))
    for tier in ("local", "kafka_local"):
        check_steps(scenario({"do": "tier_swapped"}, tier=tier))


def test_only_a_tier_with_a_server_can_be_cut_off() -> None:
    check_steps(scenario({"do": "tier_cut"}, tier="s3"))
    with pytest.raises(BadInput, match='tier_cut needs a tier with a server: set tier = "s3"'):
        check_steps(scenario({"do": "tier_cut"}))
    with pytest.raises(BadInput, match='tier_cut needs a remote tier; set tier = "local"'):
        check_steps(scenario({"do": "tier_cut"}, tier=""))
