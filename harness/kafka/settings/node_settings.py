"""Broker and controller settings, JVM flags and logging of the clusters that this harness starts.

Timeouts are small, so that a fault shows within 2 to 5 seconds and still nothing flaps on a loaded two-core machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.kafka.release.release import Release
from harness.kafka.settings.tier_settings import Tier, tier_properties
from harness.kafka.settings.tls import BETWEEN_BROKERS, PROTOCOL, Stores, broker_properties
from harness.model.contract.internal_topics import PARTITIONS
from harness.model.limits import HEAP, MIB
from harness.model.scenario.scenario import Voters

REPLICATION_PORT = 21092
CONTROLLER_PORT = 21093
CLIENT_PORT = 21094
DIRECT_PORT = 21095
ISOLATED_PORT = 21096
_INTERNAL = "REPL"  # the listener by which brokers reach each other
_OF_CLIENTS = ("CLIENT", "LONE")  # by which records are written and read

JVM_FLAGS = (
    f"-Xmx{HEAP // MIB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",  # a broker that limps on without memory would be taken for a fault of the release
    "-XX:-UsePerfData",  # leaves a file in /tmp/hsperfdata_* behind a SIGKILL
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)

# Failure detection. Seen: a cut follower leaves the ISR after 2.5 to 3 s, an isolated leader is replaced after 3.3 to
# 5.2 s, and 45 quiet seconds shrink nothing.
_DETECTION = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "200",
    "replica.socket.timeout.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1500",
    "socket.connection.setup.timeout.ms": "1000",
    "socket.connection.setup.timeout.max.ms": "2000",
    # Defaults of 30 s: a request to a paused controller or broker would stall AlterPartition and transaction markers.
    "controller.socket.timeout.ms": "5000",
    "request.timeout.ms": "5000",
    # As by default shorter than the lag that the ISR permits: a coordinator has to give up a write now and then.
    "offsets.commit.timeout.ms": "1000",
}

_BEHAVIOUR = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",  # leadership moves when a scenario says so
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",  # KIP-392, to read every copy
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    **{key: str(partitions) for key, partitions in PARTITIONS.values()},
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    # What runs every ten minutes or hour by default runs within a scenario; the ages that it goes by stay as they are.
    "offsets.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "metadata.log.max.snapshot.interval.ms": "5000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),  # the default takes a third of our heap
    "num.recovery.threads.per.data.dir": "2",
}


@dataclass(frozen=True, slots=True)
class Advertised:
    """Where a broker is reached from outside: by clients through every fault, by observers past them."""

    client: tuple[str, int]
    direct: tuple[str, int]
    isolated_client: tuple[str, int] | None = None  # for clients that are to be cut off alone, where the shape has such


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What the settings of one node depend on, apart from the release."""

    node: int
    address: str  # what it binds
    advertised: Advertised | None  # None for a controller
    controllers: tuple[int, ...]
    brokers: int  # how many
    data: Path  # with the metadata log
    more_data: tuple[Path, ...] = ()  # further log directories (KIP-858)
    voters: Voters = "static"
    tier: Tier | None = None
    stores: Stores | None = None  # of a broker whose listeners for records are secure
    config: Mapping[str, str] = field(default_factory=dict)  # on top of everything else


def host_name(node: int) -> str:
    """The name under which other nodes know it; each node resolves it by a hosts file of its own."""
    return f"kafka-{node}"


def node_properties(release: Release, node: Node) -> dict[str, str]:
    """server.properties of a broker or, where it advertises nothing to clients, of a controller.

    Both get the settings of both: the controller applies defaults of topics, and with ELR (KIP-966) the cluster's
    min.insync.replicas is taken from the active controller's file.
    """
    special = _broker(node, node.advertised) if node.advertised else _controller(release, node)
    return {
        **_DETECTION,
        **_BEHAVIOUR,
        **_replication(node.brokers),
        **_of_version(release, node.brokers),
        **(tier_properties(node.tier, node.brokers, _INTERNAL) if node.tier else {}),
        "node.id": str(node.node),
        **_directories(node),
        **_quorum(node),
        "controller.listener.names": "CONTROLLER",
        **_security(node.stores),
        **special,
        **node.config,
    }


def _security(stores: Stores | None) -> dict[str, str]:
    """Which protocol each listener speaks. Controllers and observers, who get no records, are plain in any case."""
    protocols = dict.fromkeys((_INTERNAL, "CONTROLLER", *_OF_CLIENTS, "DIRECT"), "PLAINTEXT")
    if stores:
        protocols |= {_INTERNAL: BETWEEN_BROKERS, **dict.fromkeys(_OF_CLIENTS, PROTOCOL)}
    return {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        **(broker_properties(stores, _OF_CLIENTS, _INTERNAL) if stores else {}),
    }


