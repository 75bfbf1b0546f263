"""Objects of the tier in a folder: what is missing, what brokers delete, and a folder that shows nothing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final, cast

import pytest

from harness.audit.feeds import tier_objects
from harness.audit.feeds.tier_metadata import TierMetadata
from harness.audit.feeds.tier_objects import TierObjects
from harness.audit.look import ObjectLook
from harness.audit.store.segments import DELETING, FINISHED, STARTED, RemoteSegments
from harness.kafka.storage.remote_log_metadata import SEGMENT, SEGMENT_UPDATE, TierRecord
from harness.kafka.storage.uuids import new_uuid
from harness.model.clock import NS_PER_S
from harness.model.errors import BadInput, HarnessFailure

TOPIC_ID: Final = "4vK0bVw9QfCvyCIvAv3Hcw"
LAYOUTS = (f"kafka-tiered-storage/orders-0-{TOPIC_ID}", f"orders-0-{TOPIC_ID}", f"orders-{TOPIC_ID}/0")


class Metadata:
    """The metadata that its source has read, as the test sets it."""

    def __init__(self) -> None:
        self.segments = RemoteSegments()
        self.read_ns: int | None = time.time_ns()

    def put(self, segment_id: str, state: str, base: int | None = None) -> None:
        self.segments.apply(
            TierRecord(
                kind=SEGMENT_UPDATE if base is None else SEGMENT,
                topic="orders",
                topic_id=TOPIC_ID,
                partition=0,
                segment_id=segment_id,
                state=state,
                base_offset=base,
                end_offset=None if base is None else base + 9,
            )
        )

    def later(self) -> None:
        """A whole read that began long after all that happened so far."""
        self.read_ns = time.time_ns() + 3600 * NS_PER_S


class Tier:
    """Three finished segments with their objects."""

    def __init__(self, folder: Path, layout: str = LAYOUTS[0]) -> None:
        self.folder = folder / layout
        self.folder.mkdir(parents=True)
        self.metadata = Metadata()
        self.ids = [new_uuid() for _ in range(3)]
        for at, segment_id in enumerate(self.ids):
            self.metadata.put(segment_id, STARTED, 10 * at)
            self.metadata.put(segment_id, FINISHED)
            self.object(at).write_bytes(b"records")
        self.source = TierObjects(folder, cast(TierMetadata, self.metadata))

    def object(self, at: int) -> Path:
        return self.folder / f"{10 * at:020d}-{self.ids[at]}.log"

    def poll(self) -> list[ObjectLook]:
        return [*self.source.poll()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_object_that_was_deleted_is_reported_once_after_a_second_read_of_the_metadata(
    tmp_path: Path, layout: str
) -> None:
    tier = Tier(tmp_path, layout)
    assert tier.poll() == []
    tier.object(1).unlink()
    assert tier.poll() == tier.poll() == []  # the metadata was read before
    tier.metadata.later()
    (look,) = tier.poll()
    found = look.segment.segment_id, look.segment.first_offset, look.segment.last_offset, look.state, look.back
    assert found == (tier.ids[1], 10, 19, FINISHED, False)
    assert look.metadata_ns > look.missing_ns
    assert tier.poll() == []
    tier.object(1).write_bytes(b"records")
    assert [(back.segment.segment_id, back.back) for back in tier.poll()] == [(tier.ids[1], True)]


def test_an_empty_object_is_missing(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.object(2).write_bytes(b"")
    tier.poll()
    tier.metadata.later()
    assert [look.segment.first_offset for look in tier.poll()] == [20]


def test_a_segment_that_brokers_delete_misses_nothing(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.object(0).unlink()
    tier.poll()
    tier.metadata.put(tier.ids[0], DELETING)
    tier.metadata.later()
    assert tier.poll() == tier.poll() == []


def test_a_copy_that_has_not_finished_has_no_object_yet(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.metadata.put(new_uuid(), STARTED, 30)
    tier.poll()
    tier.metadata.later()
    assert tier.poll() == []


def test_a_folder_that_shows_nothing_is_no_coverage_and_no_alarm(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.poll()
    shutil.rmtree(tmp_path / "kafka-tiered-storage")
    tier.metadata.later()
    with pytest.raises(HarnessFailure, match="is empty: it is not mounted, or all objects are lost"):
        tier.poll()
    other = Tier(tmp_path / "other", "unknown-layout")
    other.metadata.later()
    for _ in range(2):
        with pytest.raises(HarnessFailure, match="has no object of 3 finished segments"):
            other.poll()


def test_a_folder_that_cannot_be_read_or_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"--tier-dir .*nowhere cannot be read"):
        TierObjects(tmp_path / "nowhere", cast(TierMetadata, Metadata()))
    tier = Tier(tmp_path)
    tier.metadata.read_ns = None
    with pytest.raises(HarnessFailure, match="was not read yet"):
        tier.poll()
    tier.metadata.later()
    shutil.move(tier.folder, tmp_path / "away")
    tier.folder.write_text("a file in its place")
    with pytest.raises(HarnessFailure, match="cannot be read"):
        tier.poll()
    monkeypatch.setattr(tier_objects, "_ANSWER_S", 0.05)
    monkeypatch.setattr(tier_objects, "_holds", lambda _: time.sleep(0.5))
    with pytest.raises(HarnessFailure, match="does not answer"):
        tier.poll()


def test_a_round_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_objects, "_EACH", 1)
    tier = Tier(tmp_path)
    tier.object(2).unlink()
    tier.metadata.later()
    assert [len(tier.poll()) for _ in range(4)] == [0, 0, 1, 0]
