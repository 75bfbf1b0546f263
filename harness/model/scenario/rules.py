"""Rules between the parts of a scenario: names must refer to something, and settings must go together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from harness.model.contract.configuration import ISOLATIONS
from harness.model.contract.contract import DELIVERY_LIMIT, LOCK, MIN_INSYNC, RECREATE_TOPIC, check_config
from harness.model.contract.promises import EVENTS
from harness.model.documents.contract import ShareReset
from harness.model.entities import REPLICAS as REPLICAS_OF_ADMINS
from harness.model.entities import WORKS
from harness.model.errors import BadInput
from harness.model.finding import kinds
from harness.model.scenario import tier_rules
from harness.model.scenario.scenario import (
    BY_ITSELF,
    CLIENTS,
    CLIENTS_OF_READERS,
    JAVA,
    KNOWN_BUG,
    KRAFT_VERSION,
    LOG_DIRS_MAX,
    NODES_MAX,
    SETS,
    SHARE,
    SHARE_GROUPS_SINCE,
    SHARE_ISOLATION,
    SHARE_RESET,
    STREAMS,
    VALUE_BYTES_MAX,
    Admin,
    ClusterShape,
    Config,
    Matrix,
    Processing,
    Producer,
    Reader,
    Regression,
    Scenario,
    Topic,
    Transactions,
)
from harness.model.version import PREVIOUS_MINOR, VERSION, numbers_of

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "1", "0")
# Those that depend on the key alone; the partitions of other ones cannot be checked.
PARTITIONERS = ("consistent", "consistent_random", "murmur2", "murmur2_random")
WHEN = ("always", "steps", "input")
COMMITS = ("after", "before", *BY_ITSELF)
COMMITS_OF_PROCESSORS = ("transaction", "after", "before")
# Settings that keep ACLs, and let nodes and clients without ACLs continue.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
# Fields of a producer about its records and when it sends them.
_OF_RECORDS = (
    *("acks", "idempotent", "keyed", "partitioner", "headers", "backdated_s"),
    *("value_bytes", "sizes", "tombstones", "empty", "rate_per_s"),
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_PARTITION = re.compile(r"(?P<topic>[^/]+)/(?P<partition>[0-9]{1,9}|\*)")


def check(scenario: Scenario, where: str) -> None:
    """BadInput, in one sentence, on the first rule that is broken."""
    _name(scenario.name, where, "a scenario's name")
    _tags(scenario.tags, f"{where}: tags")
    check_shape(scenario.shape, f"{where}: shape")
    if not scenario.topics:
        raise BadInput(f"{where}: no topics; add a [topics.NAME] table")
    if not scenario.producers:
        raise BadInput(f"{where}: no producers, and a run without load proves nothing; add a [producers.NAME] table")
    topics = {t.name: t for t in scenario.topics}
    for topic in scenario.topics:
        _topic(topic, scenario.shape.brokers, f"{where}: topics.{topic.name}")
    for producer in scenario.producers:
        _producer(producer, topics, scenario, f"{where}: producers.{producer.name}")
    for reader in scenario.readers:
        _reader(reader, topics, f"{where}: readers.{reader.name}")
        _commits_by_itself(reader, scenario, f"{where}: readers.{reader.name}")
        _way_in(reader, scenario.shape, f"{where}: readers.{reader.name}")
    for admin in scenario.admin:
        _admin(admin, scenario.shape, f"{where}: admin.{admin.name}")
    if scenario.shape.secure and scenario.java_clients:
        raise BadInput(f'{where}: client = "java" cannot use a secure cluster yet; remove one of the two')
    _steps(scenario, where)
    _since(scenario, where)
    _upgraded(scenario, where)
    tier_rules.check(scenario, where)
    _share_groups(scenario, where)
    _judged(scenario, topics, where)


def _tags(tags: tuple[str, ...], where: str) -> None:
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise BadInput(f"{where}: the tag {tag!r} may only have letters, 0-9 and -")
        if tag in SETS:
            raise BadInput(f"{where}: the tag {tag!r} follows from `gate` and `smoke`; remove it")


def check_shape(shape: ClusterShape, where: str) -> None:
    """BadInput for a number of nodes that cannot have addresses, and for settings that no broker would accept."""
    for what, count in (("brokers", shape.brokers), ("controllers", shape.controllers)):
        if not 1 <= count <= NODES_MAX:
            raise BadInput(f"{where}: {what} = {count}; a cluster has 1 to {NODES_MAX} {what}")
    if not 1 <= shape.log_dirs <= LOG_DIRS_MAX:
        raise BadInput(f"{where}: log_dirs = {shape.log_dirs}; give 1 to {LOG_DIRS_MAX}")
    check_config(shape.config, f"{where}: config")
    in_sync_at_least(shape.config, shape.brokers, "brokers", f"{where}: config")
    if shape.starts_on not in (None, PREVIOUS_MINOR) and not VERSION.fullmatch(shape.starts_on):
        raise BadInput(
            f"{where}: starts_on = {shape.starts_on!r} is no version of Kafka; give one such as 3.9.1, or "
            f"{PREVIOUS_MINOR!r}"
        )
    if shape.secure and shape.tier:
        raise BadInput(
            f"{where}: secure with a tier: brokers read the metadata of a tier without TLS; remove one of the two"
        )
    if shape.voters == "dynamic" and shape.features.get(KRAFT_VERSION) == 0:
        raise BadInput(f'{where}: voters = "dynamic" needs {KRAFT_VERSION} 1 (KIP-853); remove that feature')


def in_sync_at_least(config: Config, count: int, what: str, where: str) -> None:
    """BadInput if min.insync.replicas is above the number of brokers or replicas: no write could have that promise."""
    least = int(config.get(MIN_INSYNC, count))
    if least > count:
        raise BadInput(f"{where}: {MIN_INSYNC} = {least} of {count} {what}; use at most {count}")


def _topic(topic: Topic, brokers: int, where: str) -> None:
    _name(topic.name, where, "a topic's name")
    if not 1 <= topic.replicas <= brokers:
        raise BadInput(f"{where}: {topic.replicas} replicas on {brokers} brokers; use 1 to {brokers}")
    check_config(topic.config, f"{where}: config")
    in_sync_at_least(topic.config, topic.replicas, "replicas", f"{where}: config")
    if topic.assignment and len(topic.assignment) != topic.partitions:
        raise BadInput(
            f"{where}: assignment names {len(topic.assignment)} partitions of {topic.partitions}; give one list of "
            "brokers for each"
        )
    for replicas in topic.assignment:
        if not len(set(replicas)) == len(replicas) == topic.replicas or not all(1 <= b <= brokers for b in replicas):
            raise BadInput(f"{where}: assignment {list(replicas)} is not {topic.replicas} of the brokers 1..{brokers}")


def _producer(producer: Producer, topics: dict[str, Topic], scenario: Scenario, where: str) -> None:
    _name(producer.name, where, "a producer's name")
    _some_topics(producer.topics, topics, where)
    _one_of(producer.acks, ACKS, where, "acks")
    _one_of(producer.compression, CODECS, where, "compression")
    _one_of(producer.when, WHEN, where, "when")
    _one_of(producer.client, CLIENTS, where, "client")
    _way_in(producer, scenario.shape, where)
    if producer.acks != "all" and (producer.idempotent or producer.transactions):
        raise BadInput(f"{where}: acks={producer.acks} and idempotence exclude each other; set idempotent = false")
    if not producer.idempotent and producer.transactions:
        raise BadInput(f"{where}: transactions need idempotence; remove idempotent = false")
    if producer.rate_per_s is not None and producer.rate_per_s < 1:
        raise BadInput(f"{where}: rate_per_s = {producer.rate_per_s}; leave it out to let the gate choose")
    if producer.tombstones and not producer.keyed:
        raise BadInput(
            f"{where}: tombstones: a null value deletes a key, and these records have no keys; set keyed = true"
        )
    if producer.tombstones + producer.empty > 1:
        raise BadInput(
            f"{where}: tombstones and empty are shares of all records; together they are above 1, so lower one of them"
        )
    if producer.partitioner:
        _one_of(producer.partitioner, PARTITIONERS, where, "partitioner")
        if not producer.keyed:
            raise BadInput(f"{where}: partitioner: it depends on keys, and these records have none; set keyed = true")
        if any(step.do == "create_partitions" for step in scenario.steps):
            raise BadInput(
                f"{where}: partitioner: keys move when a step adds partitions, at an unknown time; leave it out"
            )
    if wrong := [size for size in producer.sizes if not 1 <= size <= VALUE_BYTES_MAX]:
        raise BadInput(f"{where}: sizes: a value of {wrong[0]} bytes; use 1 to {VALUE_BYTES_MAX}")
    _processes(producer, topics, scenario, where)
    group = producer.transactions and producer.transactions.offsets_of
    if group and group in {r.group for r in scenario.readers}:
        raise BadInput(f"{where}: offsets_of = {group!r} is the group of a reader; name a group of its own")


def _processes(producer: Producer, topics: dict[str, Topic], scenario: Scenario, where: str) -> None:
    if (producer.processes is None) != (producer.when != "input"):
        raise BadInput(f'{where}: when = "input" and a table `processes` need each other; write both, or neither')
    if producer.processes is None:
        if producer.client == STREAMS:
            raise BadInput(f'{where}: client = "streams" is an application that reads; add a table `processes`')
        return
    plan, where = producer.processes, f"{where}: processes"
    _one_of(plan.commits, COMMITS_OF_PROCESSORS, where, "commits")
    if producer.client == STREAMS:
        _of_streams(producer, plan, where)
    elif producer.transactions is None:
        raise BadInput(f"{where}: a processor writes in transactions; add a table `transactions`")
    if producer.transactions and (producer.transactions.offsets_of or producer.transactions.spans_rolls):
        raise BadInput(
            f"{where}: the transactions of a processor follow its input; leave out offsets_of and spans_rolls"
        )
    if len(producer.topics) != 1:
        raise BadInput(f"{where}: a processor writes to one topic; name one in topics")
    if not plan.reads:
        raise BadInput(f"{where}: reads is empty; name the topics that the processor reads")
    for name in plan.reads:
        if name not in topics:
            raise BadInput(f"{where}: reads: no topic {name!r}{nearest(name, topics)}")
    others = [p.processes.group for p in scenario.producers if p.processes and not _instances(p, producer)]
    others += [p.transactions.offsets_of for p in scenario.producers if p.transactions and p.transactions.offsets_of]
    if plan.group in {r.group for r in scenario.readers} | set(others):
        raise BadInput(f"{where}: group = {plan.group!r} has other members; name a group of its own")
    compacted = [
        name for name in (*plan.reads, *producer.topics) if "compact" in cleanup_policy(topics[name], scenario.shape)
    ]
    if compacted:
        raise BadInput(
            f"{where}: {compacted[0]} is compacted, so outputs could not be compared with inputs; use another topic"
        )


def _instances(one: Producer, other: Producer) -> bool:
    """Whether they are instances of one application, each with a transactional id of its own (KIP-447). Kafka Streams
    starts its own."""
    same = (one.processes, one.topics) == (other.processes, other.topics)
    return one is other or (same and STREAMS not in (one.client, other.client))


def _of_streams(producer: Producer, plan: Processing, where: str) -> None:
    """Rules for Kafka Streams: its output is its input, and it decides itself when it ends a transaction."""
    bare = Producer(name=producer.name, topics=producer.topics)
    if chosen := [name for name in _OF_RECORDS if getattr(producer, name) != getattr(bare, name)]:
        raise BadInput(f"{where}: Kafka Streams writes each record as it received it; leave out {chosen[0]}")
    if plan.commits == "before":
        raise BadInput(f'{where}: commits: Kafka Streams never commits before it writes; give "transaction" or "after"')
    if plan.commits == "transaction" and producer.transactions is None:
        raise BadInput(f"{where}: exactly_once_v2 writes in transactions; add a table `transactions`")
    if producer.transactions not in (None, Transactions(abort_share=0)):
        raise BadInput(f"{where}: Kafka Streams decides when its transactions end; give only {{ abort_share = 0 }}")


def cleanup_policy(topic: Topic, shape: ClusterShape) -> str:
    """What brokers do to old records of a topic; "" where neither it nor its cluster says."""
    return topic.config.get("cleanup.policy", shape.config.get("log.cleanup.policy", ""))


def _reader(reader: Reader, topics: dict[str, Topic], where: str) -> None:
    _name(reader.name, where, "a reader's name")
    _some_topics(reader.topics, topics, where)
    _one_of(reader.isolation, ISOLATIONS, where, "isolation")
    _one_of(reader.commits, COMMITS, where, "commits")
    _one_of(reader.client, CLIENTS_OF_READERS, where, "client")
    if reader.group is None and (reader.static or reader.protocol != "classic"):
        raise BadInput(f"{where}: static and protocol are settings of a group member; name a group, or leave them out")
    classic = reader.group is not None and reader.protocol == "classic" and reader.client != JAVA and not reader.reset
    if reader.assignor != "cooperative-sticky" and not classic:
        raise BadInput(
            f'{where}: assignor needs a group with protocol = "classic", a client other than "java", and no reset; '
            "leave it out"
        )
    if reader.reset and (reader.group is None or reader.client == JAVA):
        raise BadInput(f'{where}: reset needs a group, and a client other than "java"; leave it out')
    if reader.revoke_s and (reader.group is None or reader.shares or reader.client == JAVA):
        raise BadInput(f'{where}: revoke_s needs a group that is no share group, and a client other than "java"')
    if reader.commits != "after" and reader.group is None:
        raise BadInput(f"{where}: a reader without a group commits nothing; name a group, or leave out commits")


def _commits_by_itself(reader: Reader, scenario: Scenario, where: str) -> None:
    if reader.commits not in BY_ITSELF:
        return
    where = f'{where}: commits = "{reader.commits}"'
    if reader.client != JAVA:
        raise BadInput(f'{where} is only possible with the release\'s own client; set client = "java"')
    markers = {topic for p in scenario.producers if p.transactions for topic in p.topics} & set(reader.topics)
    if markers:
        raise BadInput(
            f"{where}: its offsets would pass transaction markers, which no reader receives; remove {min(markers)} "
            "from "
            "its topics"
        )


def _admin(admin: Admin, shape: ClusterShape, where: str) -> None:
    _name(admin.name, where, "an admin's name")
    if shape.secure:
        raise BadInput(f"{where}: the harness's admin client has no TLS; remove secure in [shape], or the admin")
    if not admin.does:
        raise BadInput(f"{where}: does is empty; name some of {', '.join(WORKS)}")
    for work in admin.does:
        _one_of(work, WORKS, where, "does")
    if len(set(admin.does)) < len(admin.does):
        raise BadInput(f"{where}: does names a kind of work twice; name each once")
    if shape.brokers < REPLICAS_OF_ADMINS:
        raise BadInput(f"{where}: an admin's topics have {REPLICAS_OF_ADMINS} replicas; set brokers = 3 in [shape]")
    if "acls" in admin.does:
        for key, value in AUTHORIZER.items():
            if shape.config.get(key) != value:
                raise BadInput(f'{where}: does has acls, which needs "{key}" = "{value}" in shape.config')


def _way_in(client: Producer | Reader, shape: ClusterShape, where: str) -> None:
    if client.isolated_client and not shape.isolated_client:
        raise BadInput(f"{where}: isolated_client needs links of its own; set isolated_client = true in [shape]")
    if client.bootstrap > shape.brokers:
        raise BadInput(f"{where}: bootstrap = {client.bootstrap}; the brokers are 1 to {shape.brokers}, and 0 is all")


def _steps(scenario: Scenario, where: str) -> None:
    twice = [name for name, count in Counter(s.name for s in scenario.steps).items() if count > 1]
    if twice:
        raise BadInput(
            f"{where}: two steps have the name {twice[0]!r}, so a heal could not tell them apart; rename one"
        )
    open_faults: list[str] = []
    for step in scenario.steps:
        if step.do != "heal":
            open_faults.append(step.name)
            continue
        fault = step.args.get("fault")
        if fault not in open_faults:
            raise BadInput(f"{where}: {step.name}: no earlier step {fault!r} to heal{nearest(str(fault), open_faults)}")
        open_faults.remove(fault)


def _since(scenario: Scenario, where: str) -> None:
    if scenario.since is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", scenario.since):
        raise BadInput(f"{where}: since = {scenario.since!r} is no version of Kafka; give one such as 4.1")


def _upgraded(scenario: Scenario, where: str) -> None:
    """A cluster that stays on an earlier release would be judged as if it ran the one under test."""
    rolled = any(step.do == "roll" and step.args.get("to", "tested") == "tested" for step in scenario.steps)
    if scenario.shape.starts_on is not None and not rolled:
        raise BadInput(f'{where}: shape: starts_on needs a step that upgrades; add {{ do = "roll", to = "tested" }}')
    if scenario.shape.starts_on is not None and not scenario.fresh:
        raise BadInput(
            f"{where}: shape: a cluster with starts_on has run two releases and cannot be shared; set fresh = true"
        )


def _share_groups(scenario: Scenario, where: str) -> None:
    """Rules for the members of share groups (KIP-932)."""
    for reader in scenario.readers:
        _in_share_group(reader, f"{where}: readers.{reader.name}")
    for group, members in scenario.share_groups.items():
        _one_share_group(group, members, scenario, f"{where}: readers.{members[0].name}")
        topics = {topic for member in members for topic in member.topics}
        if anew := [s.name for s in scenario.steps if s.do == RECREATE_TOPIC and s.args.get("topic") in topics]:
            raise BadInput(
                f"{where}: steps: {anew[0]}: share group {group} would begin again on the new topic; name another topic"
            )
    start = scenario.shape.starts_on
    older = start is not None and (start == PREVIOUS_MINOR or numbers_of(start) < SHARE_GROUPS_SINCE)
    if scenario.share_groups and older:
        since = ".".join(map(str, SHARE_GROUPS_SINCE))
        has = "may have" if start == PREVIOUS_MINOR else "has"
        raise BadInput(f"{where}: shape: starts_on = {start!r} {has} no share groups; start on {since} or later")


def _in_share_group(reader: Reader, where: str) -> None:
    if not reader.shares:
        if reader.group_config or reader.releases_every or reader.releases or reader.rejects_every:
            raise BadInput(
                f'{where}: group_config, releases_every, releases and rejects_every need protocol = "share"; set it, '
                "or leave them out"
            )
        return
    if reader.client != JAVA:
        raise BadInput(f'{where}: librdkafka has no share groups; set client = "java" with protocol = "share"')
    if reader.static or reader.commits != "after":
        raise BadInput(f"{where}: a member of a share group acknowledges each record; leave out static and commits")
    if reader.releases and not reader.releases_every:
        raise BadInput(f"{where}: releases says how often it releases the records of releases_every; set that, too")


def _one_share_group(group: str, members: tuple[Reader, ...], scenario: Scenario, where: str) -> None:
    others = [p.processes.group for p in scenario.producers if p.processes is not None]
    others += [p.transactions.offsets_of for p in scenario.producers if p.transactions and p.transactions.offsets_of]
    if not all(r.shares for r in members) or group in others:
        raise BadInput(
            f"{where}: {group} is a share group, which has no members of another protocol; name another group"
        )
    for key, value in members[0].group_config.items():
        if not key.startswith(f"{SHARE}."):
            raise BadInput(
                f"{where}: group_config: {key} is no setting of a share group; remove it (they begin with {SHARE}.)"
            )
        if key == SHARE_ISOLATION:
            raise BadInput(f"{where}: group_config: set isolation = {value!r} instead of {key}")
        if key == SHARE_RESET and value not in get_args(ShareReset):
            raise BadInput(f"{where}: group_config: {key} = {value!r}; it is one of {'; '.join(get_args(ShareReset))}")
        if key in (DELIVERY_LIMIT, LOCK) and not value.isdecimal():
            raise BadInput(f"{where}: group_config: {key} = {value!r}; give a whole number")
    for member in members[1:]:
        if (member.group_config, member.isolation) != (members[0].group_config, members[0].isolation):
            raise BadInput(
                f"{where}: members of {group} have different group_config or isolation, which belong to the group; "
                "make them equal"
            )


def _judged(scenario: Scenario, topics: dict[str, Topic], where: str) -> None:
    for text in scenario.floors.partitions:
        partition_of(text, topics, f"{where}: floors.partitions")
    for loss in scenario.allowed_anomalies.exact_losses:
        partition_of(f"{loss.topic}/{loss.partition}", topics, f"{where}: allowed_anomalies.exact_losses")
    if scenario.negative_control is not None:
        _expected(scenario.negative_control.expect, f"{where}: negative control")
    if scenario.regression is not None:
        _regression(scenario.regression, f"{where}: regression", open_bug=KNOWN_BUG in scenario.tags)
    if scenario.matrix is not None:
        _matrix(scenario, scenario.matrix, topics, f"{where}: matrix")


def _matrix(scenario: Scenario, matrix: Matrix, topics: dict[str, Topic], where: str) -> None:
    for event in (matrix.event, *matrix.events.values()):
        _one_of(event, tuple(event.name for event in EVENTS), where, "event")
    if not matrix.topics:
        raise BadInput(f"{where}: topics is empty; name topics, each of which is a configuration of the matrix")
    for name in matrix.topics:
        if name not in topics:
            raise BadInput(f"{where}: no topic {name!r}{nearest(name, topics)}")
        if not any(name in producer.topics for producer in scenario.producers):
            raise BadInput(f"{where}: no producer writes to {name}; add it to the topics of one")
    for key, names in (("exactly", matrix.exactly), ("events", matrix.events)):
        for name in names:
            if name not in matrix.topics:
                raise BadInput(f"{where}: {key}: no topic {name!r}{nearest(name, matrix.topics)}")
    steps = {step.name: step for step in scenario.steps}
    if matrix.fault and matrix.fault not in steps:
        raise BadInput(f"{where}: fault: no step {matrix.fault!r}{nearest(matrix.fault, steps)}")


def _regression(known: Regression, where: str, *, open_bug: bool) -> None:
    _expected(known.expect, where)
    for key, versions in (("bad", known.bad), ("fixed", known.fixed)):
        if not versions and not (key == "fixed" and open_bug):
            unless = f'; for a bug that no release has fixed, add the tag "{KNOWN_BUG}"' if key == "fixed" else ""
            raise BadInput(f'{where}: {key} is empty; name a release, as {key} = ["3.9.0"]{unless}')
        for version in versions:
            if not VERSION.fullmatch(version):
                raise BadInput(f"{where}: {key}: {version!r} is no version of Kafka; give one such as 3.9.0")


def _expected(names: tuple[str, ...], where: str) -> None:
    if not names:
        raise BadInput(f"{where}: expect is empty; name the kinds of findings that are expected")
    for name in names:
        _one_of(name, tuple(kind.value for kind in kinds()), where, "expect")


def partition_of(text: str, topics: dict[str, Topic], where: str = "") -> list[tuple[str, int]]:
    """The partitions that "topic/3" or "topic/*" names; BadInput when there is no such partition."""
    prefix = f"{where}: " if where else ""
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise BadInput(f'{prefix}{text!r} is no partition; write "topic/0" or "topic/*"')
    topic = topics.get(match["topic"])
    if topic is None:
        raise BadInput(f"{prefix}no topic {match['topic']!r}{nearest(match['topic'], topics)}")
    if match["partition"] == "*":
        return [(topic.name, p) for p in range(topic.partitions)]
    if int(match["partition"]) >= topic.partitions:
        raise BadInput(f"{prefix}{text}: {topic.name} has {topic.partitions} partitions, counted from 0")
    return [(topic.name, int(match["partition"]))]


def _some_topics(names: tuple[str, ...], topics: dict[str, Topic], where: str) -> None:
    if not names:
        raise BadInput(f"{where}: topics is empty")
    for name in names:
        if name not in topics:
            raise BadInput(f"{where}: no topic {name!r}{nearest(name, topics)}")


def _one_of(value: str, allowed: tuple[str, ...], where: str, key: str) -> None:
    if value not in allowed:
        raise BadInput(f"{where}: {key} = {value!r}; it is one of {', '.join(allowed)}{nearest(value, allowed)}")


def _name(name: str, where: str, noun: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: {noun} may only have a-z, 0-9 and _, and is {name!r}")


def nearest(word: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?", or nothing if no word is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
