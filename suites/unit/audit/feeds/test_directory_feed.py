"""The feed from a node's disk: where it begins, what it holds back, and what it says when records were deleted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.audit.feeds import directory_feed
from harness.audit.feeds.directory_feed import CommittedEnd, DirectoryFeed
from harness.audit.feeds.feed import FeedSilent, Portion, Position
from suites.unit.audit.feeds.logs import names, snapshot, snapshot_name, topics, write_epochs
from suites.unit.kafka.storage.metadata_bytes import log_folder

SHORT_S = 0.05
LONG_S = 10.0


class Node:
    """A node's folder, a high watermark that the test sets, and the feeds that are closed at its end."""

    def __init__(self, directory: Path) -> None:
        self.folder = log_folder(directory, {})
        self.end: CommittedEnd | None = None
        self.feeds: list[DirectoryFeed] = []

    def segment(self, base: int, *batches: bytes) -> Path:
        path = self.folder / f"{base:020}.log"
        path.write_bytes(b"".join(batches))
        return path

    def append(self, base: int, *batches: bytes) -> None:
        with (self.folder / f"{base:020}.log").open("ab") as file:
            file.write(b"".join(batches))

    def snapshot(self, end: int, *topics_in_it: str) -> Path:
        path = self.folder / f"{snapshot_name(end)}.checkpoint"
        path.write_bytes(snapshot(*topics_in_it))
        return path

    def epochs(self, *starts: tuple[int, int]) -> None:
        write_epochs(self.folder, *starts)

    def feed(self, resume: Position | None = None) -> DirectoryFeed:
        self.feeds.append(DirectoryFeed(self.folder, lambda: self.end, resume))
        return self.feeds[-1]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    made.epochs((1, 0))
    yield made
    for feed in made.feeds:
        feed.close()


def delivered(portion: Portion | None) -> list[str]:
    assert portion is not None
    return names(entry for batch in portion.batches for entry in batch.entries)


# Where it begins


def test_it_begins_at_offset_0_without_a_snapshot(node: Node) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c"))
    node.end = CommittedEnd(3, 1)
    portion = node.feed().poll(LONG_S)
    assert delivered(portion) == ["a", "b", "c"]
    assert portion is not None
    assert (portion.snapshot, portion.next_offset, portion.high_watermark, portion.missed) == (None, 3, 3, None)
    assert portion.position == Position(3, 1)


def test_it_begins_at_the_newest_snapshot_and_goes_on_in_the_log(node: Node) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c"))
    node.snapshot(0)
    node.snapshot(1, "old")
    node.snapshot(2, "a", "b")
    node.end = CommittedEnd(3, 1)
    feed = node.feed()
    first = feed.poll(LONG_S)
    assert first is not None
    assert first.snapshot is not None
    for _ in range(2):  # the entries can be read more than once
        assert names(first.snapshot.entries) == ["a", "b"]
    assert (first.snapshot.end_offset, first.snapshot.time_ms, first.next_offset) == (2, 77, 2)
    assert first.position == Position(2, 1)
    assert delivered(feed.poll(LONG_S)) == ["c"]


def test_a_damaged_snapshot_is_passed_over(node: Node) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c"))
    node.snapshot(2, "a", "b")
    damaged = node.snapshot(3, "a", "b", "c")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    first = node.feed().poll(LONG_S)
    assert first is not None
    assert first.next_offset == 2


def test_a_log_that_no_usable_snapshot_completes_is_silence(node: Node) -> None:
    node.segment(2, topics(2, "c"))
    node.snapshot(1, "a")
    damaged = node.snapshot(2, "a", "b")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    node.end = CommittedEnd(3, 1)
    with pytest.raises(FeedSilent, match="begins at offset 2, and no usable snapshot"):
        node.feed().poll(SHORT_S)


# Only committed records


