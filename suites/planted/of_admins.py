"""Plants in what nodes report about an admin's operations, each with its near miss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harness.model.entities import FIRST_PAIR, Operation, settled
from harness.model.finding import Kind
from harness.model.outcome import Did
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Broken, Expected, doubtful, fails, passes
from suites.planted.plants import plant

AFTER_HEALING: Final = ("healed", "drained")
SECOND_NS: Final = 10**9
UNKNOWN_USER: Final = "user ops-user-999 SCRAM-SHA-256"
BROKERS: Final = (1, 2, 3)


@plant
def admin_topic_lost(copy: Copy) -> Expected:
    op = _decisive(copy, Did.CREATE_TOPIC)
    _report(copy, op.entity, None)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_setting_reverted(copy: Copy) -> Expected:
    op = _decisive(copy, Did.SET_CONFIG, of="topic-config")
    _report(copy, op.entity, None)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_reassignment_lost(copy: Copy) -> Expected:
    op = next(op for op in settled(operations(copy.original), Did.REASSIGN) if op.value != FIRST_PAIR)
    _report(copy, op.entity, FIRST_PAIR)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_topic_resurrected(copy: Copy) -> Expected:
    op = _decisive(copy, Did.DELETE_TOPIC)
    _report(copy, op.entity, _value_before(copy.original, op))
    return _fails(Kind.ADMIN_RESURRECTED, op)


@plant
def admin_acl_resurrected(copy: Copy) -> Expected:
    op = _decisive(copy, Did.DELETE_ACL)
    _report(copy, op.entity, _value_before(copy.original, op))
    return _fails(Kind.ADMIN_RESURRECTED, op)


@plant
def admin_user_never_requested(copy: Copy) -> Expected:
    _add_views(copy, UNKNOWN_USER, "4096", AFTER_HEALING)
    return fails([(Kind.ADMIN_PHANTOM.value, None, None, None)], by_documents=True)


@plant
def admin_setting_refused(copy: Copy) -> Expected:
    op = _decisive(copy, Did.SET_CONFIG, of="topic-config")
    _change(copy, op, outcome="refused", error="INVALID_CONFIG")
    return _fails(Kind.ADMIN_PHANTOM, op)


@plant
def metadata_broker_behind(copy: Copy) -> Expected:
    op = _decisive(copy, Did.CREATE_TOPIC)
    _report(copy, op.entity, None, node=2)
    return _fails(Kind.METADATA_DIVERGENCE, op)


@plant
def metadata_controller_behind(copy: Copy) -> Expected:
    op = _decisive(copy, Did.CREATE_ACL)
    _report(copy, op.entity, None, node=101)
    return _fails(Kind.METADATA_DIVERGENCE, op)


# --- near misses ---


@plant
def near_admin_lost_never_answered(copy: Copy) -> Expected:
    op = _decisive(copy, Did.CREATE_TOPIC)
    _change(copy, op, outcome="unknown", error="_TIMED_OUT")
    _report(copy, op.entity, None)
    return passes()


@plant
def near_admin_lost_never_answered_and_effective(copy: Copy) -> Expected:
    _change(copy, _decisive(copy, Did.CREATE_TOPIC), outcome="unknown", error="TOPIC_ALREADY_EXISTS")
    return passes()


@plant
def near_admin_lost_refused(copy: Copy) -> Expected:
    op = _decisive(copy, Did.SET_CONFIG, of="topic-config", first=True)
    _change(copy, op, outcome="refused", error="INVALID_CONFIG")
    _report(copy, op.entity, None)
    return passes()


@plant
def near_admin_lost_changed_again(copy: Copy) -> Expected:
    op = _decisive(copy, Did.SET_USER)
    _another(copy, op, "acked", "16000")
    _report(copy, op.entity, "16000")
    return passes()


@plant
def near_admin_resurrected_never_answered(copy: Copy) -> Expected:
    op = _decisive(copy, Did.DELETE_ACL)
    _change(copy, op, outcome="unknown", error="_TIMED_OUT")
    _report(copy, op.entity, _value_before(copy.original, op))
    return passes()


@plant
def near_admin_resurrected_created_again(copy: Copy) -> Expected:
    op = _decisive(copy, Did.DELETE_ACL)
    _another(copy, op, "acked", _value_before(copy.original, op))
    _report(copy, op.entity, _value_before(copy.original, op))
    return passes()


@plant
def near_admin_phantom_there_before(copy: Copy) -> Expected:
    _add_views(copy, UNKNOWN_USER, "4096", ("start", *AFTER_HEALING))
    return passes()


@plant
def near_metadata_divergence_that_passed(copy: Copy) -> Expected:
    """Only the last snapshot counts."""
    op = _decisive(copy, Did.CREATE_TOPIC)
    copy.change("admin_views", {"value": None}, entity=op.entity, node=2, phase="healed")
    return passes()


@plant
def near_metadata_divergence_in_progress(copy: Copy) -> Expected:
    op = _decisive(copy, Did.SET_USER)
    _another(copy, op, "unknown", "16000")
    _report(copy, op.entity, "16000", node=2)
    return passes()


# --- doubts ---


@plant
def doubt_admin_without_rows(copy: Copy) -> Expected:
    """Without rows of the admin it is unknown which operations caused the values."""
    copy.drop("admin_ops")
    return doubtful("no_operation")


@plant
def doubt_admin_nodes_not_asked(copy: Copy) -> Expected:
    copy.drop("admin_views", phase=AFTER_HEALING)
    return doubtful("no_admin_views")


@plant
def doubt_admin_one_broker_silent(copy: Copy) -> Expected:
    copy.drop("admin_views", phase="drained", node=3)
    return doubtful("admin_unseen")


@plant
def doubt_admin_too_few_operations(copy: Copy) -> Expected:
    with copy.document("scenario") as scenario:
        scenario["admin"][0]["floors"] = dict.fromkeys(("before", "during", "after"), 10**6)
    return doubtful("floor_before", "floor_during", "floor_after")


def _decisive(copy: Copy, did: Did, of: str = "", *, first: bool = False) -> Operation:
    """An acknowledged operation after which no other was tried on its entity; `first`: nor before it."""
    ops = operations(copy.original)
    once = {op.entity for op in ops if sum(other.entity == op.entity for other in ops) == 1}
    return next(op for op in settled(ops, did) if op.entity.startswith(of) and (not first or op.entity in once))


def operations(original: Original) -> list[Operation]:
    """All rows of `admin_ops` in order."""
    return sorted((Operation(**row) for row in original.rows("admin_ops")), key=lambda op: op.op)


def _value_before(original: Original, op: Operation) -> str | None:
    """The value of the entity before the operation."""
    earlier = [o for o in operations(original) if o.entity == op.entity and o.op < op.op and o.value is not None]
    return earlier[-1].value


def _fails(kind: Kind, op: Operation) -> Expected:
    sort, name, *_ = op.entity.split()
    topic = name if sort in ("topic", "topic-config", "replicas") else None
    broken: Broken = (kind.value, topic, None, None)
    return fails([broken], by_documents=True)


def _report(copy: Copy, entity: str, value: str | None, **node: Any) -> None:
    copy.change("admin_views", {"value": value}, entity=entity, phase=AFTER_HEALING, **node)


def _change(copy: Copy, op: Operation, **to: Any) -> None:
    """Changes an operation. The run stopped when exactly the required number was acknowledged, so a copy requires
    one less."""
    copy.change("admin_ops", to, op=op.op, writer=op.writer)
    with copy.document("scenario") as scenario:
        floors = scenario["admin"][0]["floors"]
        floors.update({window: max(0, floor - 1) for window, floor in floors.items()})


def _another(copy: Copy, op: Operation, outcome: str, value: str | None) -> None:
    """One more operation on the entity, shortly before the last snapshot."""
    looked_ns = min(row["asked_ns"] for row in copy.original.rows("admin_views", phase="drained"))
    (row,) = copy.original.rows("admin_ops", op=op.op)
    at = {"called_ns": looked_ns - 2 * SECOND_NS, "returned_ns": looked_ns - SECOND_NS}
    copy.add("admin_ops", [row | at | {"op": 10**6, "outcome": outcome, "value": value, "kind": Did.SET_USER.value}])


def _add_views(copy: Copy, entity: str, value: str, phases: Iterable[str]) -> None:
    rows: list[Row] = [
        copy.original.rows("admin_views", phase=phase, node=node)[0] | {"entity": entity, "value": value}
        for phase in phases
        for node in BROKERS
    ]
    copy.add("admin_views", rows)
