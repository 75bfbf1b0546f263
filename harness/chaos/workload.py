"""Draws the cluster, the topics and the clients of an episode.

Sizes are small on purpose: segments, batches, transactions and the number of partitions. So rare paths of the broker
(rolls, index files, snapshots of producers) are common ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from harness.chaos.draw import Draw
from harness.chaos.profile import FORMS, Form, Profile
from harness.model.scenario.scenario import (
    Admin,
    ClusterShape,
    Config,
    Floors,
    GroupProtocol,
    Processing,
    Producer,
    Reader,
    Scenario,
    Topic,
    Transactions,
)
from harness.model.scenario.toml import build

GROUP: Final = "readers"
WORKERS: Final = "workers"
FLOORS: Final = Floors(before=50, after=50)
TOPICS_MAX: Final = 3
# How many acknowledged records a second the whole load aims at: a machine with two processors runs brokers, too.
RATES_PER_S: Final = (100, 200, 400)
SEGMENT_BYTES: Final = "1048576"  # the least that brokers accept from 4.0 on
_RETENTION_BYTES: Final = ("", "", "20971520", "41943040")  # of a topic in the tier, which fills many segments
_SEGMENT_MS: Final = ("1000", "5000", "")  # how often they roll although they are not full; "" = never
_WORDS: Final[dict[Form, str]] = {
    "plain": "plain",
    "compacted": "compacted",
    "transactional": "paid",
    "tiered": "tiered",
}
_COMPRESSIONS: Final = ("none", "none", "gzip", "snappy", "lz4", "zstd")
_PROTOCOLS: Final[tuple[GroupProtocol, ...]] = ("classic", "consumer")
# Lots of the forms of topics where the profile says nothing.
_FORMS: Final[dict[Form, int]] = {"plain": 4, "compacted": 1, "transactional": 3, "tiered": 2}


def shape_of(draw: Draw, profile: Profile) -> ClusterShape:
    """The cluster of a block of episodes."""
    chosen = {key: draw.one(key, values) for key, values in profile.shape.items()}
    if chosen.get("voters") == "dynamic" and chosen.get("controllers") != 3:
        del chosen["voters"]
    if chosen.get("tier"):
        chosen.pop("log_dirs", None)  # KIP-405
    return cast("ClusterShape", build(ClusterShape, chosen, f"profile {profile.name}: shape"))


def load_of(draw: Draw, profile: Profile, shape: ClusterShape, *, name: str, sloppy: bool) -> Scenario:
    """A scenario without steps: topics, producers, readers and admins."""
    forms = _forms(draw, profile, shape)
    sizes = profile.sizes
    topics = [
        _topic(draw.within(f"topic {n}"), n, form, shape, sizes.segment_bytes, sloppy=sloppy)
        for n, form in enumerate(forms, 1)
    ]
    producers = [
        _producer(draw.within(f"producer {n}"), topic, form, sizes.value_bytes, sloppy=sloppy)
        for n, (topic, form) in enumerate(zip(topics, forms, strict=True), 1)
    ]
    if processor := _processor(draw.within("processor"), topics, forms):
        topics.append(Topic(name="made", partitions=1))
        producers.append(processor)
    return Scenario(
        name=name,
        title="",
        property="",
        tags=("chaos",),
        shape=shape,
        fresh=shape.starts_on is not None,  # it runs two releases, so no other episode can have it
        topics=tuple(topics),
        producers=tuple(producers),
        readers=tuple(_readers(draw.within("readers"), topics, producers)),
        admin=tuple(_admins(draw.within("admins"), shape)),
        floors=FLOORS,
    )


def _forms(draw: Draw, profile: Profile, shape: ClusterShape) -> list[Form]:
    def lots(form: Form) -> int:
        usable = form != "tiered" or bool(shape.tier)
        return profile.forms.get(form, _FORMS[form]) if usable else 0

    count = 1 + draw.number("topics") % TOPICS_MAX
    forms = [draw.within(f"topic {number}").one("form", FORMS, weight=lots) for number in range(1, count + 1)]
    if shape.tier and "tiered" not in forms:
        forms[0] = "tiered"
    return forms


def _topic(
    draw: Draw, number: int, form: Form, shape: ClusterShape, segment_bytes: Sequence[int], *, sloppy: bool
) -> Topic:
    replicas = draw.one("replicas", [3, 3, 2, 1] if sloppy else [3, 3, 3, 2], key=str)
    # A tier gets closed segments only.
    sizes = [str(size) for size in segment_bytes] if form in ("plain", "transactional") else [SEGMENT_BYTES]
    config: Config = {"segment.bytes": draw.one("segment.bytes", sizes)}
    if rolled := draw.one("segment.ms", _SEGMENT_MS):
        config["segment.ms"] = rolled
    if replicas < 2 or draw.chance("min.insync.replicas", 60 if sloppy else 20):
        config["min.insync.replicas"] = "1"
    if sloppy and draw.chance("unclean", 40):
        config["unclean.leader.election.enable"] = "true"
    if form == "compacted":
        config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"}
    if form == "tiered":
        config |= {"remote.storage.enable": "true", "local.retention.bytes": "1"}
        if retained := draw.one("retention.bytes", _RETENTION_BYTES):
            config["retention.bytes"] = retained
    if form == "plain" and draw.chance("append time", 15):
        config["message.timestamp.type"] = "LogAppendTime"
    partitions, replicas = 1 + draw.number("partitions") % 3, min(replicas, shape.brokers)
    return Topic(
        name=f"{_WORDS[form]}{number}",
        partitions=partitions,
        replicas=replicas,
        config=config,
        assignment=_assignment(draw, partitions, replicas, shape.brokers),
    )


def _assignment(draw: Draw, partitions: int, replicas: int, brokers: int) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition, so that a plan knows which broker has which."""
    order = draw.order("assignment", range(1, brokers + 1), key=str)
    return tuple(tuple(order[(p + n) % brokers] for n in range(replicas)) for p in range(partitions))