def _directories(node: Node) -> dict[str, str]:
    directories = {"log.dirs": ",".join(map(str, (node.data, *node.more_data)))}
    return directories | ({"metadata.log.dir": str(node.data)} if node.more_data else {})


def _quorum(node: Node) -> dict[str, str]:
    """Who votes, or where to ask who does (KIP-853)."""
    if node.voters == "dynamic":
        return {"controller.quorum.bootstrap.servers": ",".join(map(controller_address, node.controllers))}
    return {"controller.quorum.voters": ",".join(f"{id_}@{controller_address(id_)}" for id_ in node.controllers)}


def controller_address(node: int) -> str:
    """Of a controller, as other nodes know it."""
    return f"{host_name(node)}:{CONTROLLER_PORT}"


def _broker(node: Node, advertised: Advertised) -> dict[str, str]:
    client, direct, isolated_client = advertised.client, advertised.direct, advertised.isolated_client
    return {
        "process.roles": "broker",
        "broker.rack": f"r{node.node}",
        "inter.broker.listener.name": _INTERNAL,
        "listeners": f"REPL://{node.address}:{REPLICATION_PORT},CLIENT://{node.address}:{CLIENT_PORT},"
        f"DIRECT://{node.address}:{DIRECT_PORT}"
        + (f",ISOLATED://{node.address}:{ISOLATED_PORT}" if isolated_client else ""),
        "advertised.listeners": f"REPL://{host_name(node.node)}:{REPLICATION_PORT},"
        f"CLIENT://{client[0]}:{client[1]},DIRECT://{direct[0]}:{direct[1]}"
        + (f",ISOLATED://{isolated_client[0]}:{isolated_client[1]}" if isolated_client else ""),
    }


def _controller(release: Release, node: Node) -> dict[str, str]:
    properties = {"process.roles": "controller", "listeners": f"CONTROLLER://{node.address}:{CONTROLLER_PORT}"}
    if release.numbers >= (3, 9):  # refused before (KIP-853 brought it)
        properties["advertised.listeners"] = f"CONTROLLER://{host_name(node.node)}:{CONTROLLER_PORT}"
    return properties


def combined_properties(release: Release, *, node: int, address: str, data: Path) -> dict[str, str]:
    """server.properties of a whole cluster in one process, with no proxies, that nobody is meant to use."""
    alone = Node(node=node, address=address, advertised=None, controllers=(node,), brokers=1, data=data)
    return {
        **node_properties(release, alone),
        "process.roles": "broker,controller",
        "listeners": f"CONTROLLER://{address}:{CONTROLLER_PORT},CLIENT://{address}:{CLIENT_PORT}",
        "advertised.listeners": f"CLIENT://{address}:{CLIENT_PORT}",
        "inter.broker.listener.name": "CLIENT",
        "controller.quorum.voters": f"{node}@{address}:{CONTROLLER_PORT}",
    }


def _replication(brokers: int) -> dict[str, str]:
    replicas, in_sync = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "min.insync.replicas": in_sync,
    }


def _of_version(release: Release, brokers: int) -> dict[str, str]:
    properties: dict[str, str] = {}
    if release.numbers >= (3, 9):
        # Elections that a changed unclean.leader.election.enable makes possible happen at this check; default 5 min.
        properties["unclean.leader.election.interval.ms"] = "1000"
    if release.numbers >= (4, 0):
        properties |= {
            "share.coordinator.state.topic.replication.factor": str(min(3, brokers)),
            "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
            "share.coordinator.state.topic.num.partitions": "3",
            # Of the next generation's groups (KIP-848), whose members have no say in it.
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "500",
        }
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """As a Java properties file."""
    return "".join(f"{key}={escaped(properties[key])}\n" for key in sorted(properties))


def escaped(value: str) -> str:
    """As a value stands in a Java properties file: backslashes and line breaks would be read as something else."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def logging_properties(release: Release, log_file: Path) -> tuple[str, str]:
    """The JVM property that names the configuration of logging, and that configuration: everything into one file."""
    if release.uses_log4j2:
        return "log4j2.configurationFile", _LOG4J2.format(file=log_file)
    return "log4j.configuration", _LOG4J.format(file=log_file)


_LOG4J2 = """\
status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={file}
appender.file.append=true
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
logger.requests.name=kafka.request.logger
logger.requests.level=WARN
logger.states.name=state.change.logger
logger.states.level=INFO
"""

_LOG4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.Append=true
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.request.logger=WARN
log4j.logger.state.change.logger=INFO
"""
