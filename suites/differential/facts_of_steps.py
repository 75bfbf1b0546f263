"""The facts of steps in evidence before format version 3, which had only their names.

For the comparison of judges, and for histories in tests that name a step: the product refuses such evidence. A test
compares the table with what the classes of the steps declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.faults.steps.declared_facts import Declared, Declares, Happened, bound
from harness.model.facts import Fact, FactKind, Stop, as_kafka_writes

K: Final = FactKind
_LOST: Final = (Declared(K.DATA_LOST, what="unflushed"), Declared(K.COPIES_REBUILT))
_CRASHED: Final = Declared(K.STOPPED, how=Stop.CRASHED)
_KILLED: Final = Declared(K.STOPPED, how=Stop.KILLED)
_KILLED_AT_ONCE: Final = Declared(K.STOPPED, how=Stop.KILLED, at_once=True)
_CLEANLY: Final = Declared(K.STOPPED, how=Stop.CLEANLY, at_once=True)
_MOVED: Final = (Declared(K.COPIES_REBUILT), Declared(K.LEADERS_MOVED))
_NO_QUORUM: Final = Declared(K.QUORUM_LOST, of_controllers=True)
_KILLED_CONTROLLERS: Final = Declared(K.STOPPED, how=Stop.KILLED, of_controllers=True)

FACTS: Final[Mapping[str, Declares]] = {
    "abort_transaction": (Declared(K.TRANSACTION_ABORTED),),
    "alter_topic": (Declared(K.CONFIG_SET),),
    "cancel_reassignment": (Declared(K.COPIES_REBUILT),),
    "clock": (Declared(K.CLOCK_CHANGED),),
    "controller_wiped": (_KILLED_CONTROLLERS, Declared(K.DATA_LOST, what="disk", of_controllers=True)),
    "corrupt_metadata": (Declared(K.ENTITY_CHANGED),),
    "crash_loop": (_KILLED,),
    "create_partitions": (Declared(K.PARTITIONS_ADDED),),
    "cut": (Declared(K.LINKS_CUT),),
    "cut_followers": (Declared(K.LINKS_CUT),),
    "damage": (_KILLED, Declared(K.DISK_DAMAGED), Declared(K.COPIES_REBUILT), _CRASHED),
    "damage_metadata": (_KILLED, Declared(K.METADATA_DAMAGED), Declared(K.COPIES_REBUILT), _CRASHED),
    "damage_object": (Declared(K.TIER_OBJECTS_CHANGED),),
    "delete_group": (Declared(K.GROUP_DELETED),),
    "delete_objects": (Declared(K.TIER_OBJECTS_CHANGED),),
    "delete_records": (Declared(K.RECORDS_DELETED),),
    "disk_failed": (Declared(K.DISK_FAILED), _CRASHED, *_LOST),
    "disk_filled": (Declared(K.DISK_FILLED), _CRASHED),
    "disk_full": (Declared(K.DISK_FILLED), _CRASHED),
    "disk_lies": (Declared(K.FLUSHES_FORGOTTEN),),
    "disk_read_only": (Declared(K.DISK_FAILED), _CRASHED, *_LOST),
    "disk_slow": (Declared(K.DISK_SLOW),),
    "disk_stalled": (Declared(K.DISK_SLOW), _CRASHED),
    "downgrade_refused": (Declared(K.STOPPED, how=Stop.CLEANLY), _KILLED, _CRASHED, Declared(K.DOWNGRADE_TRIED)),
    "elect_preferred": (Declared(K.LEADERS_MOVED),),
    "elect_unclean": (Declared(K.LEADERS_MOVED),),
    "end_transaction": (Declared(K.TRANSACTION_ENDED),),
    "flap": (Declared(K.LINKS_CUT),),
    "hold_frames": (Declared(K.FRAMES_HELD),),
    "isolate": (Declared(K.LINKS_CUT),),
    "failpoint": (Declared(K.STOPPED), Declared(K.FROZEN), Declared(K.DISK_FAILED)),
    "kill": (_KILLED_AT_ONCE,),
    "kill_cleaning": (Declared(K.FROZEN), _KILLED_AT_ONCE),
    "kill_deleting": (_KILLED_AT_ONCE,),
    "lose_answers": (Declared(K.ANSWERS_LOST),),
    "lose_tail": (_KILLED, Declared(K.DATA_LOST, what="tail"), Declared(K.COPIES_REBUILT)),
    "metadata_snapshot": (_KILLED_CONTROLLERS, _NO_QUORUM),
    "move_coordinator": (Declared(K.LEADERS_MOVED),),
    "move_leaders": (Declared(K.LEADERS_MOVED),),
    "move_log_dirs": (Declared(K.COPIES_REBUILT),),
    "redirect_log_dirs": (Declared(K.COPIES_REBUILT),),
    "oom_killed": (_CRASHED,),
    "out_of_memory": (_CRASHED,),
    "pause": (Declared(K.FROZEN),),
    "power_loss": (Declared(K.STOPPED, how=Stop.POWER), *_LOST),
    "processor_dies": (Declared(K.CLIENT_DIED),),
    "quorum_lost": (_KILLED_CONTROLLERS, _NO_QUORUM),
    "raise_features": (Declared(K.FEATURES_RAISED),),
    "reader_away": (Declared(K.CLIENT_AWAY),),
    "reader_dies": (Declared(K.CLIENT_DIED),),
    "reader_killed": (Declared(K.CLIENT_DIED),),
    "reader_paused": (Declared(K.CLIENT_AWAY),),
    "reassign": _MOVED,
    "reassign_away": _MOVED,
    "reconfigure": (Declared(K.CONFIG_TOGGLED),),
    "recreate_topic": (Declared(K.TOPIC_DELETED),),
    "remove_voter": (Declared(K.VOTERS_CHANGED),),
    "replay": (Declared(K.TIER_READ),),
    "restart_reader": (Declared(K.CLIENT_RESTARTED),),
    "roll": (Declared(K.STOPPED, how=Stop.CLEANLY), Declared(K.UPGRADED)),
    "rolling_restart": (Declared(K.STOPPED, how=Stop.CLEANLY),),
    "slow": (Declared(K.LINKS_SLOW),),
    "split": (Declared(K.LINKS_CUT),),
    "terminate": (_CLEANLY,),
    "throttle": (Declared(K.REPLICATION_THROTTLED),),
    "tier_cut": (Declared(K.TIER_UNAVAILABLE),),
    "tier_denied": (Declared(K.TIER_UNAVAILABLE),),
    "tier_errors": (Declared(K.TIER_UNAVAILABLE),),
    "tier_full": (Declared(K.TIER_UNAVAILABLE),),
    "tier_hold": (Declared(K.TIER_UNAVAILABLE),),
    "tier_late": (Declared(K.TIER_UNAVAILABLE),),
    "tier_off": (Declared(K.TIER_LEFT),),
    "tier_outage": (Declared(K.TIER_UNAVAILABLE),),
    "tier_slow": (Declared(K.TIER_SLOW),),
    "tier_swapped": (Declared(K.TIER_UNAVAILABLE),),
    "wait_tiered": (Declared(K.TIER_CAUGHT_UP),),
}
# Steps that are over when they end. All others in the table are faults, which are over when they are healed.
ACTIONS: Final = frozenset(
    {"abort_transaction", "alter_topic", "cancel_reassignment", "corrupt_metadata", "create_partitions", "delete_group"}
    | {
        "delete_objects",
        "delete_records",
        "disk_lies",
        "downgrade_refused",
        "elect_preferred",
        "elect_unclean",
        "end_transaction",
    }
    | {
        "move_coordinator",
        "move_leaders",
        "raise_features",
        "reassign",
        "recreate_topic",
        "redirect_log_dirs",
        "restart_reader",
        "roll",
        "rolling_restart",
    }
    | {"wait_tiered"}
)
# Actions that count as no fault if the cluster was already as they wanted it.
_IDLE: Final = frozenset({"elect_preferred", "reassign"})

Args = Mapping[str, Any]


def _damage(args: Args) -> Declares:
    how = Declared(K.STOPPED, how=Stop(args.get("how", "killed")))
    checkpoints = ("leader_epoch_checkpoint", "start_offset_checkpoint")
    ends = (_CRASHED,) if args.get("by") and args.get("what") in checkpoints else ()
    return (how, *FACTS["damage"][1:3], *ends)


def _damage_metadata(args: Args) -> Declares:
    how = Declared(K.STOPPED, how=Stop(args.get("how", "killed")))
    rebuilt = FACTS["damage_metadata"][2:3] if args.get("what") == "partition_metadata" else ()
    refused = ("meta_properties", "meta_properties_cut", "node_id", "snapshot")
    ends = (_CRASHED,) if args.get("what") in refused else ()
    return (how, FACTS["damage_metadata"][1], *rebuilt, *ends)


def _quorum_lost(args: Args) -> Declares:
    frozen = (Declared(K.FROZEN, of_controllers=True), _NO_QUORUM)
    return frozen if args.get("how") == "pause" else FACTS["quorum_lost"]


def _rolling_restart(args: Args) -> Declares:
    return (Declared(K.STOPPED, how=Stop.KILLED if args.get("how") == "kill" else Stop.CLEANLY),)


def _config(kind: FactKind) -> Callable[[Args], Declares]:
    return lambda args: (Declared(kind, topic=args.get("topic", ""), config=as_kafka_writes(args.get("config") or {})),)


_BY_ARGS: Final[Mapping[str, Callable[[Args], Declares]]] = {
    "damage": _damage,
    "damage_metadata": _damage_metadata,
    "quorum_lost": _quorum_lost,
    "rolling_restart": _rolling_restart,
    "alter_topic": _config(K.CONFIG_SET),
    "reconfigure": _config(K.CONFIG_TOGGLED),
}


def facts_of_step(step: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The facts of a row of steps.json that has none, by its word, its arguments and its nodes."""
    do = step["do"]
    if step.get("started_ns") is None or (do in _IDLE and not step.get("is_fault", True)):
        return ()
    by_args = _BY_ARGS.get(do)
    nodes = (step.get("resolved") or {}).get("nodes")
    happened = Happened(
        started_ns=step["started_ns"],
        ended_ns=step.get("ended_ns"),
        healed_ns=step.get("ended_ns") if do in ACTIONS else step.get("healed_ns"),
        failed=bool(step.get("error")),
        nodes=None if nodes is None else tuple(nodes),
    )
    return tuple(bound(by_args(step.get("args") or {}) if by_args else FACTS.get(do, ()), happened))
