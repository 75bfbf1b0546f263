"""Configurations in words, for `durability contract`: what each may lose when, why, and which setting mends it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, fields, replace
from typing import Any, Final

from harness.kafka.client_config import client_config
from harness.kafka.live import LiveTopic, live_topics
from harness.model.configuration import ClientSettings, TopicSettings
from harness.model.effects import Effect, Promise
from harness.model.errors import BadInput
from harness.model.promises import promises

_CLIENT: Final = frozenset(field.name for field in fields(ClientSettings))
_TOPIC: Final = frozenset(field.name for field in fields(TopicSettings)) - {
    "deletes",
    "delete_retention_ms",
    "compaction_lag_ms",
    "append_time",
    "keeps_offsets",
}
_BAD: Final = frozenset({Effect.LOST, Effect.UNAVAILABLE})


def answer(given: Mapping[str, Any], said: Set[str], *, as_json: bool) -> list[str]:
    """What the command's options ask for, by their names. `said`: those that were not left to their defaults."""
    client = ClientSettings(**{name: given[name] for name in _CLIENT})
    bootstrap, config_file = given["bootstrap"], given["command_config"]
    if bootstrap is None:
        if foreign := sorted(said & {"topic", "command_config"}):
            raise BadInput(f"{_options(foreign)}: which cluster? say --bootstrap HOST:PORT")
        topic = _topic(given)
        return [json.dumps(as_plain(topic, client), indent=1)] if as_json else explained(topic, client)
    if foreign := sorted(said & _TOPIC):
        raise BadInput(f"{_options(foreign)}: with --bootstrap the cluster tells; leave it out")
    topics = live_topics(bootstrap, {} if config_file is None else client_config(config_file), given["topic"])
    if as_json:
        return [json.dumps([live_as_plain(topic, client) for topic in worst_first(topics, client)], indent=1)]
    return live_explained(bootstrap, topics, client)


def _topic(given: Mapping[str, Any]) -> TopicSettings:
    settings = {name: given[name] for name in _TOPIC}
    return TopicSettings(**settings, deletes=not given["compacted"])


def _options(names: Sequence[str]) -> str:
    return ", ".join("--rf" if name == "replicas" else f"--{name.replace('_', '-')}" for name in names)


def explained(topic: TopicSettings, client: ClientSettings) -> list[str]:
    """Lines about one configuration, the worst that can happen first."""
    lines = [f"{topic}; a producer with {client}"]
    for promise in promises(topic, client):
        lines += ["", f"{_effects(promise)}: {promise.event.happens}", *_reasons(promise)]
    return lines


def as_plain(topic: TopicSettings, client: ClientSettings) -> list[dict[str, Any]]:
    """The same as plain JSON types."""
    return [asdict(promise) for promise in promises(topic, client)]


def live_as_plain(topic: LiveTopic, client: ClientSettings) -> dict[str, Any]:
    """A topic of a cluster as plain JSON types; `avoidable` as in `avoidable`."""
    return {
        "topic": topic.name,
        "internal": topic.internal,
        "settings": asdict(topic.settings),
        "below_min_isr_now": topic.short,
        "avoidable": [promise.event.name for promise in avoidable(topic, client)],
        "promises": as_plain(topic.settings, client),
    }


def worst_first(topics: Sequence[LiveTopic], client: ClientSettings) -> list[LiveTopic]:
    """Those whose settings leave most to lose come first, and of these the ones that take no record now."""

    def badness(topic: LiveTopic) -> tuple[list[int], int]:
        return [promise.severity for promise in avoidable(topic, client)], len(topic.short)

    return sorted(topics, key=lambda topic: (badness(topic), topic.name), reverse=True)


def avoidable(topic: LiveTopic, client: ClientSettings) -> list[Promise]:
    """What may be lost or unavailable here, and would not be with three replicas of which two must be in sync; of
    __consumer_offsets whatever else there is: every group stands on it."""
    good = {p.event: p.severity for p in promises(_good(topic.settings), client)}
    here = promises(topic.settings, client)
    bad = [p for p in here if _BAD & set(p.effects) or topic.settings.keeps_offsets]
    return [p for p in bad if p.severity > good.get(p.event, 0)]


def live_explained(bootstrap: str, topics: Sequence[LiveTopic], client: ClientSettings) -> list[str]:
    """Lines about the topics of a cluster, the worst first; what settings do not spare any topic stands at the end."""
    count = f"{len(topics)} topic{'s' if len(topics) != 1 else ''}"
    lines = [f"{count} of {bootstrap}, as if written to by a producer with {client}"]
    if not all(topic.elr_known for topic in topics):
        lines.append("nobody tells whether eligible leader replicas (KIP-966) are on; they are taken to be off")
    well = []
    for topic in worst_first(topics, client):
        bad = avoidable(topic, client)
        if not bad and not topic.short:
            well.append(topic.name)
            continue
        lines += ["", f"{topic.name}: {topic.settings}"]
        if topic.short:
            lines.append(f"  now: partitions {_listed(topic.short)} have fewer replicas in sync than that")
        for promise in bad:
            lines += [f"  {_effects(promise)} when {promise.event.happens}", *_reasons(promise, "    ")]
    if well:
        lines += ["", f"as safe as three replicas of which two must be in sync: {', '.join(sorted(well))}"]
    if topics:
        lines += ["", *_of_any(topics[0].settings, client)]
    return lines


def _good(topic: TopicSettings) -> TopicSettings:
    """What it could have at the price of three copies, and without a flush of each record."""
    return replace(topic, replicas=3, min_isr=2, unclean=False)


def _of_any(topic: TopicSettings, client: ClientSettings) -> list[str]:
    lines = ["what the settings above do not spare any topic:"]
    for promise in promises(_good(topic), client):
        if _BAD & set(promise.effects):
            lines.append(f"  {_effects(promise)} when {promise.event.happens}: {promise.which}")
    return lines


def _listed(partitions: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, partitions[:most]))
    return shown if len(partitions) <= most else f"{shown} and {len(partitions) - most} more"


def _effects(promise: Promise) -> str:
    return " and ".join(effect.value for effect in promise.effects)


def _reasons(promise: Promise, indent: str = "  ") -> list[str]:
    lines = [f"{indent}{promise.which}", f"{indent}because: {promise.why} ({promise.source})"]
    return lines + ([f"{indent}mend by: {', '.join(promise.mend)}"] if promise.mend else [])
