"""The sources of one auditor, as far as its options and the cluster allow them, and why the others are missing.

Each thread of the auditor has connections of its own, so that none waits for another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from harness.audit.engine.auditor import Sources
from harness.audit.engine.cluster_state import ClusterState
from harness.audit.engine.source import Source
from harness.audit.feeds.broker_logs import BrokerLogs
from harness.audit.feeds.feed import Feed, Position
from harness.audit.feeds.tier_metadata import TierMetadata
from harness.audit.feeds.tier_objects import TierObjects
from harness.audit.service.broker_looker import BrokerLooker
from harness.audit.service.coverage import Coverage
from harness.audit.service.feeds import feed_of
from harness.audit.service.options import AuditOptions
from harness.audit.service.other_sources import GroupSource, LogSource, TransactionSource
from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.described_cluster import DescribedCluster
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Unanswered

_WITHOUT_LOG: Final = (
    "neither --controllers nor --metadata-dir was given, so elections and the order of changes are not seen; brokers "
    "are asked for their state every few seconds"
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The sources that are open, and what they cover."""

    feed: Feed
    looker: BrokerLooker
    others: Sequence[Source]
    coverage: Coverage

    def for_engine(self) -> Sources:
        return Sources(self.feed, self.looker, self.others, frozenset(self.coverage.covered))

    def use(self, state: ClusterState) -> None:
        """Sources that ask about topics and settings get the answers of this state."""
        self.looker.setting, self.looker.exists = (
            state.setting,
            lambda topic_id: state.packed.topic(topic_id) is not None,
        )
        for source in self.others:
            if isinstance(source, GroupSource):
                source.topic_id = state.topic_id

    def close(self) -> None:
        """Idempotent, as the engine closes what it was given, too."""
        self.feed.close()
        self.looker.close()
        for source in self.others:
            source.close()


def open_sources(
    options: AuditOptions,
    cluster: DescribedCluster,
    security: Security,
    resume: Position | None,
    settings_missing: str | None,
) -> Opened:
    """BadInput if a source that the user named cannot be used."""
    coverage = Coverage()
    feed = feed_of(options, cluster, security, resume)
    coverage.add("metadata", _WITHOUT_LOG if options.without_log else None)
    coverage.add("settings", settings_missing)
    coverage.add("offsets")
    coverage.add("replicas")
    return Opened(feed, BrokerLooker(_brokers(options, security)), [*_others(options, security, coverage)], coverage)


def _others(options: AuditOptions, security: Security, coverage: Coverage) -> list[Source]:
    """One thread asks them one after the other, so they share connections."""
    brokers = _brokers(options, security)
    metadata = TierMetadata(brokers, keep=options.tier_dir is not None)
    found: list[Source] = [TransactionSource(brokers), metadata]
    if options.tier_dir is not None:
        found.append(TierObjects(options.tier_dir, metadata))
    else:
        coverage.add("objects", "no --tier-dir was given, so whether the tier has its objects is not known")
    if options.groups:
        found.append(GroupSource(brokers, options.groups))
    else:
        coverage.add("groups", "no --groups were given")
    if options.logs is not None:
        found.append(LogSource(BrokerLogs(options.logs)))
    else:
        coverage.add("logs", "no --logs were given, so why a log start moved is not known")
    coverage.asked.update(source.covers for source in found)
    return found


def _brokers(options: AuditOptions, security: Security) -> Brokers:
    brokers = Brokers(addresses_of(options.bootstrap), security)
    with suppress(Unanswered):  # it is tried again
        brokers.refresh()
    return brokers
