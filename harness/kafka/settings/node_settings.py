"""Settings, JVM flags and logging of the brokers and controllers that this harness starts.

Timeouts are short, so that a fault shows within 2 to 5 s, but long enough for a loaded machine with two cores.
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
_INTERNAL = "REPL"  # the listener between brokers
_ISOLATED = "ISOLATED"  # the listener of clients that a fault can cut off alone
_OF_CLIENTS = ("CLIENT", _ISOLATED)  # the listeners by which records are written and read

JVM_FLAGS = (
    f"-Xmx{HEAP // MIB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",  # a broker that goes on without memory would look like a defect of the release
    "-XX:-UsePerfData",  # would leave a file in /tmp/hsperfdata_* after SIGKILL
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)

# Failure detection. Measured: an isolated follower leaves the ISR after 2.5 to 3 s, an isolated leader is replaced
# after 3.3 to 5.2 s, and in 45 s without a fault no ISR shrinks.
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
    # With the defaults of 30 s, a request to a paused node would stall AlterPartition and transaction markers.
    "controller.socket.timeout.ms": "5000",
    "request.timeout.ms": "5000",
    # Shorter than replica.lag.time.max.ms, as by default, so that a coordinator sometimes gives up a write.
    "offsets.commit.timeout.ms": "1000",
}

_BEHAVIOUR = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",  # only scenarios move leadership
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",  # KIP-392, to read every copy
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    **{key: str(partitions) for key, partitions in PARTITIONS.values()},
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    # As for a broker that has run for long: after a kill it recovers the newest segments, and trusts all others.
    "log.flush.offset.checkpoint.interval.ms": "1000",
    # By default these tasks run every 10 min or 1 h; here, during a scenario. The ages that they check are unchanged.
    "offsets.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "metadata.log.max.snapshot.interval.ms": "5000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),  # the default would take a third of the heap
    "num.recovery.threads.per.data.dir": "2",
    # As long as the harness waits for a node: on a starved machine a broker ended by itself after the default of 60 s.
    "initial.broker.registration.timeout.ms": "120000",
}


@dataclass(frozen=True, slots=True)
class Advertised:
    """The addresses of a broker: `client` is affected by faults; `direct`, for observers, never is."""

    client: tuple[str, int]
    direct: tuple[str, int]
    isolated_client: tuple[str, int] | None = None  # for clients that a fault can cut off alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything that the settings of one node depend on, apart from the release."""

    node: int
    address: str  # to which it binds
    advertised: Advertised | None  # None for a controller
    controllers: tuple[int, ...]
    brokers: int  # their number
    data: Path  # the log directory with the metadata log
    more_data: tuple[Path, ...] = ()  # further log directories (KIP-858)
    voters: Voters = "static"
    tier: Tier | None = None
    stores: Stores | None = None  # of a broker with TLS
    config: Mapping[str, str] = field(default_factory=dict)  # overrides everything else


def host_name(node: int) -> str:
    """The name of a node for other nodes, each of which resolves it by its own hosts file."""
    return f"kafka-{node}"


def node_properties(release: Release, node: Node) -> dict[str, str]:
    """server.properties of a broker; of a controller if the node advertises nothing to clients.

    Both get all common settings, because the controller applies defaults of topics, and with ELR (KIP-966) Kafka takes
    the cluster's min.insync.replicas from the active controller's file.
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
    """The protocol of each listener. Those of controllers and observers carry no records and are always plaintext."""
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
    """The voters, or the controllers that know them (KIP-853)."""
    if node.voters == "dynamic":
        return {"controller.quorum.bootstrap.servers": ",".join(map(controller_address, node.controllers))}
    return {"controller.quorum.voters": ",".join(f"{id_}@{controller_address(id_)}" for id_ in node.controllers)}


def controller_address(node: int) -> str:
    """The address of a controller for other nodes."""
    return f"{host_name(node)}:{CONTROLLER_PORT}"


def _broker(node: Node, advertised: Advertised) -> dict[str, str]:
    client, direct, isolated_client = advertised.client, advertised.direct, advertised.isolated_client
    return {
        "process.roles": "broker",
        "broker.rack": f"r{node.node}",
        "inter.broker.listener.name": _INTERNAL,
        "listeners": f"REPL://{node.address}:{REPLICATION_PORT},CLIENT://{node.address}:{CLIENT_PORT},"
        f"DIRECT://{node.address}:{DIRECT_PORT}"
        + (f",{_ISOLATED}://{node.address}:{ISOLATED_PORT}" if isolated_client else ""),
        "advertised.listeners": f"REPL://{host_name(node.node)}:{REPLICATION_PORT},"
        f"CLIENT://{client[0]}:{client[1]},DIRECT://{direct[0]}:{direct[1]}"
        + (f",{_ISOLATED}://{isolated_client[0]}:{isolated_client[1]}" if isolated_client else ""),
    }


def _controller(release: Release, node: Node) -> dict[str, str]:
    properties = {"process.roles": "controller", "listeners": f"CONTROLLER://{node.address}:{CONTROLLER_PORT}"}
    if release.numbers >= (3, 9):  # earlier versions refuse it (KIP-853)
        properties["advertised.listeners"] = f"CONTROLLER://{host_name(node.node)}:{CONTROLLER_PORT}"
    return properties


def combined_properties(release: Release, *, node: int, address: str, data: Path) -> dict[str, str]:
    """server.properties of a cluster in one process without proxies, which only the class data archive needs."""
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
        # This check holds the elections that a changed unclean.leader.election.enable allows; by default every 5 min.
        properties["unclean.leader.election.interval.ms"] = "1000"
    if release.numbers >= (4, 0):
        properties |= {
            "share.coordinator.state.topic.replication.factor": str(min(3, brokers)),
            "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
            "share.coordinator.state.topic.num.partitions": "3",
            # Groups of the new protocol (KIP-848), for which the broker decides these.
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "500",
        }
    if release.numbers >= (4, 2):
        # Share groups (KIP-932): by default the partitions of a member that died stay with it for 45 s.
        properties |= {
            "group.share.min.session.timeout.ms": "1000",
            "group.share.session.timeout.ms": "6000",
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.heartbeat.interval.ms": "500",
        }
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key}={escaped(properties[key])}\n" for key in sorted(properties))


def escaped(value: str) -> str:
    """A value with backslashes and line breaks escaped for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def logging_properties(release: Release, log_file: Path) -> tuple[str, str]:
    """The JVM property that names the logging configuration, and that configuration, which logs into one file."""
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
