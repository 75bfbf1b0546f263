"""The topics of a cluster in words: what each may lose that three replicas would keep, and what these do not spare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from harness.commands.text import consumer, effects, mended, producer, reasons
from harness.kafka.admin.live_topics import LiveCluster, LiveTopic, not_read_lines
from harness.model.contract.broker_rules import CLEAN, MIN_ISR, THREE
from harness.model.contract.configuration import ClientSettings, TopicSettings
from harness.model.contract.coordinator_rules import in_state
from harness.model.contract.effects import Effect, Promise
from harness.model.contract.internal_topics import OFFSETS, OWN, SHARE_STATE, TIER_METADATA, TRANSACTIONS
from harness.model.contract.promises import promises

_BAD: Final = frozenset({Effect.LOST, Effect.UNAVAILABLE, Effect.RETURNED})
# An application that fails in the evening is mended by the next one: what is deleted before that, it may never see.
SHORT_H: Final = 24
_SHORT_MS: Final = SHORT_H * 3_600_000
_GROWS_OLD: Final = "grows_old"
# Without ELR these are in kind as bad with two in sync required as with one; there may be less to lose.
_OF_THE_LAST: Final = frozenset(
    {"last_in_sync_dies", "returns_short", "disk_of_last_in_sync", "offsets_leader_alone_dies"}
)
# Coordinators write with acks=all and send again until it is there, whatever producers of others do.
_COORDINATOR: Final = ClientSettings()
_GOES_WITH: Final[Mapping[str, str]] = {
    OFFSETS: "what groups have committed: they begin again at an earlier commit, or by auto.offset.reset",
    TRANSACTIONS: "the ends of transactions and the epochs of their producers: what was acknowledged as committed may "
    "abort, one that is open may hang, and a zombie that was fenced may write again",
    SHARE_STATE: "what share groups have accepted: it is given again",
    TIER_METADATA: "which segments lie in the remote tier: what brokers do not know of there they cannot read",
}
# What is said in JSON of a topic whose settings are known.
_TOLD: Final = (
    "settings",
    "transaction_version",
    "without_leader_now",
    "below_min_isr_now",
    "avoidable",
    "promises",
)


def as_finalized(client: ClientSettings, cluster: LiveCluster) -> ClientSettings:
    """With the transactions that the cluster has; where nobody tells, those of clusters older than 4.0."""
    return replace(client, transaction_version=cluster.transaction_version or 0)


def cluster_as_plain(cluster: LiveCluster, client: ClientSettings) -> list[dict[str, Any]]:
    """Its topics as plain JSON types: those that nothing can be told of, and the others, the worst first."""
    untold = dict.fromkeys(_TOLD)
    not_read = [{"topic": t.name, "internal": t.name in OWN, "not_read": t.why, **untold} for t in cluster.not_read]
    return not_read + [live_as_plain(topic, client) for topic in worst_first(cluster.topics, client)]


def live_as_plain(topic: LiveTopic, client: ClientSettings) -> dict[str, Any]:
    """A topic of a cluster as plain JSON types; `avoidable` as in `avoidable`. unread: why all of that is not told."""
    writer = _writer(topic, client)
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
    """Those whose settings leave most to lose come first, and of these the ones that take no record now."""

    def badness(topic: LiveTopic) -> tuple[list[int], int]:
        return [promise.severity for promise in avoidable(topic, client)], len(topic.stopped)

    return sorted(topics, key=lambda topic: (badness(topic), topic.name), reverse=True)


def avoidable(topic: LiveTopic, client: ClientSettings) -> list[Promise]:
    """What may be lost, back or unavailable here, and would not be with three replicas of which two must be in sync, or
    less of it would; of __consumer_offsets whatever else there is: every group stands on it. And what is deleted within
    SHORT_H."""
    good = {p.event: p.severity for p in promises(_good(topic.settings), _writer(topic, client))}
    here = promises(topic.settings, _writer(topic, client))
    bad = [p for p in here if _BAD & set(p.effects) or topic.settings.keeps_offsets]
    worse = [
        _at_stake(p, topic.settings)
        for p in bad
        if p.severity > good.get(p.event, 0) or _spared_some(p, topic.settings)
    ]
    too_soon = [_too_soon(p) for p in here if p.event.name == _GROWS_OLD and _short(topic.settings)]
    return [in_state(topic.name, p) for p in worse + too_soon]


def _spared_some(promise: Promise, topic: TopicSettings) -> bool:
    """Whether three replicas of which two must be in sync, and clean elections only, spare some of it; what they leave
    may be as bad in kind."""
    if CLEAN in promise.fix or (topic.replicas == 1 and THREE in promise.fix):
        return True
    return _alone(topic) and promise.event.name in _OF_THE_LAST and promise.effects != (Effect.KEPT,)


def _alone(topic: TopicSettings) -> bool:
    """Whether one replica may be in sync alone and acknowledge, or is alone as soon as one other fails."""
    return topic.needed < 2 or topic.replicas < 3


def _at_stake(promise: Promise, topic: TopicSettings) -> Promise:
    """With what two in sync and a third replica are for, where ELR is not there to make use of them."""
    if not _alone(topic) or topic.elr or promise.event.name not in _OF_THE_LAST:
        return promise
    spared = (
        "where two must be in sync, somebody else has all that acks=all acknowledged, and can be elected by hand"
        if topic.needed < 2
        else "of two replicas, one is alone in sync as soon as the other fails"
    )
    lacks = [setting for setting, lacking in ((THREE, topic.replicas < 3), (MIN_ISR, topic.min_isr < 2)) if lacking]
    fix = tuple(dict.fromkeys((*promise.fix, *lacks)))
    return replace(promise, why=f"{promise.why}; {spared}", fix=fix)


def _writer(topic: LiveTopic, client: ClientSettings) -> ClientSettings:
    """Who writes to it."""
    return _COORDINATOR if topic.internal else client


def _good(topic: TopicSettings) -> TopicSettings:
    """What it could have at the price of three copies."""
    return replace(topic, replicas=3, min_isr=2, unclean=False)


def _short(topic: TopicSettings) -> bool:
    return topic.deletes and 0 <= topic.retention_ms < _SHORT_MS


def _too_soon(promise: Promise) -> Promise:
    which = f"{promise.which}: before a consumer that stands still for {SHORT_H} h is there again"
    return replace(promise, which=which, fix=(f"retention.ms={_SHORT_MS} ({SHORT_H} h) or more",))


def live_explained(bootstrap: str, cluster: LiveCluster, client: ClientSettings) -> list[str]:
    """Lines about the topics of a cluster, the worst first; what settings do not spare them stands at the end."""
    topics = cluster.topics
    lines = _head(bootstrap, cluster, client)
    well = []
    for topic in worst_first(topics, client):
        bad = avoidable(topic, client)
        if not bad and not topic.stopped:
            well.append(topic)
            continue
        lines += ["", f"{topic.name}: {topic.settings}"]
        if topic.internal:
            lines.append(f"  with it goes {_GOES_WITH[topic.name]}")
        lines += _now(topic)
        for promise in bad:
            lines += [f"  {effects(promise)} when {promise.event.happens}", *reasons(promise, "    ")]
    if well:
        names = ", ".join(sorted(topic.name for topic in well))
        lines += ["", f"as safe as three replicas of which two must be in sync: {names}"]
        lines += [f"  with {topic.name} goes {_GOES_WITH[topic.name]}" for topic in well if topic.internal]
    return [*lines, *_of_all(topics, client), *_by_size(topics)]


def _now(topic: LiveTopic) -> list[str]:
    lines = [f"  now: partitions {_listed(topic.leaderless)} have no leader"] if topic.leaderless else []
    if topic.short:
        lines.append(f"  now: partitions {_listed(topic.short)} have fewer replicas in sync than that")
    return lines


def _head(bootstrap: str, cluster: LiveCluster, client: ClientSettings) -> list[str]:
    topics = cluster.topics
    count = f"{len(topics)} topic{'s' if len(topics) != 1 else ''}"
    lines = [f"{count} of {bootstrap}, as if written to by a producer with {producer(client)}"]
    lines.append(f"and read by a consumer that {consumer(client)}")
    if own := [topic.name for topic in topics if topic.internal]:
        lines.append(f"{', '.join(own)}: written by brokers, with acks=all, whatever producers do")
    lines += not_read_lines(cluster.not_read)
    if not all(topic.elr_known for topic in topics):
        lines.append("nobody tells whether eligible leader replicas (KIP-966) are on; they are taken to be off")
    return lines + _transactions(cluster.transaction_version, client)


def _transactions(finalized: int | None, client: ClientSettings) -> list[str]:
    if not client.transactional:
        return []
    taken = client.transaction_version
    if finalized is None:
        return [f"nobody tells which transaction.version (KIP-890) is finalized; it is taken to be {taken}"]
    other = "" if finalized == taken else f"; what is told is of {taken}, as asked for"
    return [f"the cluster has finalized transaction.version {finalized} (KIP-890){other}"]


def _of_all(topics: Sequence[LiveTopic], client: ClientSettings) -> list[str]:
    """What is left to lose with three replicas of which two must be in sync: of which topics, where not of all."""
    found: dict[Promise, list[str]] = {}
    for topic in topics:
        for promise in promises(_good(topic.settings), _writer(topic, client)):
            if _BAD & set(promise.effects):
                found.setdefault(promise, []).append(topic.name)
    lines = []
    for promise, names in sorted(found.items(), key=lambda item: -item[0].severity):
        of = "" if len(names) == len(topics) else f", of {_listed(names)}"
        lines.append(f"  {effects(promise)} when {promise.event.happens}{of}: {promise.which}")
        lines += mended(promise, "    ")
    return ["", "what three replicas do not spare them, of which two must be in sync:", *lines] if lines else []


def _by_size(topics: Sequence[LiveTopic]) -> list[str]:
    """For how long that keeps a record its load decides, which nobody is asked about."""
    names = [topic.name for topic in topics if topic.settings.deletes and topic.settings.retention_bytes >= 0]
    said = "deleted beyond retention.bytes, however young, read or not"
    return (
        ["", f"{said}: {_listed(names)}", f"  mend by: retention.bytes=-1, or as much as comes in {SHORT_H} h"]
        if names
        else []
    )


def _listed(entities: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(map(str, entities[:most]))
    return shown if len(entities) <= most else f"{shown} and {len(entities) - most} more"
