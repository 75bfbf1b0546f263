"""A scenario as data: cluster, topics, workload, steps, allowed anomalies, floors of load, negative control.

A default means "does not matter here": the fields that a scenario sets are those it is about. toml.py parses it.
"""

from __future__ import annotations

import builtins  # Scenario has a field called `property`
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Final, Literal, get_args

Config = dict[str, str]
FileSystem = Literal["xfs", "ext4"]
DISKS: Final[tuple[str, ...]] = get_args(FileSystem)
GroupProtocol = Literal["classic", "consumer", "share"]
SHARE: Final = "share"
SHARE_ISOLATION: Final = "share.isolation.level"  # settings of a share group
SHARE_RESET: Final = "share.auto.offset.reset"
Voters = Literal["static", "dynamic"]
RemoteTier = Literal["local", "kafka_local", "s3", "user"]
TIERS_IN_FOLDER: Final = frozenset({"local", "kafka_local"})  # that brokers share
JAVA: Final = "java"  # the release's own client
STREAMS: Final = "streams"  # the release's own Kafka Streams
CLIENTS_OF_READERS: Final = ("librdkafka", JAVA)
CLIENTS: Final = (*CLIENTS_OF_READERS, STREAMS)
TRANSACTIONAL_ID: Final = "transactional.id"  # a setting of producers
AUTO: Final = "auto"
AUTO_AHEAD: Final = "auto_ahead"
WAIT_COMPACTED: Final = "wait_compacted"  # the kind of step that waits until a log is compacted
BY_ITSELF: Final = (AUTO, AUTO_AHEAD)  # a client commits the records that its polls returned (enable.auto.commit)
Moment = Literal["read", "produced", "offsets", "commit"]  # when a processor dies

