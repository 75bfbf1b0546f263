"""The source of the metadata log that the user chose, checked before the auditor starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.directory_feed import DirectoryFeed
from harness.audit.feeds.feed import Feed, FeedSilent, Portion, Position
from harness.audit.service.described_feed import DescribedFeed
from harness.audit.service.options import AuditOptions
from harness.audit.service.quorum_end import QuorumEnd
from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.described_cluster import DescribedCluster
from harness.kafka.admin.security import Security
from harness.kafka.storage.log_directory import METADATA_LOG
from harness.model.errors import BadInput
from harness.model.user_files import read_text

DEADLINE_S: Final = 10.0
_POLL_S: Final = 2.0
_PROPERTIES: Final = "meta.properties"


@dataclass(slots=True)
class StartedFeed:
    """A feed that has proven that it can be read. The portion that proved it is the first one again."""

    feed: Feed
    first: Portion | None
    closed: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self.feed.name

    def poll(self, wait_s: float) -> Portion | None:
        portion, self.first = self.first, None
        return portion or self.feed.poll(wait_s)

    def close(self) -> None:
        self.feed.close()
        self.closed()


def feed_of(
    options: AuditOptions, cluster: DescribedCluster, security: Security, resume: Position | None
) -> StartedFeed:
    """BadInput, with the remedy, if nothing can be read from the source that the user chose."""
    if options.controllers is not None:
        addresses = addresses_of(options.controllers, "--controllers")
        return _started(ControllerFeed(addresses, security, resume), f"--controllers {options.controllers}")
    if options.metadata_dir is None:
        described = DescribedFeed(Brokers(addresses_of(options.bootstrap), security))
        return _started(described, f"--bootstrap {options.bootstrap}")
    folder = _metadata_folder(options.metadata_dir, cluster.cluster_id)
    committed = QuorumEnd(Brokers(addresses_of(options.bootstrap), security))
    committed.check()
    feed = _started(DirectoryFeed(folder, committed, resume), f"--metadata-dir {options.metadata_dir}")
    feed.closed = committed.close
    return feed


def _started(feed: Feed, option: str) -> StartedFeed:
    give_up_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            portion = feed.poll(_POLL_S)
        except FeedSilent as silent:
            why = str(silent)
        else:
            if portion is not None:
                return StartedFeed(feed, portion)
            why = "it has no committed records"
        if time.monotonic() > give_up_s:
            feed.close()
            raise BadInput(
                f"{option}: the metadata log cannot be followed ({why}); `durability audit privileges --level "
                "controller` shows the permission that controllers require"
            )


def _metadata_folder(given: Path, cluster_id: str) -> Path:
    """The folder of the log's partition. BadInput unless it belongs to this cluster."""
    option = f"--metadata-dir {given}"
    folder = given if given.name == METADATA_LOG else given / METADATA_LOG
    try:
        if not folder.is_dir():
            raise BadInput(f"{option} has no {METADATA_LOG}; give the metadata.log.dir of a node of the cluster")
        text = read_text(folder.parent / _PROPERTIES)
    except (OSError, UnicodeDecodeError) as refused:
        why = getattr(refused, "strerror", None) or "it is no text"
        raise BadInput(f"{option}: {_PROPERTIES} cannot be read ({why}); give a folder that you may read") from None
    entries = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    found = entries.get("cluster.id", "").strip()
    if found != cluster_id:
        raise BadInput(
            f"{option} belongs to the cluster {found}, and --bootstrap to {cluster_id}; give one of the same"
        )
    return folder
