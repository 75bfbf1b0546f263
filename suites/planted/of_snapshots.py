"""Plants in the metadata of nodes: snapshots of the metadata log, and what brokers serve of it."""

from __future__ import annotations

from typing import Any, Final

from harness.model.facts import FactKind
from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Broken, Expected, fails, passes
from suites.planted.plants import damage_metadata, last_partition, plant

_WRONG: Final[Broken] = (Kind.WRONG_SNAPSHOT.value, None, None, None)
_NODE: Final = 3


def _differs(copy: Copy, *entity: str, leftover: bool = False, **values: str | None) -> None:
    """A snapshot of a node has an entity that the log has otherwise."""
    with copy.document("history") as history:
        snapshot: dict[str, Any] = next(row for row in history["snapshots"] if row["node"] == _NODE)
        snapshot["differences"] = 1
        where = {"node": _NODE, "end_offset": snapshot["end_offset"], "entity": list(entity), "leftover": leftover}
        history["differences"] = [where | {"in_snapshot": None, "in_log": None} | values]


@plant
def wrong_snapshot(copy: Copy) -> Expected:
    """It has an earlier value of a setting."""
    setting = ("setting", "topic", "sized", "retention.bytes")
    _differs(copy, *setting, in_snapshot="1", in_log="1048576")
    return fails([_WRONG], by_documents=True)


@plant
def wrong_snapshot_without_a_topic(copy: Copy) -> Expected:
    _differs(copy, "topic", "VbQ3aX8zS9e5gq1cTgQ1Sg", in_log="plain")
    return fails([_WRONG], by_documents=True)


@plant
def near_wrong_snapshot_with_settings_of_a_deleted_topic(copy: Copy) -> Expected:
    """A broker that replays the creation and the deletion of a topic at once keeps its settings."""
    _differs(copy, "setting", "topic", "deleted", "retention.ms", in_snapshot="1", leftover=True)
    return passes()


@plant
def near_wrong_snapshot_on_a_damaged_disk(copy: Copy) -> Expected:
    """A step damaged the metadata of the node."""
    _differs(copy, "topic", "VbQ3aX8zS9e5gq1cTgQ1Sg", in_log="plain")
    damage_metadata(copy, _NODE, "a snapshot")
    return passes()


# --- metadata that a broker serves ---


def _view(cluster: Any) -> Any:
    return next(view for view in cluster["brokers"] if view["broker"] == _NODE)


def _sized(view: Any) -> Any:
    return next(row for row in view["partitions"] if row["topic"] == "sized")


def _described(cluster: Any) -> Any:
    return next(row for row in _view(cluster)["described"] if row["topic"] == "sized")


_STALE: Final[Broken] = (Kind.STALE_METADATA.value, None, None, None)


@plant
def stale_metadata(copy: Copy) -> Expected:
    """The broker has not learned that an ISR is full again."""
    with copy.document("cluster") as cluster:
        _sized(_view(cluster))["isr"].pop()
    return fails([_STALE], by_documents=True)


