"""A scenario as data: cluster, topics, workload, steps, contract, floors of load, weakening.

Defaults mean "does not matter here"; what a scenario sets is what it is about. Parsing lives in `scenario_toml`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

Config = dict[str, str]
FileSystem = Literal["xfs", "ext4"]
DISKS: Final[tuple[str, ...]] = get_args(FileSystem)
GroupProtocol = Literal["classic", "consumer", "share"]
SHARE: Final = "share"
Voters = Literal["static", "dynamic"]
RemoteTier = Literal["local", "kafka_local", "s3", "user"]
TIERS_IN_FOLDER: Final = frozenset({"local", "kafka_local"})  # that brokers share
JAVA: Final = "java"  # the release's own client
STREAMS: Final = "streams"  # the release's own Kafka Streams
CLIENTS_OF_READERS: Final = ("librdkafka", JAVA)
CLIENTS: Final = (*CLIENTS_OF_READERS, STREAMS)
AUTO: Final = "auto"
AUTO_AHEAD: Final = "auto_ahead"
WAIT_COMPACTED: Final = "wait_compacted"  # the kind of step that waits until a cleaner has been at a log
BY_ITSELF: Final = (AUTO, AUTO_AHEAD)  # a client commits what its polls gave (enable.auto.commit)
Moment = Literal["read", "produced", "offsets", "commit"]  # at which a processor dies

LOG_DIRS_MAX = 4
NODES_MAX = 50  # of brokers, and of controllers: 100 + node id has to fit into an octet of an address
DAY_S = 24 * 3600
MANY = 1_000_000_000
# Of a producer's client, where a scenario does not say: without end, and what idempotence can go with (KIP-98).
RETRIES_MAX: Final = 2**31 - 1
IN_FLIGHT_DEFAULT: Final = 5
VALUE_BYTES_MAX = 1_000_000
PARTITIONS_MAX = 1000  # of a topic
SETS = ("smoke", "gate", "nightly")  # tags that no file gives itself: they follow from the rest of it


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a field may have. Stands beside its type, and is held where a file is read."""

    lowest: float
    highest: float

    def __contains__(self, value: float) -> bool:
        return self.lowest <= value <= self.highest  # "not a number" is in no range


Count = Annotated[int, Range(1, MANY)]
Amount = Annotated[int, Range(0, MANY)]
Share = Annotated[float, Range(0, 1)]
Seconds = Annotated[float, Range(0, DAY_S)]
Deadline = Annotated[float, Range(0.001, DAY_S)]