def test_it_is_cut_at_the_high_watermark(node: Node) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c"))
    node.end = CommittedEnd(2, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a", "b"]
    assert feed.poll(SHORT_S) is None
    node.end = CommittedEnd(3, 1)
    assert delivered(feed.poll(LONG_S)) == ["c"]
    assert feed.poll(SHORT_S) is None


def test_records_of_a_deposed_leader_below_the_high_watermark_are_not_delivered(node: Node) -> None:
    """The node was cut off with a record of epoch 1. The quorum has committed another one at the same offset."""
    path = node.segment(0, topics(0, "a"), topics(1, "never"))
    node.end = CommittedEnd(3, 2)
    feed = node.feed()
    with pytest.raises(FeedSilent, match="no record of leader epoch 2 yet"):
        feed.poll(SHORT_S)
    path.write_bytes(topics(0, "a") + topics(1, "b", epoch=2) + topics(2, "c", epoch=2))
    node.epochs((1, 0), (2, 1))
    assert delivered(feed.poll(LONG_S)) == ["a", "b", "c"]


def test_what_was_read_ahead_and_truncated_is_read_anew(node: Node) -> None:
    """The node already had an uncommitted record when the feed looked, of the same size as the one that replaced it."""
    path = node.segment(0, topics(0, "a"), topics(1, "x"))
    node.end = CommittedEnd(1, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    assert feed.poll(SHORT_S) is None
    path.write_bytes(topics(0, "a") + topics(1, "b", epoch=2))
    node.epochs((1, 0), (2, 1))
    node.end = CommittedEnd(2, 2)
    assert delivered(feed.poll(LONG_S)) == ["b"]


def test_a_high_watermark_of_an_earlier_leader_is_good_enough(node: Node) -> None:
    """Every later leader has what an earlier one committed."""
    node.segment(0, topics(0, "a"), topics(1, "b", epoch=2))
    node.epochs((1, 0), (2, 1))
    node.end = CommittedEnd(1, 1)
    assert delivered(node.feed().poll(LONG_S)) == ["a"]


def test_without_a_high_watermark_nothing_is_delivered(node: Node) -> None:
    node.segment(0, topics(0, "a"))
    with pytest.raises(FeedSilent, match="the high watermark of the quorum is not known"):
        node.feed().poll(SHORT_S)


# Files that grow, roll and go


def test_a_batch_that_is_being_written_waits(node: Node) -> None:
    whole = topics(1, "b")
    node.segment(0, topics(0, "a"), whole[:-3])
    node.end = CommittedEnd(2, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    with pytest.raises(FeedSilent, match="the last batch is not complete"):
        feed.poll(SHORT_S)
    node.append(0, whole[-3:])
    assert delivered(feed.poll(LONG_S)) == ["b"]


def test_a_damaged_batch_below_the_high_watermark_is_silence_and_never_skipped(node: Node) -> None:
    damaged = bytearray(topics(1, "b"))
    damaged[-1] ^= 1
    node.segment(0, topics(0, "a"), bytes(damaged), topics(2, "c"))
    node.end = CommittedEnd(3, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    with pytest.raises(FeedSilent, match=r"0\.log, position \d+: the checksum is wrong"):
        feed.poll(SHORT_S)


def test_a_record_arrives_during_a_poll(node: Node) -> None:
    node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(1, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]

    def write() -> None:
        node.end = CommittedEnd(2, 1)
        node.append(0, topics(1, "b"))

    later = threading.Timer(0.1, write)
    began_s = time.monotonic()
    later.start()
    assert delivered(feed.poll(LONG_S)) == ["b"]
    assert time.monotonic() - began_s < LONG_S / 2
    later.join()


def test_it_goes_on_in_the_next_segment(node: Node) -> None:
    node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(9, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    node.segment(1, topics(1, "b"))
    assert delivered(feed.poll(LONG_S)) == ["b"]


def test_an_open_segment_is_read_to_its_end_after_it_was_deleted(node: Node) -> None:
    old = node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(9, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    node.append(0, topics(1, "b"))
    old.rename(old.with_suffix(".log.deleted"))
    node.segment(2, topics(2, "c"))
    node.snapshot(2, "a", "b")
    assert delivered(feed.poll(LONG_S)) == ["b"]
    assert delivered(feed.poll(LONG_S)) == ["c"]


@pytest.mark.parametrize("resumed", [False, True])
def test_records_that_were_deleted_before_they_were_read_are_missed(node: Node, resumed: bool) -> None:
    old = node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(9, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    old.unlink()
    node.segment(3, topics(3, "d"))
    node.snapshot(3, "a", "c")
    feed = node.feed(Position(1, 1)) if resumed else feed
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.missed == "the records from offset 1 on were deleted from the disk before they were read"
    assert portion.snapshot is not None
    assert names(portion.snapshot.entries) == ["a", "c"]
    assert delivered(feed.poll(LONG_S)) == ["d"]


def test_what_was_missed_is_said_when_a_snapshot_can_be_read_at_last(node: Node) -> None:
    old = node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(9, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    old.unlink()
    node.segment(3, topics(3, "d"))
    damaged = node.snapshot(3, "a", "c")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(FeedSilent, match="no usable snapshot"):
        feed.poll(2.0)
    node.snapshot(3, "a", "c")
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.missed == "the records from offset 1 on were deleted from the disk before they were read"
    assert delivered(feed.poll(LONG_S)) == ["d"]


def test_a_snapshot_is_closed_with_the_next_poll(node: Node) -> None:
    node.segment(1, topics(1, "b"))
    node.snapshot(1, "a")
    node.end = CommittedEnd(2, 1)
    feed = node.feed()
    first = feed.poll(LONG_S)
    feed.poll(SHORT_S)
    assert first is not None
    assert first.snapshot is not None
    with pytest.raises(ValueError, match="closed"):
        list(first.snapshot.entries)


# Continuing


def test_it_resumes_behind_the_last_delivered_record(node: Node) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c", epoch=2))
    node.epochs((1, 0), (2, 2))
    node.snapshot(2, "a", "b")
    node.end = CommittedEnd(3, 2)
    assert delivered(node.feed(Position(2, 1)).poll(LONG_S)) == ["c"]
    assert node.feed(Position(3, 2)).poll(SHORT_S) is None


@pytest.mark.parametrize(
    ("position", "sentence"),
    [
        (Position(2, 2), "offset 1 was written in epoch 2, and now has a record of epoch 1"),
        (Position(1, 1), "a batch has the offsets 0 to 1, and 1 comes next"),
        (Position(4, 2), "offset 3 was committed, and the high watermark is 3"),
    ],
)
def test_a_log_that_is_another_than_before_begins_again(node: Node, position: Position, sentence: str) -> None:
    node.segment(0, topics(0, "a", "b"), topics(2, "c", epoch=2))
    node.epochs((1, 0), (2, 2))
    node.end = CommittedEnd(3, 2)
    feed = node.feed(position)
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.missed is not None
    assert sentence in portion.missed
    assert portion.snapshot is not None  # an empty one, because nothing that was known counts any more
    assert (list(portion.snapshot.entries), portion.next_offset) == ([], 0)
    assert delivered(feed.poll(LONG_S)) == ["a", "b", "c"]


def test_a_quorum_of_an_earlier_epoch_may_be_another_one(node: Node) -> None:
    node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(1, 1)
    with pytest.raises(FeedSilent, match="leader epoch 1, and a record of epoch 7 was committed before"):
        node.feed(Position(1, 7)).poll(SHORT_S)


# Silence


def test_a_node_that_stopped_is_noticed_by_the_quorums_progress(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_feed, "_QUIET_S", SHORT_S)
    node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(1, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    assert feed.poll(4 * SHORT_S) is None  # an idle quorum is no silence of the node
    node.end = CommittedEnd(5, 1)
    with pytest.raises(
        FeedSilent, match="ends at offset 1, and the quorum has committed up to 5; see whether the node"
    ):
        feed.poll(10 * SHORT_S)
    node.append(0, topics(1, "b", "c", "d", "e"))
    assert delivered(feed.poll(LONG_S)) == ["b", "c", "d", "e"]
    assert feed.poll(SHORT_S) is None


def test_a_record_that_was_just_committed_may_be_on_its_way(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_feed, "_QUIET_S", 0.0)
    node.segment(0, topics(0, "a"))
    node.end = CommittedEnd(1, 1)
    feed = node.feed()
    assert delivered(feed.poll(LONG_S)) == ["a"]
    node.end = CommittedEnd(2, 1)
    assert feed.poll(0.0) is None
    with pytest.raises(FeedSilent, match="see whether the node runs"):
        feed.poll(0.0)


def test_a_folder_that_is_gone_is_silence(node: Node) -> None:
    feed = DirectoryFeed(node.folder / "none", lambda: CommittedEnd(1, 1))
    with pytest.raises(FeedSilent, match="cannot be read: No such file or directory"):
        feed.poll(SHORT_S)
    feed.close()


def test_a_closed_feed_says_so(node: Node) -> None:
    feed = node.feed()
    feed.close()
    feed.close()
    with pytest.raises(FeedSilent, match="it was closed"):
        feed.poll(LONG_S)