@plant
def stale_metadata_of_a_setting(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        _view(cluster)["settings"]["sized"]["retention.bytes"] = "1"
    return fails([_STALE], by_documents=True)


@plant
def stale_metadata_of_an_elr(copy: Copy) -> Expected:
    """The broker still takes a replica for eligible that is in sync again."""
    with copy.document("cluster") as cluster:
        row = _described(cluster)
        row["elr"] = row["isr"][:1]
    return fails([_STALE], by_documents=True)


@plant
def stale_metadata_without_a_partition_between_pages(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        _view(cluster)["described"].remove(_described(cluster))
    return fails([_STALE], by_documents=True)


@plant
def stale_metadata_of_a_broker_setting(copy: Copy) -> Expected:
    """The broker applies a setting that no controller has written."""
    with copy.document("cluster") as cluster:
        _view(cluster)["dynamic"][""]["log.cleaner.threads"] = "2"
    return fails([_STALE], by_documents=True)


@plant
def stale_metadata_of_a_feature(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        _view(cluster)["features"]["metadata.version"] -= 1
    return fails([_STALE], by_documents=True)


def _stuck(copy: Copy, waited_s: float) -> None:
    """A broker has applied nothing of plain/0 since its begin; the last fault was healed 10 s before."""
    with copy.document("history") as history:
        states = [row for row in history["changes"] if row["type"] == "partition" and row["topic"] == "plain"]
        first = next(row for row in states if row["partition"] == 0)
    with copy.document("cluster") as cluster:
        view = _view(cluster)
        row = next(row for row in view["partitions"] if (row["topic"], row["partition"]) == ("plain", 0))
        row |= {name: first[name] for name in ("leader", "leader_epoch", "isr")}
        later = {name: view[name] + 100 * 10**9 for name in ("asked_ns", "at_ns")}
        view |= later | {"metadata_offset": first["offset"], "described": None, "features": None, "waited_s": waited_s}
        asked_ns = view["asked_ns"]
    with copy.document("steps") as steps:
        next(step for step in steps if step["is_fault"])["healed_ns"] = asked_ns - 10 * 10**9


@plant
def stale_metadata_of_a_broker_that_was_waited_for(copy: Copy) -> Expected:
    _stuck(copy, 60.1)
    return fails([_STALE], by_documents=True)


@plant
def near_stale_metadata_of_a_broker_soon_after_a_fault(copy: Copy) -> Expected:
    _stuck(copy, 0.2)
    return passes()


@plant
def near_stale_metadata_that_is_about_to_change(copy: Copy) -> Expected:
    """The controllers write the change after the broker was asked."""
    with copy.document("cluster") as cluster:
        row = _sized(_view(cluster))
        isr = row["isr"] = _described(cluster)["isr"] = row["isr"][:-1]
        at_ns = _view(cluster)["at_ns"]
    with copy.document("history") as history:
        states = [r for r in history["changes"] if r["type"] == "partition"]
        last = [r for r in states if r["topic"] == "sized"][-1]
        for nth, now in enumerate((isr, last["isr"]), start=1):
            changed = {"isr": now, "time_ns": at_ns + nth, "partition_epoch": last["partition_epoch"] + nth}
            history["changes"].append(last | changed | {"offset": history["end"], "created": False})
            history["end"] += 1
    return passes()


@plant
def near_stale_metadata_of_an_earlier_topic(copy: Copy) -> Expected:
    """The broker keeps a setting of a deleted topic of the name."""
    with copy.document("history") as history:
        created = next(r for r in history["changes"] if r["type"] == "topic" and r["topic"] == "sized")
        place = {name: created[name] for name in ("time_ns", "offset", "controller_epoch", "from_snapshot")}
        begin = history["changes"].index(created)
        setting = {"type": "config", "kind": "topic", "name": "sized", "key": "flush.ms"}
        earlier = created | {"topic_id": "earlierAAAAAAAAAAAAAAA"}
        history["changes"][begin:begin] = [
            earlier,
            place | setting | {"value": "7"},
            earlier | {"event": "deleted"},
            place | setting | {"value": None},
        ]
    with copy.document("cluster") as cluster:
        _view(cluster)["settings"]["sized"]["flush.ms"] = "7"
    return passes()


# --- producer ids ---


def _next_block(copy: Copy, above: int) -> None:
    """A controller gives another block of producer ids, so far above the last one."""
    with copy.document("history") as history:
        last = history["producer_ids"][-1]
        history["producer_ids"].append(last | {"offset": history["end"] - 1, "next_id": last["next_id"] + above})


@plant
def producer_ids_reused(copy: Copy) -> Expected:
    """The last block is given once more."""
    _next_block(copy, 0)
    return fails([(Kind.PRODUCER_IDS_REUSED.value, None, None, None)], by_documents=True)


@plant
def near_producer_ids_reused_after_a_jump(copy: Copy) -> Expected:
    """A controller leaves ids out."""
    _next_block(copy, 5000)
    return passes()


# --- epochs ---


def _last_state(copy: Copy, **changed: Any) -> None:
    """One more change of plain/0, the last one; a whole state like the one before it but for `changed`."""
    with copy.document("history") as history:
        rows = history["changes"]
        last = next(
            r for r in reversed(rows) if r["type"] == "partition" and (r["topic"], r["partition"]) == ("plain", 0)
        )
        new = {"created": False, "offset": history["end"] - 1, "time_ns": rows[-1]["time_ns"]}
        rows.append(last | new | {name: change(last) for name, change in changed.items()})


@plant
def epoch_regressed_of_a_leader(copy: Copy) -> Expected:
    _last_state(copy, leader_epoch=lambda last: last["leader_epoch"] - 1, partition_epoch=_next_epoch)
    return fails([(Kind.EPOCH_REGRESSED.value, "plain", 0, None)], by_documents=True)


@plant
def epoch_regressed_with_two_leaders(copy: Copy) -> Expected:
    """Two replicas lead in one epoch, one after the other."""
    _last_state(copy, leader=_another_in_sync, partition_epoch=_next_epoch)
    return fails([(Kind.EPOCH_REGRESSED.value, "plain", 0, None)], by_documents=True)


@plant
def epoch_regressed_of_a_partition(copy: Copy) -> Expected:
    """Two changes of the ISR have one partition epoch."""
    _last_state(copy)
    return fails([(Kind.EPOCH_REGRESSED.value, "plain", 0, None)], by_documents=True)


@plant
def epoch_regressed_of_the_quorum(copy: Copy) -> Expected:
    with copy.document("history") as history:
        rows = history["changes"]
        leads = next(r for r in reversed(rows) if r["type"] == "controller" and r["event"] == "leads")
        new = {"controller": leads["controller"] + 1, "offset": history["end"] - 1}
        rows.append(leads | new | {"time_ns": rows[-1]["time_ns"], "controller_epoch": rows[-1]["controller_epoch"]})
    return fails([(Kind.EPOCH_REGRESSED.value, None, None, None)], by_documents=True)


@plant
def near_epoch_regressed_by_a_change_in_one_epoch(copy: Copy) -> Expected:
    """The leader stays, and so does its epoch."""
    _last_state(copy, partition_epoch=_next_epoch)
    return passes()


def _another_in_sync(last: Row) -> int:
    return next(int(replica) for replica in last["isr"] if replica != last["leader"])


def _next_epoch(last: Row) -> int:
    return int(last["partition_epoch"]) + 1


# --- changes that nobody asked for ---

_PHANTOM: Final[Broken] = (Kind.ADMIN_PHANTOM.value, None, None, None)


def _one_more(copy: Copy, like: Row, **changed: Any) -> None:
    """One more change, the last one; like another one but for `changed`."""
    with copy.document("history") as history:
        rows = history["changes"]
        row = next(r for r in reversed(rows) if all(r.get(name) == value for name, value in like.items()))
        last = {"offset": history["end"] - 1, "time_ns": rows[-1]["time_ns"], "from_snapshot": False}
        rows.append(row | last | changed)


def _default_goes(copy: Copy, key: str) -> None:
    _one_more(copy, {"type": "config"}, kind="broker", name="", key=key, value=None)


def _fact(copy: Copy, kind: FactKind, **more: Any) -> None:
    """A step that is no fault did this."""
    with copy.document("steps") as steps:
        step = next(one for one in steps if not one["is_fault"])
        step["facts"].append({"kind": kind.value, "from_ns": step["started_ns"], "to_ns": step["ended_ns"], **more})
        step["effect"] = {"held": True, "because": "the brokers report it", "seen": {}}


def _level(copy: Copy, by: int) -> None:
    """A controller writes another level of metadata.version after the brokers were asked."""
    with copy.document("cluster") as cluster:
        level = cluster["brokers"][0]["features"]["metadata.version"] + by
    _one_more(copy, {"type": "feature"}, feature="metadata.version", level=level)


@plant
def admin_phantom_default_of_all_brokers(copy: Copy) -> Expected:
    """The default is removed, and the brokers would serve writes with one replica in sync."""
    _default_goes(copy, "min.insync.replicas")
    with copy.document("cluster") as cluster:
        for view in cluster["brokers"]:
            view["dynamic"].get("", {}).pop("min.insync.replicas", None)
    return fails([_PHANTOM], by_documents=True)


@plant
def near_admin_phantom_default_that_an_admin_sets(copy: Copy) -> Expected:
    """The admin of the load works with this setting; its own checks judge the result."""
    _default_goes(copy, "max.connections.per.ip")
    with copy.document("cluster") as cluster:
        for view in cluster["brokers"]:
            view["dynamic"].get("", {}).pop("max.connections.per.ip", None)
    return passes()


@plant
def admin_phantom_setting_of_an_internal_topic(copy: Copy) -> Expected:
    """Retention would delete committed offsets."""
    internal = {"type": "config", "kind": "topic", "name": "__consumer_offsets", "key": "cleanup.policy"}
    _one_more(copy, internal, value=None)
    return fails([(Kind.ADMIN_PHANTOM.value, "__consumer_offsets", None, None)], by_documents=True)


@plant
def admin_phantom_setting_of_a_topic(copy: Copy) -> Expected:
    """After all reads a controller changes a setting."""
    of_plain = {"kind": "topic", "name": "plain", "key": "segment.jitter.ms", "value": "7"}
    _one_more(copy, {"type": "config"}, **of_plain)
    with copy.document("cluster") as cluster:
        for view in cluster["brokers"]:
            view["settings"].get("plain", {})["segment.jitter.ms"] = "7"
    return fails([(Kind.ADMIN_PHANTOM.value, "plain", None, None)], by_documents=True)


@plant
def admin_phantom_lower_feature_level(copy: Copy) -> Expected:
    _level(copy, -1)
    return fails([_PHANTOM], by_documents=True)


@plant
def near_admin_phantom_higher_feature_level_in_an_upgrade(copy: Copy) -> Expected:
    _fact(copy, FactKind.FEATURES_RAISED)
    _level(copy, 1)
    return passes()


@plant
def admin_lost_feature_level(copy: Copy) -> Expected:
    """A step raised levels and saw them, and the metadata log does not have them."""
    _fact(copy, FactKind.FEATURES_RAISED)
    return fails([(Kind.ADMIN_LOST.value, None, None, None)], by_documents=True)


def _elects_in_vain(copy: Copy, *, error: str | None = "ELECTION_NOT_NEEDED", in_sync: bool = True) -> None:
    """A step had the first replica of plain/0 elected, and half a minute later another one leads."""
    states = copy.original.documents["cluster"]["snapshots"][-1]["partitions"]
    state = next(one for one in states if (one["topic"], one["partition"]) == ("plain", 0))
    preferred, other, *_ = state["replicas"]
    event = {"topic": "plain", "partition": 0}
    event |= {"kind": "election_in_vain", "error": error, "leader": other, "preferred": preferred, "waited_s": 30.0}
    with copy.document("steps") as steps:
        step = next(one for one in steps if not one["is_fault"])
        step["events"].append(event | {"isr": [preferred, other] if in_sync else [other], "at_ns": step["ended_ns"]})


@plant
def admin_lost_election(copy: Copy) -> Expected:
    _elects_in_vain(copy)
    return fails([(Kind.ADMIN_LOST.value, "plain", 0, None)], by_documents=True)


@plant
def near_admin_lost_election_of_a_replica_out_of_sync(copy: Copy) -> Expected:
    _elects_in_vain(copy, in_sync=False)
    return passes()


@plant
def near_admin_lost_refused_election(copy: Copy) -> Expected:
    _elects_in_vain(copy, error="PREFERRED_LEADER_NOT_AVAILABLE")
    return passes()


def _topic_goes(copy: Copy) -> None:
    """After all reads a controller deletes a topic."""
    _one_more(copy, {"type": "topic", "topic": "plain"}, event="deleted")
    with copy.document("cluster") as cluster:
        for view in cluster["brokers"]:
            for rows in (view["partitions"], view["described"]):
                rows[:] = [row for row in rows if row["topic"] != "plain"]
            view["settings"].pop("plain", None)


@plant
def admin_phantom_deletion(copy: Copy) -> Expected:
    _topic_goes(copy)
    return fails([(Kind.ADMIN_PHANTOM.value, "plain", None, None)], by_documents=True)


# --- partitions without a leader ---


def _without_leader(copy: Copy, lasts_ns: int) -> None:
    """For so long plain/0 has no leader, and all of its replicas in sync run."""
    with copy.document("history") as history:
        rows, end = history["changes"], history["end"]
        last = next(
            r for r in reversed(rows) if r["type"] == "partition" and (r["topic"], r["partition"]) == ("plain", 0)
        )
        begin_ns = rows[-1]["time_ns"]
        for nth, (leader, time_ns) in enumerate(((-1, begin_ns), (last["leader"], begin_ns + lasts_ns))):
            epochs = {name: last[name] + nth + 1 for name in ("leader_epoch", "partition_epoch")}
            rows.append(last | epochs | {"leader": leader, "created": False, "offset": end + nth, "time_ns": time_ns})
        history["end"] = end + 2


@plant
def unavailable_without_a_leader(copy: Copy) -> Expected:
    _without_leader(copy, 6 * 10**9)
    return fails([(Kind.UNAVAILABLE.value, "plain", 0, None)], by_documents=True)


@plant
def near_unavailable_without_a_leader_for_a_moment(copy: Copy) -> Expected:
    """Clocks of two controllers may differ by that."""
    _without_leader(copy, 4 * 10**9)
    return passes()


def _dead(copy: Copy, before_s: float) -> None:
    """A broker that the controllers never fenced ended so long before their last change."""
    with copy.document("history") as history:
        rows = history["changes"]
        fenced = {row["broker"] for row in rows if row["type"] == "broker" and row["event"] == "fenced"}
        at_ns = rows[-1]["time_ns"] - int(before_s * 10**9)
    (broker, *_) = {1, 2, 3} - fenced
    with copy.document("steps") as steps:
        step = next(one for one in steps if one["is_fault"])
        fact = {"kind": FactKind.STOPPED.value, "nodes": [broker], "how": "killed"}
        step["facts"].append(fact | {"from_ns": at_ns, "to_ns": at_ns})


@plant
def unavailable_behind_a_dead_broker(copy: Copy) -> Expected:
    _dead(copy, 25)
    return fails([(Kind.UNAVAILABLE.value, None, None, None)], by_documents=True)


@plant
def near_unavailable_behind_a_broker_that_died_just_now(copy: Copy) -> Expected:
    _dead(copy, 10)
    return passes()


def _serves(copy: Copy, topic: str, key: str, value: str) -> None:
    """The brokers report this value at the end."""
    with copy.document("cluster") as cluster:
        for snapshot in cluster["snapshots"]:
            if snapshot["phase"] != "start":
                snapshot["topic_configs"][topic][key] = value


def _sets(copy: Copy, *, fails: bool = False) -> None:
    """A step gives plain a setting, long before the end."""
    with copy.document("steps") as steps:
        step = next(one for one in steps if not one["is_fault"])
        step["error"] = "no answer" if fails else None
        fact = {"kind": FactKind.CONFIG_SET.value, "topic": "plain", "config": {"segment.ms": "5000"}}
        step["facts"].append(fact | {"from_ns": step["started_ns"], "to_ns": step["ended_ns"]})


@plant
def admin_lost_setting_of_a_creation(copy: Copy) -> Expected:
    _serves(copy, "sized", "segment.bytes", "1073741824")
    return fails([(Kind.ADMIN_LOST.value, "sized", None, None)], by_documents=True)


@plant
def admin_lost_setting_of_a_step(copy: Copy) -> Expected:
    _sets(copy)
    return fails([(Kind.ADMIN_LOST.value, "plain", None, None)], by_documents=True)


@plant
def near_admin_lost_setting_of_a_failed_step(copy: Copy) -> Expected:
    _sets(copy, fails=True)
    return passes()


@plant
def admin_lost_replica(copy: Copy) -> Expected:
    """A partition lost a replica that no step took away; those that are left are in sync."""
    with copy.document("cluster") as cluster:
        state = last_partition(cluster, "plain", 1)
        gone = next(broker for broker in state["replicas"] if broker != state["leader"])
        for key in ("replicas", "isr"):
            state[key] = [broker for broker in state[key] if broker != gone]
    return fails([(Kind.ADMIN_LOST.value, "plain", 1, None)], by_documents=True)


@plant
def near_admin_lost_replica_that_is_named_last(copy: Copy) -> Expected:
    """A move gave the replicas another order, and took none away."""
    with copy.document("cluster") as cluster:
        state = last_partition(cluster, "plain", 1)
        state["replicas"] = [*state["replicas"][1:], state["replicas"][0]]
    return passes()


@plant
def near_admin_lost_setting_in_another_form(copy: Copy) -> Expected:
    _serves(copy, "sized", "segment.bytes", "1048576.0")
    return passes()
