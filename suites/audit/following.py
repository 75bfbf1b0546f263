"""Feeds that are followed in threads, and the logs on disk with which their records are compared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.audit.feeds.directory_feed import CommittedEnd
from harness.audit.feeds.feed import Feed, FeedSilent, Portion
from harness.audit.feeds.states import quorum_seen
from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.link import Address
from harness.kafka.admin.wire import Unanswered
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.kafka.storage.metadata_log import MetadataLogReader
from harness.model.history.log import Entry, LogBatch, NodeLog, Record
from harness.model.waiting import wait_for

POLL_S = 1.0
CAUGHT_UP_S = 30.0


class Follower:
    """Polls a feed in a thread until it is stopped, and keeps what it delivered."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.portions: list[Portion] = []
        self.snapshots: dict[int, list[Entry]] = {}  # by the number of the portion
        self.silences: list[tuple[float, str]] = []  # monotonic time, and the reason
        self.delivered_s: dict[str, float] = {}  # topic -> monotonic time of its record's delivery
        self.record_age_s: dict[str, float] = {}  # topic -> age of its record at delivery, by clocks of one machine
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    @property
    def batches(self) -> list[LogBatch]:
        return [batch for portion in self.portions for batch in portion.batches]

    @property
    def next_offset(self) -> int:
        return self.portions[-1].next_offset if self.portions else 0

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.feed.close()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                portion = self.feed.poll(POLL_S)
            except FeedSilent as silent:
                self.silences.append((time.monotonic(), str(silent)))
                continue
            if portion is None:
                continue
            now = time.monotonic()
            if portion.snapshot is not None:
                self.snapshots[len(self.portions)] = list(portion.snapshot.entries)
            for batch in portion.batches:
                for name in topics_in(iter(batch.entries)):
                    self.delivered_s[name] = now
                    self.record_age_s[name] = time.time() - batch.entries[0].time_ms / 1000
            self.portions.append(portion)


@contextmanager
def following(*feeds: Feed) -> Iterator[list[Follower]]:
    followers = [Follower(feed) for feed in feeds]
    try:
        yield followers
    finally:
        for follower in followers:
            follower.stop()


def topics_in(entries: Iterator[Entry]) -> Iterator[str]:
    """The names of the topics that some records create."""
    for entry in entries:
        if isinstance(entry, Record) and entry.kind == "TopicRecord":
            yield entry.text("Name")


def catch_up(followers: list[Follower], end: int) -> None:
    """Waits until every follower has what lies below an offset."""
    wait_for(
        lambda: [follower.next_offset for follower in followers],
        until=lambda offsets: min(offsets) >= end,
        deadline_s=CAUGHT_UP_S,
        what=f"feeds at offset {end}",
    )


def addresses(cluster: JvmCluster, nodes: tuple[int, ...]) -> list[Address]:
    return [cluster.direct_address(node) for node in nodes]


def metadata_folder(cluster: JvmCluster, node: int) -> Path:
    return cluster.log_directories(node)[0] / METADATA_LOG


def log_on_disk(cluster: JvmCluster, node: int, end: int) -> NodeLog:
    """The metadata log of a running node, read as a whole when it has what lies below an offset."""
    return wait_for(
        lambda: MetadataLogReader().read_folder(node, metadata_folder(cluster, node)),
        until=lambda log: log.end >= end,
        deadline_s=CAUGHT_UP_S,
        what=f"the log of node {node} to reach offset {end}",
    )


def committed_by(brokers: Brokers) -> Callable[[], CommittedEnd | None]:
    """The high watermark by way of the brokers, as a feed of a directory needs it."""

    def committed() -> CommittedEnd | None:
        try:
            seen = quorum_seen(brokers, 1.0)
        except Unanswered:
            return None
        return CommittedEnd(seen.high_watermark, seen.leader_epoch)

    return committed
