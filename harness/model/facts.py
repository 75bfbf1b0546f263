"""Facts: what a step did to the cluster, its disks, its clients or its remote tier, typed, with nodes and times.

The class of a step declares them, steps.json has them, and the verifier knows nothing else of a step. A fact says what
may have happened: a fault that begins to fill a disk may have ended its broker at any moment until it is healed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from harness.model.documents.record import Record, meaning


class Stop(StrEnum):
    """How processes ended."""

    KILLED = "killed"  # by SIGKILL, while nothing else was wrong with them
    CLEANLY = "cleanly"  # by a controlled shutdown
    CRASHED = "crashed"  # by themselves or by the kernel, because something failed
    POWER = "power"  # their machine lost its power


class FactKind(StrEnum):
    """The kinds of facts. `MEANINGS` has the meaning of each."""

    STOPPED = "stopped"
    FROZEN = "frozen"
    CLOCK_CHANGED = "clock_changed"
    DATA_LOST = "data_lost"
    COPIES_REBUILT = "copies_rebuilt"
    DISK_DAMAGED = "disk_damaged"
    METADATA_DAMAGED = "metadata_damaged"
    DISK_FAILED = "disk_failed"
    DISK_FILLED = "disk_filled"
    DISK_SLOW = "disk_slow"
    FLUSHES_FORGOTTEN = "flushes_forgotten"
    LINKS_CUT = "links_cut"
    LINKS_SLOW = "links_slow"
    ANSWERS_LOST = "answers_lost"
    FRAMES_HELD = "frames_held"
    QUORUM_LOST = "quorum_lost"
    VOTERS_CHANGED = "voters_changed"
    UPGRADED = "upgraded"
    DOWNGRADE_TRIED = "downgrade_tried"
    FEATURES_RAISED = "features_raised"
    LEADERS_MOVED = "leaders_moved"
    REPLICATION_THROTTLED = "replication_throttled"
    PARTITIONS_ADDED = "partitions_added"
    TOPIC_DELETED = "topic_deleted"
    RECORDS_DELETED = "records_deleted"
    CONFIG_SET = "config_set"
    CONFIG_TOGGLED = "config_toggled"
    ENTITY_CHANGED = "entity_changed"
    CLIENT_DIED = "client_died"
    CLIENT_AWAY = "client_away"
    CLIENT_RESTARTED = "client_restarted"
    GROUP_DELETED = "group_deleted"
    TRANSACTION_ENDED = "transaction_ended"
    TRANSACTION_ABORTED = "transaction_aborted"
    TIER_UNAVAILABLE = "tier_unavailable"
    TIER_SLOW = "tier_slow"
    TIER_LEFT = "tier_left"
    TIER_OBJECTS_CHANGED = "tier_objects_changed"
    TIER_READ = "tier_read"
    TIER_CAUGHT_UP = "tier_caught_up"


# Facts that a step only saw. Every other fact says that the step changed something.
OBSERVED: Final = frozenset({FactKind.TIER_CAUGHT_UP})


@dataclass(frozen=True, slots=True)
class Meaning:
    """The further keys of a kind of fact, and what it says.

    judged: for FORMAT.md, what the keys mean, and what the judge takes from the fact beside the disturbance.
    """

    keys: tuple[str, ...]
    text: str
    judged: str = ""


_NODES: Final = ("nodes",)
_CLIENT: Final = ("client",)
_TOPIC: Final = ("topic",)

MEANINGS: Final[Mapping[FactKind, Meaning]] = {
    FactKind.STOPPED: Meaning(
        ("nodes", "how"),
        "the processes of nodes ended at some moment between the two times",
        "`how`: `killed` (SIGKILL), `cleanly` (a controlled shutdown), `crashed` (it failed by itself, or "
        "the kernel ended it), `power`. With `crashed` no end of these nodes between the two times is the finding "
        "`crashed`. Excuses that a broker returns without what it knew of a deletion of"
        " records, unless `cleanly`. With `killed` or `cleanly` a leader must still acknowledge, and no "
        "answers of that node to share groups are lost later.",
    ),
    FactKind.FROZEN: Meaning(_NODES, "the processes of nodes were stopped and continued, without an end"),
    FactKind.CLOCK_CHANGED: Meaning(_NODES, "the clocks of nodes were wrong"),
    FactKind.DATA_LOST: Meaning(
        ("nodes", "what"),
        "a part of what was on the disks of nodes is lost",
        "`what`: as text. Excuses nothing; the events `power_loss`, `lost_tail` and `only_disk_lost` do.",
    ),
    FactKind.COPIES_REBUILT: Meaning(
        _NODES,
        "replicas fetched records again that they or other disks had before",
        "Excuses that a compacted copy lacks records which its last segment should have.",
    ),
    FactKind.DISK_DAMAGED: Meaning(
        ("nodes", "what"),
        "files of the logs on a disk changed while its broker was down",
        "`what`: as text.",
    ),
    FactKind.METADATA_DAMAGED: Meaning(
        ("nodes", "what"),
        "files of the metadata of a node changed while it was down",
        "`what`: as text.",
    ),
    FactKind.DISK_FAILED: Meaning(_NODES, "a disk refused reads or writes while its broker ran"),
    FactKind.DISK_FILLED: Meaning(_NODES, "a disk had no space left while its broker ran"),
    FactKind.DISK_SLOW: Meaning(_NODES, "a disk answered late while its broker ran"),
    FactKind.FLUSHES_FORGOTTEN: Meaning(_NODES, "disks forget at the next power loss what was flushed since then"),
    FactKind.LINKS_CUT: Meaning(_NODES, "connections were cut"),
    FactKind.LINKS_SLOW: Meaning(_NODES, "connections were slow"),
    FactKind.ANSWERS_LOST: Meaning(_NODES, "brokers received requests, and clients received no answers"),
    FactKind.FRAMES_HELD: Meaning(_NODES, "requests were held back and delivered later"),
    FactKind.QUORUM_LOST: Meaning(_NODES, "no majority of the controllers was available"),
    FactKind.VOTERS_CHANGED: Meaning(_NODES, "the voters of the controller quorum changed"),
    FactKind.UPGRADED: Meaning(
        ("nodes", "what"),
        "nodes continued on another release",
        "`what`: as text.",
    ),
    FactKind.DOWNGRADE_TRIED: Meaning(_NODES, "a node was started on a release that its metadata forbids"),
    FactKind.FEATURES_RAISED: Meaning((), "feature levels were raised"),
    FactKind.LEADERS_MOVED: Meaning((), "partitions got other leaders on request"),
    FactKind.REPLICATION_THROTTLED: Meaning((), "replication was throttled"),
    FactKind.PARTITIONS_ADDED: Meaning(_TOPIC, "a topic got more partitions"),
    FactKind.TOPIC_DELETED: Meaning(_TOPIC, "a topic was deleted"),
    FactKind.RECORDS_DELETED: Meaning((), "records were deleted on request"),
    FactKind.CONFIG_SET: Meaning(
        ("topic", "config"),
        "settings of a topic were changed, and stay",
        "`config`: {key: value as Kafka writes it}. Excuses what the settings permit, if the contract has "
        "the step in `changes`, see there; batches may have an older codec.",
    ),
    FactKind.CONFIG_TOGGLED: Meaning(
        ("topic", "nodes", "config"),
        "settings were changed and reverted, in turn",
        "An empty `topic` = settings of the brokers `nodes`. Batches may have another codec.",
    ),
    FactKind.ENTITY_CHANGED: Meaning((), "an entity of an admin was changed past the admin"),
    FactKind.CLIENT_DIED: Meaning(
        _CLIENT,
        "a client, or a member of a group, ended without a farewell",
        "`client`: its group. Is no disturbance of brokers, so it excuses no processor by itself.",
    ),
    FactKind.CLIENT_AWAY: Meaning(_CLIENT, "the members of a group left or paused"),
    FactKind.CLIENT_RESTARTED: Meaning(_CLIENT, "a client was restarted"),
    FactKind.GROUP_DELETED: Meaning(_CLIENT, "a group was deleted"),
    FactKind.TRANSACTION_ENDED: Meaning(_CLIENT, "a producer ended a transaction on request"),
    FactKind.TRANSACTION_ABORTED: Meaning(_CLIENT, "an operator aborted a transaction of a producer"),
    FactKind.TIER_UNAVAILABLE: Meaning(
        (),
        "operations of the remote tier failed, or waited",
        "The figure `tier_caught_up_s` counts from its end.",
    ),
    FactKind.TIER_SLOW: Meaning(
        (),
        "operations of the remote tier took long",
        "As `tier_unavailable`.",
    ),
    FactKind.TIER_LEFT: Meaning(
        _TOPIC,
        "a topic left the remote tier",
        "As `tier_unavailable`.",
    ),
    FactKind.TIER_OBJECTS_CHANGED: Meaning((), "objects of the remote tier were changed or deleted past the brokers"),
    FactKind.TIER_READ: Meaning((), "more clients than the load's read from the remote tier"),
    FactKind.TIER_CAUGHT_UP: Meaning(
        (),
        "all segments that had been rolled by `from_ns` were in the tier by `to_ns`",
        "Only seen: it excuses nothing.",
    ),
}


# Keys that a fact must have if its kind has them, because an excuse rests on them.
_NEEDED: Final = ("how", "topic", "config")


class Fact(Record, frozen=True, kw_only=True):
    """One fact of one step. `MEANINGS` says which keys each kind has."""

    kind: Annotated[FactKind, meaning("the kind of fact")]
    from_ns: Annotated[int, meaning("it began no earlier")]
    to_ns: Annotated[int | None, meaning("it was over no later; null = it was not over when it was recorded")] = None
    nodes: Annotated[
        tuple[int, ...] | None, meaning("ids of nodes; null = unknown, so it may have been any of them")
    ] = None
    how: Annotated[Stop | None, meaning("how processes ended")] = None
    what: Annotated[str | None, meaning("for people")] = None
    topic: Annotated[str | None, meaning("name of a topic")] = None
    client: Annotated[str | None, meaning("name of a group, a reader or a producer")] = None
    config: Annotated[Mapping[str, str] | None, meaning("settings with their values as Kafka writes them")] = None

    def __post_init__(self) -> None:
        if self.how is not None and self.kind is not FactKind.STOPPED:
            raise ValueError(f"has `how`, which belongs to the kind {FactKind.STOPPED} alone")
        for key in _NEEDED:
            if key in MEANINGS[self.kind].keys and getattr(self, key) is None:
                raise ValueError(f"has no {key!r}")

    def concerns(self, node: int) -> bool:
        """Whether the fact may be about a node."""
        return self.nodes is None or node in self.nodes

    @property
    def written(self) -> Collection[str]:
        """The keys of its kind, also where they are null: then they are unknown."""
        return ("kind", "from_ns", "to_ns", *MEANINGS[self.kind].keys)


def as_kafka_writes(config: Mapping[str, object]) -> dict[str, str]:
    """Settings with their values as Kafka writes them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