LOG_DIRS_MAX = 4
NODES_MAX = 50  # brokers, and controllers: 100 + node id must fit into an octet of an address
DAY_S = 24 * 3600
MANY = 1_000_000_000
# Defaults of a producer's client: no limit of retries, and the most requests in flight with idempotence (KIP-98).
RETRIES_MAX: Final = 2**31 - 1
IN_FLIGHT_DEFAULT: Final = 5
VALUE_BYTES_MAX = 4_000_000
PARTITIONS_MAX = 1000  # of a topic
KNOWN_BUG = "known-bug"  # a tag: the bug is open in every release, so that each must FAIL
SETS = ("smoke", "gate", "nightly")  # tags that follow from other fields, and that no file may have


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a field may have, as an annotation of its type. It is checked when a file is read."""

    lowest: float
    highest: float

    def __contains__(self, value: float) -> bool:
        return self.lowest <= value <= self.highest  # "not a number" is in no range


Count = Annotated[int, Range(1, MANY)]
Amount = Annotated[int, Range(0, MANY)]
Share = Annotated[float, Range(0, 1)]
Seconds = Annotated[float, Range(0, DAY_S)]
Deadline = Annotated[float, Range(0.001, DAY_S)]


# The first release with share groups for production (KIP-932). Before, they are off, and still change.
SHARE_GROUPS_SINCE: Final = (4, 2)
# The first release with voters that can change (KIP-853), and the feature that enables this.
DYNAMIC_VOTERS_SINCE: Final = (3, 9)
KRAFT_VERSION: Final = "kraft.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """The cluster that a scenario needs. Consecutive scenarios with the same shape may share a cluster."""

    brokers: int = 3
    controllers: int = 1
    log_dirs: Annotated[int, Range(1, LOG_DIRS_MAX)] = 1  # of each broker (KIP-858); the metadata log is in the first
    disk: Literal["", FileSystem] = ""  # file system of each log directory; "" = a folder on the machine's disk
    clock: bool = False  # the clock of every node can be set
    agent: bool = False  # every node loads an agent (Byteman), which injects faults into Kafka's own code
    tier: Literal["", RemoteTier] = ""  # remote storage (KIP-405): ours in a folder or S3, Kafka's, user's
    tier_faults: bool = False  # reads, writes and deletes of the tier can be made to fail, wait or stop half way
    isolated_client: bool = False  # links of their own for clients that a step isolates
    secure: bool = False  # records use TLS: clients log in (SASL_SSL, SCRAM-SHA-512), brokers have certificates
    config: Config = field(default_factory=dict)  # broker settings, in addition to the backend's
    features: dict[str, int] = field(default_factory=dict)  # feature levels at format, such as ELR off
    voters: Voters = "static"  # controllers are voters by their settings, or by the log (KIP-853)
    starts_on: str | None = None  # formats the cluster, and runs until a step upgrades it: a version, or PREVIOUS_MINOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    partitions: Annotated[int, Range(1, PARTITIONS_MAX)] = 3
    replicas: int = 3
    config: Config = field(default_factory=dict)  # min.insync.replicas defaults to 2
    assignment: tuple[tuple[int, ...], ...] = ()  # replicas of each partition, the preferred leader first


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The transactions of a producer: the number of records of each, and the share that aborts."""

    records: Count = 50
    abort_share: Share = 0.25
    spans_rolls: bool = False  # some stay open until a partition has rolled its segment
    offsets_of: str | None = None  # group with offsets in some of the transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """A transactional producer that reads, and writes one record for each that it receives (KIP-98, KIP-447). Several
    producers with the same table and the same topic are instances of one application.

    commits: when it commits offsets: in the "transaction" of the output, "after" that transaction, or "before" it. With
    Kafka Streams "transaction" means exactly_once_v2, and "after" means at_least_once.
    """

    reads: tuple[str, ...]  # topics
    group: str
    commits: str = "transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    name: str
    topics: tuple[str, ...]
    acks: str = "all"
    idempotent: bool = True
    compression: str = "none"
    keyed: bool = False
    partitioner: str = ""  # the client's partitioner, which chooses a key's partition; "" = the harness chooses
    headers: bool = False  # each record has some, which readers compare with its value
    backdated_s: Annotated[int, Range(0, MANY)] = 0  # timestamps lie that long before the send, or up to 0.2 s longer
    value_bytes: Annotated[int, Range(1, VALUE_BYTES_MAX)] = 200
    sizes: tuple[int, ...] = ()  # sizes of values, equally often; replaces value_bytes
    tombstones: Share = 0.0  # share of records with a null value, which deletes their key; keyed records only
    empty: Share = 0.0  # share of records with an empty value
    rate_per_s: int | None = None  # None = the gate chooses a rate; in bursts of steps = no limit
    transactions: Transactions | None = None
    client: str = CLIENTS[0]
    config: Config = field(default_factory=dict)  # further settings, in the names of its client
    isolated_client: bool = (
        False  # uses the links of the shape's isolated_client, the party "isolated_client" of a link
    )
    bootstrap: Annotated[int, Range(0, NODES_MAX)] = 0  # the only broker that the client knows at first; 0 = all
    processes: Processing | None = None
    when: str = "always"  # "always": it runs all the time; "steps": only when a step asks; "input": it processes

    @property
    def mean_bytes(self) -> int:
        """The mean size of a value, roughly."""
        bare = min(1.0, self.tombstones + self.empty)
        return int((1 - bare) * sum(sizes := self.sizes or (self.value_bytes,)) / len(sizes))

    @property
    def retries(self) -> int:
        """How often its client retries a record, at most."""
        return int(self._setting(RETRIES_MAX, "retries", "message.send.max.retries"))

    @property
    def transactional_id(self) -> str:
        """The id of its transactions; with Kafka Streams it is not used."""
        return self.config.get(TRANSACTIONAL_ID, self.name)

    @property
    def in_flight(self) -> int:
        """The largest number of unanswered requests to one broker."""
        return int(self._setting(IN_FLIGHT_DEFAULT, "max.in.flight.requests.per.connection", "max.in.flight"))

    def _setting(self, default: int, *names: str) -> str:
        return next((self.config[name] for name in names if name in self.config), str(default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    name: str
    topics: tuple[str, ...]
    isolation: str = "read_committed"
    isolated_client: bool = False  # as for producers
    bootstrap: Annotated[int, Range(0, NODES_MAX)] = 0  # as for producers
    group: str | None = None  # set = subscribes and commits; None = assigned, from the start
    protocol: GroupProtocol = "classic"  # of a group: "consumer" is KIP-848, "share" is KIP-932
    # Of a classic group of librdkafka: what its leader shares partitions out by. "range" gives all of them anew at each
    # rebalance, and puts no data of its own into assignments: a coordinator refuses to migrate a group with such data.
    assignor: Literal["cooperative-sticky", "range"] = "cooperative-sticky"
    static: bool = False  # of a group: a member that returns keeps its partitions (KIP-345)
    revoke_s: Seconds = 0.0  # of a group: so long it still works on partitions that it is asked to give up
    client: str = CLIENTS[0]
    # For a group: where its client begins without an offset (auto.offset.reset); "" = from the start.
    reset: Literal["", "earliest", "latest", "error"] = ""
    # For a group: it commits "after" or "before" it processes (here: observes) records. Or its client commits by
    # itself: "auto" if the application processes each poll before the next one, "auto_ahead" if it polls again
    # meanwhile.
    commits: str = "after"
    config: Config = field(default_factory=dict)
    group_config: Config = field(default_factory=dict)  # of a share group, such as share.record.lock.duration.ms
    # For a share group: it fails on each offset that is a multiple of this, and releases it at each delivery (the first
    # `releases` ones, if that is set), or rejects it.
    releases_every: Annotated[int, Range(0, MANY)] = 0
    releases: Annotated[int, Range(0, MANY)] = 0
    rejects_every: Annotated[int, Range(0, MANY)] = 0

    @property
    def shares(self) -> bool:
        """Whether it is a member of a share group."""
        return self.group is not None and self.protocol == SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminFloors:
    """Acknowledged operations of an admin below which the run proved nothing about them."""

    before: Amount = 20
    during: Amount = 0
    after: Amount = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """An admin that creates, changes and deletes metadata during the load and the faults, and records each operation.

    An entity is left alone after one to three operations, so at the end the state of most entities shows one operation.
    """

    name: str
    does: tuple[str, ...] = ("topics", "configs", "acls", "users", "reassignments")  # in turn
    entities: Annotated[int, Range(1, 300)] = 32  # of each kind of work; after the last one it starts over
    rate_per_s: Annotated[float, Range(0.1, 100)] = 8.0
    timeout_s: Deadline = 4.0  # of the request; an operation is one request
    floors: AdminFloors = AdminFloors()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a scenario: a fault, an action, a wait, or the healing of an earlier fault.

    `do` names it ("kill", "produce", "wait", "heal", ...), `name` is what a later `heal` refers to, `args` is whatever
    that kind of step declares. Loading fails on an argument that the step does not have.
    """

    do: str
    name: str
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLoss:
    """The exact number of acked records that must be lost: those at or above the surviving log end."""

    topic: str
    partition: int
    count: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedAnomalies:
    """Anomalies that the scenario allows in addition to those that its configuration implies."""

    unclean_election: bool = False  # on topics where a step or a setting causes one
    delete_records: bool = False
    last_replica: bool = False  # the last in-sync replica leads again without its tail; needs evidence in the bundle
    exact_losses: tuple[ExactLoss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Acked records on each target partition below which the run proved nothing."""

    before: Amount = 200
    during: Amount = 0
    after: Amount = 200
    partitions: tuple[str, ...] = ()  # "topic/0" or "topic/*"; empty = all that producers write all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeControl:
    """The one change under which this scenario must FAIL: it runs with `patch`, and is judged without it.

    `patch` maps dotted paths of the TOML to values ("producers.plain.acks" = "1"); `expect` are kinds of findings.
    """

    what: str
    patch: dict[str, object]
    expect: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A known bug that the scenario provokes: releases with the bug, releases with the fix, and the kinds of findings
    that the bad ones must have. fixed: none while the bug is open, in a scenario with the tag KNOWN_BUG."""

    issue: str  # "KAFKA-17062"
    bad: tuple[str, ...]
    fixed: tuple[str, ...]
    expect: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """An event of the matrix of contracts: what happens in this scenario, to which configurations.

    event: its name in contract/promises.py. topics: each of them is a configuration, with the settings of the producer
    that writes to it. fault: the step during which a topic may be unavailable; "" = acks do not matter. exactly: the
    number of records that show the effect, by topic, if the steps decide it (for losses, `allowed_anomalies` says it).
    events: other events, by topic.
    """

    event: str
    topics: tuple[str, ...]
    fault: str = ""
    exactly: dict[str, int] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)

    def at(self, topic: str) -> str:
        """The name of the event that happens to a topic."""
        return self.events.get(topic, self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    title: str
    property: str  # the promise that it checks
    gate: bool = False
    gate_on_containers: bool = False  # in the gate only on containers; on processes it is outside of it
    smoke: bool = False
    tags: tuple[str, ...] = ()
    fresh: bool = False  # a cluster of its own
    since: str | None = None  # the first version of Kafka with its subject, such as "4.1"
    load_weight: Annotated[float, Range(0.001, 1000)] = 1.0  # its weight in the gate's --records
    load_s: Seconds = 1.0  # how long the load runs before the first and after the last step, at least
    shape: ClusterShape = ClusterShape()
    topics: tuple[Topic, ...] = ()
    producers: tuple[Producer, ...] = ()
    readers: tuple[Reader, ...] = ()
    admin: tuple[Admin, ...] = ()
    steps: tuple[Step, ...] = ()
    allowed_anomalies: AllowedAnomalies = AllowedAnomalies()
    floors: Floors = Floors()
    negative_control: NegativeControl | None = None
    regression: Regression | None = None
    matrix: Matrix | None = None

    @builtins.property
    def groups(self) -> tuple[str, ...]:
        """Groups with committed offsets: of readers, processors and transactions. Share groups have none."""
        readers = {r.group for r in self.readers if not r.shares}
        processors = {p.processes.group for p in self.producers if p.processes}
        carried = {p.transactions.offsets_of for p in self.producers if p.transactions is not None}
        return tuple(sorted(group for group in readers | processors | carried if group))

    @builtins.property
    def fed(self) -> frozenset[str]:
        """The topics to which a producer writes all the time."""
        return frozenset(name for p in self.producers if p.when == "always" for name in p.topics)

    @builtins.property
    def java_clients(self) -> bool:
        """Whether a client of it is the release's own."""
        return any(p.client in (JAVA, STREAMS) for p in self.producers) or any(r.client == JAVA for r in self.readers)

    @builtins.property
    def kafka_streams(self) -> bool:
        """Whether a processor of it is an application of the release's own Kafka Streams."""
        return any(p.client == STREAMS for p in self.producers)

    @builtins.property
    def share_groups(self) -> dict[str, tuple[Reader, ...]]:
        """The members of each share group, by its name."""
        groups = dict.fromkeys(r.group for r in self.readers if r.group is not None and r.shares)
        return {group: tuple(r for r in self.readers if r.group == group) for group in groups}

    def as_dict(self) -> dict[str, object]:
        """Plain JSON types, for the bundle's scenario.json."""
        return asdict(self)
