"""The topics of a live cluster: what each may lose, compared with three replicas of which two must be in sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from harness.commands.text import consumer, effects, fixes, producer, reasons
from harness.kafka.admin.live_topics import LiveCluster, LiveTopic, not_read_lines
from harness.model.contract.avoidable import BAD, SHORT_H, avoidable_promises, three_replicas, writer_of
from harness.model.contract.configuration import ClientSettings
from harness.model.contract.coordinator_rules import in_state
from harness.model.contract.effects import Promise
from harness.model.contract.internal_topics import OFFSETS, OWN, SHARE_STATE, TIER_METADATA, TRANSACTIONS
from harness.model.contract.promises import promises

_LOST_WITH: Final[Mapping[str, str]] = {
    OFFSETS: "committed offsets of groups: they continue at an earlier commit, or by auto.offset.reset",
    TRANSACTIONS: "ends of transactions and epochs of their producers: a committed transaction may abort, an "
    "open one may hang, and a fenced zombie may write again",
    SHARE_STATE: "accepted records of share groups: they are redelivered",
    TIER_METADATA: "entries about segments in the remote tier: brokers cannot read segments that they do not know",
}
# JSON keys of a topic with known settings.
_KEYS: Final = (
    "settings",
    "transaction_version",
    "without_leader_now",
    "below_min_isr_now",
    "avoidable",
    "promises",
)


def as_finalized(client: ClientSettings, cluster: LiveCluster) -> ClientSettings:
    """With the transaction.version of the cluster; 0, that of clusters before 4.0, if it is unknown."""
    return replace(client, transaction_version=cluster.transaction_version or 0)


def cluster_as_plain(cluster: LiveCluster, client: ClientSettings) -> list[dict[str, object]]:
    """The topics as plain JSON types: those with unreadable settings first, then the others, the worst first."""
    unknown = dict.fromkeys(_KEYS)
    not_read = [{"topic": t.name, "internal": t.name in OWN, "not_read": t.why, **unknown} for t in cluster.not_read]
    return not_read + [live_as_plain(topic, client) for topic in worst_first(cluster.topics, client)]


def live_as_plain(topic: LiveTopic, client: ClientSettings) -> dict[str, object]:
    """A topic as plain JSON types. not_read: why its settings could not be read, else null."""
    writer = writer_of(topic.name, client)
    return {
        "topic": topic.name,
        "internal": topic.internal,
        "not_read": None,
        "settings": asdict(topic.settings),
        "transaction_version": writer.transaction_version if writer.transactional else None,
        "without_leader_now": list(topic.leaderless),
        "below_min_isr_now": topic.short,
        "avoidable": [promise.event.name for promise in avoidable(topic, client)],
        "promises": [asdict(in_state(topic.name, promise)) for promise in promises(topic.settings, writer)],
    }


def worst_first(topics: Sequence[LiveTopic], client: ClientSettings) -> list[LiveTopic]:
    """Topics with the worst possible losses first; among equals, those that accept no record now."""

    def badness(topic: LiveTopic) -> tuple[list[int], int]:
        return [promise.severity for promise in avoidable(topic, client)], len(topic.stopped)

    return sorted(topics, key=lambda topic: (badness(topic), topic.name), reverse=True)


def avoidable(topic: LiveTopic, client: ClientSettings) -> list[Promise]:
    """Promises that are worse than those of three replicas of which two must be in sync."""
    return avoidable_promises(topic.name, topic.settings, client)


def live_explained(bootstrap: str, cluster: LiveCluster, client: ClientSettings) -> list[str]:
    """Returns lines about the topics, the worst first; the losses that no setting avoids come last."""
    topics = cluster.topics
    lines = _head(bootstrap, cluster, client)
    safe = []
    for topic in worst_first(topics, client):
        bad = avoidable(topic, client)
        if not bad and not topic.stopped:
            safe.append(topic)
            continue
        lines += ["", f"{topic.name}: {topic.settings}"]
        if topic.internal:
            lines.append(f"  if it is lost, so are the {_LOST_WITH[topic.name]}")
        lines += _now(topic)
        for promise in bad:
            lines += [f"  {effects(promise)} when {promise.event.happens}", *reasons(promise, "    ")]
    if safe:
        names = ", ".join(sorted(topic.name for topic in safe))
        lines += ["", f"as safe as three replicas with two in sync required: {names}"]
        lines += [f"  if {topic.name} is lost, so are the {_LOST_WITH[topic.name]}" for topic in safe if topic.internal]
    return [*lines, *_of_all(topics, client), *_by_size(topics)]


def _now(topic: LiveTopic) -> list[str]:
    lines = [f"  now: partitions {_listed(topic.leaderless)} have no leader"] if topic.leaderless else []
    if topic.short:
        lines.append(f"  now: partitions {_listed(topic.short)} have fewer replicas in sync than required")
    return lines


def _head(bootstrap: str, cluster: LiveCluster, client: ClientSettings) -> list[str]:
    topics = cluster.topics
    count = f"{len(topics)} topic{'s' if len(topics) != 1 else ''}"
    lines = [f"{count} of {bootstrap}; assumed: a producer with {producer(client)}"]
    lines.append(f"and a consumer that {consumer(client)}")
    if own := [topic.name for topic in topics if topic.internal]:
        lines.append(f"{', '.join(own)}: written by brokers with acks=all")
    lines += not_read_lines(cluster.not_read)
    if not all(topic.elr_known for topic in topics):
        lines.append("the brokers do not report whether eligible leader replicas (KIP-966) are on; assumed: off")
    return lines + _transactions(cluster.transaction_version, client)


def _transactions(finalized: int | None, client: ClientSettings) -> list[str]:
    if not client.transactional:
        return []
    taken = client.transaction_version
    if finalized is None:
        return [f"the brokers do not report the finalized transaction.version (KIP-890); assumed: {taken}"]
    other = "" if finalized == taken else f"; the answer assumes {taken}, as asked for"
    return [f"the cluster has finalized transaction.version {finalized} (KIP-890){other}"]


def _of_all(topics: Sequence[LiveTopic], client: ClientSettings) -> list[str]:
    """The losses that three replicas with two in sync do not avoid, and their topics if not all are concerned."""
    found: dict[Promise, list[str]] = {}
    for topic in topics:
        for promise in promises(three_replicas(topic.settings), writer_of(topic.name, client)):
            if BAD & set(promise.effects):
                found.setdefault(promise, []).append(topic.name)
    lines = []
    for promise, names in sorted(found.items(), key=lambda item: -item[0].severity):
        of = "" if len(names) == len(topics) else f", of {_listed(names)}"
        lines.append(f"  {effects(promise)} when {promise.event.happens}{of}: {promise.which}")
        lines += fixes(promise, "    ")
    return ["", "possible even with three replicas and two in sync required:", *lines] if lines else []


def _by_size(topics: Sequence[LiveTopic]) -> list[str]:
    """Topics with retention by size: how long they keep a record depends on their load, which is not known."""
    names = [topic.name for topic in topics if topic.settings.deletes and topic.settings.retention_bytes >= 0]
    said = "records beyond retention.bytes are deleted at any age, read or not"
    return (
        ["", f"{said}: {_listed(names)}", f"  how to fix: retention.bytes=-1, or more than arrives in {SHORT_H} h"]
        if names
        else []
    )


def _listed(entities: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(map(str, entities[:most]))
    return shown if len(entities) <= most else f"{shown} and {len(entities) - most} more"