# The first release whose share groups are for production (KIP-932): before, they are off, and on their way of changing.
SHARE_GROUPS_SINCE: Final = (4, 2)
# The first release whose voters can change (KIP-853), and the feature whose level says that they can.
DYNAMIC_VOTERS_SINCE: Final = (3, 9)
KRAFT_VERSION: Final = "kraft.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """What has to be formatted and started; clusters of one shape may be shared by scenarios in a row."""

    brokers: int = 3
    controllers: int = 1
    log_dirs: Annotated[int, Range(1, LOG_DIRS_MAX)] = 1  # of each broker (KIP-858); the metadata log is in the first
    disk: Literal["", FileSystem] = ""  # of each log directory of a broker; "" = all share the machine's
    clock: bool = False  # of every node, can be set
    tier: Literal["", RemoteTier] = ""  # remote storage (KIP-405): ours in a folder or S3, Kafka's, user's
    tier_faults: bool = False  # of the tier: what stores, reads and deletes can be told to fail, wait or stop half way
    lone: bool = False  # a way in beside the others', for clients that are to be cut off alone
    secure: bool = False  # records go by TLS: clients log in (SASL_SSL, SCRAM-SHA-512), brokers show certificates
    config: Config = field(default_factory=dict)  # broker settings on top of the backend's
    features: dict[str, int] = field(default_factory=dict)  # feature levels at format, such as ELR off
    voters: Voters = "static"  # of the controllers: by their settings, or as the log says (KIP-853)
    starts_on: str | None = None  # the version that formats it and that nodes run until a step upgrades them


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    partitions: Annotated[int, Range(1, PARTITIONS_MAX)] = 3
    replicas: int = 3
    config: Config = field(default_factory=dict)  # min.insync.replicas defaults to 2
    assignment: tuple[tuple[int, ...], ...] = ()  # replicas of each partition, the preferred leader first


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """A transactional producer: how many records make one, which share aborts."""

    records: Count = 50
    abort_share: Share = 0.25
    spans_rolls: bool = False  # some are held open until a partition rolled its segment
    offsets_of: str | None = None  # group whose offsets some of the transactions carry


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """A transactional producer that reads, and writes one record for each that it is given (KIP-98, KIP-447).

    commits: its offsets "transaction": in the transaction of what it made of them; "after" that has ended, by itself;
    or "before" it begins. Of Kafka Streams: by exactly_once_v2, or "after" it has written, by at_least_once.
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
    partitioner: str = ""  # of the client, which chooses a key's partition by it; "" = the harness does
    headers: bool = False  # each record carries some, which readers hold against its value
    backdated_s: Annotated[int, Range(0, MANY)] = 0  # its records bear times so long before they are sent
    value_bytes: Annotated[int, Range(1, VALUE_BYTES_MAX)] = 200
    sizes: tuple[int, ...] = ()  # of its values, as many of each, in place of the one above
    tombstones: Share = 0.0  # of its records, so many have a null value; keyed ones only, for they delete their key
    empty: Share = 0.0  # and so many an empty one
    rate_per_s: int | None = None  # None = flat out
    transactions: Transactions | None = None
    client: str = CLIENTS[0]
    config: Config = field(default_factory=dict)  # further settings, in the names of its client
    lone: bool = False  # comes in by the way of the shape's `lone`: the party "lone" of a link
    processes: Processing | None = None
    when: str = "always"  # "always": runs by itself; "steps": only bursts that a step asks for; "input": it processes

    @property
    def mean_bytes(self) -> int:
        """Of a value, about."""
        bare = min(1.0, self.tombstones + self.empty)
        return int((1 - bare) * sum(sizes := self.sizes or (self.value_bytes,)) / len(sizes))

    @property
    def retries(self) -> int:
        """How often its client sends a record again, at most."""
        return int(self._setting(RETRIES_MAX, "retries", "message.send.max.retries"))

    @property
    def in_flight(self) -> int:
        """Requests to one broker that it does not wait for, at most."""
        return int(self._setting(IN_FLIGHT_DEFAULT, "max.in.flight.requests.per.connection", "max.in.flight"))

    def _setting(self, default: int, *names: str) -> str:
        return next((self.config[name] for name in names if name in self.config), str(default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    name: str
    topics: tuple[str, ...]
    isolation: str = "read_committed"
    lone: bool = False  # as of producers
    group: str | None = None  # set = subscribes and commits; None = assigned, from the start
    protocol: GroupProtocol = "classic"  # of a group: "consumer" is the next generation's (KIP-848), "share" KIP-932's
    static: bool = False  # of a group: who comes back under its name takes its own place again (KIP-345)
    client: str = CLIENTS[0]
    # Of a group: where its client begins when its offset is no more (auto.offset.reset); "" = it reads all anew.
    reset: Literal["", "earliest", "latest", "error"] = ""
    # Of a group: "after" what it is given is processed, which is to be observed, or "before"; or its client does by
    # itself, "auto" where it processes what a poll gave before the next one, "auto_ahead" where it polls on meanwhile.
    commits: str = "after"
    config: Config = field(default_factory=dict)
    group_config: Config = field(default_factory=dict)  # of a share group itself, such as share.record.lock.duration.ms
    releases_every: Annotated[int, Range(0, MANY)] = 0  # of a share group: it fails on every so-many-th offset, and
    rejects_every: Annotated[int, Range(0, MANY)] = 0  # releases it, whenever it is given it; or rejects it for good

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
    """Makes, changes and unmakes things beside the load, through every fault, and keeps a record of each operation.

    Each thing is left alone after an operation or three, so that at the end most of them speak of one operation.
    """

    name: str
    does: tuple[str, ...] = ("topics", "configs", "acls", "users", "reassignments")  # in turn
    things: Annotated[int, Range(1, 300)] = 32  # of each kind of work; after the last one the first is taken again
    rate_per_s: Annotated[float, Range(0.1, 100)] = 8.0
    timeout_s: Deadline = 4.0  # of one request, of which there is only one an operation
    floors: AdminFloors = AdminFloors()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the plan: a fault, an action, a wait, or the healing of an earlier fault.

    `do` names it ("kill", "produce", "wait", "heal", ...), `name` is what a later `heal` refers to, `args` is whatever
    that kind of step declares. Everything a scenario writes must be consumed by the step, or loading fails.
    """

    do: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactLoss:
    """Physics: acked records at or above the surviving log end must go, no more and no fewer."""

    topic: str
    partition: int
    count: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Permits:
    """What the scenario's author says may happen beyond what the configuration already implies."""

    unclean_election: bool = False  # where a step has one elected, or a setting; on no other topic
    delete_records: bool = False
    last_replica: bool = False  # that it leads again without its tail: judged as permitted only where that is evidenced
    exact_losses: tuple[ExactLoss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Acked records on each target partition below which the run proved nothing."""

    before: Amount = 200
    during: Amount = 0
    after: Amount = 200
    partitions: tuple[str, ...] = ()  # "topic/0" or "topic/*"; empty = all that producers write by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """The one setting under which this scenario must FAIL: it runs with `patch`, and is judged without it.

    `patch` maps dotted paths of the TOML to values ("producers.plain.acks" = "1"); `expect` are kinds of findings.
    """

    what: str
    patch: dict[str, Any]
    expect: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A known bug that the scenario provokes: releases that have it, releases that are rid of it, and the kinds of
    findings that the bad ones must be convicted of."""

    issue: str  # "KAFKA-17062"
    bad: tuple[str, ...]
    fixed: tuple[str, ...]
    expect: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A column of the matrix of contracts: what happens here, to which configurations side by side.

    event: its name in `model.promises`. topics: each of them is a row, with the settings of the producer that writes to
    it. fault: the step during which a topic is unavailable or not; "" = its acks are not what it is about. exactly: of
    how many records each topic shows its effect, where the steps decide that; of losses `permits` says it. events: of
    topics to which something else happens.
    """

    event: str
    topics: tuple[str, ...]
    fault: str = ""
    exactly: dict[str, int] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)

    def at(self, topic: str) -> str:
        """The name of what happens to a topic."""
        return self.events.get(topic, self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    title: str
    guards: str  # the promise it stands for
    gate: bool = False
    gate_on_containers: bool = False  # there only, where this machine can; on processes it is beside the gate
    smoke: bool = False
    tags: tuple[str, ...] = ()
    fresh: bool = False  # a cluster of its own
    since: str | None = None  # the first version of Kafka that has what it is about, "4.1"
    share: Annotated[float, Range(0.001, 1000)] = 1.0  # weight in the gate's --records
    load_s: Seconds = 2.0  # how long the load runs before the first and after the last step, at least
    shape: ClusterShape = ClusterShape()
    topics: tuple[Topic, ...] = ()
    producers: tuple[Producer, ...] = ()
    readers: tuple[Reader, ...] = ()
    admin: tuple[Admin, ...] = ()
    steps: tuple[Step, ...] = ()
    permits: Permits = Permits()
    floors: Floors = Floors()
    weakening: Weakening | None = None
    regression: Regression | None = None
    matrix: Matrix | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that readers and processors commit for, or transactions carry offsets of; share groups are none."""
        readers = {r.group for r in self.readers if not r.shares}
        processors = {p.processes.group for p in self.producers if p.processes}
        carried = {p.transactions.offsets_of for p in self.producers if p.transactions is not None}
        return tuple(sorted(group for group in readers | processors | carried if group))

    @property
    def own_clients(self) -> bool:
        """Whether some of its clients are the release's own."""
        return any(p.client in (JAVA, STREAMS) for p in self.producers) or any(r.client == JAVA for r in self.readers)

    @property
    def own_streams(self) -> bool:
        """Whether some of its processors are applications of the release's own Kafka Streams."""
        return any(p.client == STREAMS for p in self.producers)

    @property
    def share_groups(self) -> dict[str, tuple[Reader, ...]]:
        """The members of each share group, by its name."""
        groups = dict.fromkeys(r.group for r in self.readers if r.group is not None and r.shares)
        return {group: tuple(r for r in self.readers if r.group == group) for group in groups}

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the bundle's scenario.json."""
        return asdict(self)