def _producer(draw: Draw, topic: Topic, form: Form, value_bytes: Sequence[int], *, sloppy: bool) -> Producer:
    weak = sloppy and form != "transactional" and draw.chance("acks=1", 60)
    transactions = None
    if form == "transactional":
        records, share = draw.one("records", (5, 20, 50), key=str), draw.one("aborts", (0.25, 0.4), key=str)
        transactions = Transactions(records=records, abort_share=share)
    keyed = form == "compacted" or draw.chance("keyed", 40)
    return Producer(
        name=f"to_{topic.name}",
        topics=(topic.name,),
        acks="1" if weak else "all",
        idempotent=not weak and (transactions is not None or not draw.chance("not idempotent", 15)),
        # What is tiered has to fill segments soon.
        compression="none" if form == "tiered" else draw.one("compression", _COMPRESSIONS),
        keyed=keyed,
        tombstones=0.1 if form == "compacted" and draw.chance("tombstones", 50) else 0.0,
        headers=draw.chance("headers", 20),
        value_bytes=1000 if form == "tiered" else draw.one("value_bytes", value_bytes, key=str),
        rate_per_s=None if form == "tiered" else draw.one("rate", RATES_PER_S, key=str),
        transactions=transactions,
        client="java" if draw.chance("java", 15) else "librdkafka",
    )


def _processor(draw: Draw, topics: list[Topic], forms: list[Form]) -> Producer | None:
    plain = [topic.name for topic, form in zip(topics, forms, strict=True) if form == "plain"]
    if not plain or not draw.chance("there is one", 20):
        return None
    return Producer(
        name="worker",
        topics=("made",),
        when="input",
        processes=Processing(reads=(plain[0],), group=WORKERS),
        transactions=Transactions(),
    )


def _readers(draw: Draw, topics: list[Topic], producers: list[Producer]) -> list[Reader]:
    names = tuple(topic.name for topic in topics)
    in_transactions = tuple(p.topics[0] for p in producers if p.transactions)
    readers = [Reader(name="committed", topics=names)]
    if in_transactions:
        readers.append(Reader(name="uncommitted", topics=in_transactions, isolation="read_uncommitted"))
    if draw.chance("group", 75):
        java, protocol = draw.chance("java", 20), draw.one("protocol", _PROTOCOLS)
        member = Reader(
            name="member1",
            topics=names,
            group=GROUP,
            protocol=protocol,
            # With it a step may move the member to the other protocol.
            assignor="range" if protocol == "classic" and not java else "cooperative-sticky",
            client="java" if java else "librdkafka",
            static=draw.chance("static", 25),
        )
        readers.append(member)
    return readers


def _admins(draw: Draw, shape: ClusterShape) -> list[Admin]:
    if shape.brokers < 3 or not draw.chance("there is one", 20):
        return []
    return [Admin(name="ops", does=("topics", "configs", "reassignments"))]
