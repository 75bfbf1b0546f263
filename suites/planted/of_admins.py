"""Plants in what nodes tell of an admin's operations, each beside its near miss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harness.model.entities import FIRST_PAIR, Operation, settled
from harness.model.finding import Kind
from harness.model.outcome import Did
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Broken, Expected, doubtful, fails, passes
from suites.planted.plants import plant

AFTERWARDS: Final = ("healed", "drained")
SECOND_NS: Final = 10**9
STRANGE: Final = "user ops-user-999 SCRAM-SHA-256"
BROKERS: Final = (1, 2, 3)


@plant
def admin_topic_forgotten(copy: Copy) -> Expected:
    op = _settled(copy, Did.CREATE_TOPIC)
    _tell(copy, op.entity, None)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_setting_as_it_was_before(copy: Copy) -> Expected:
    op = _settled(copy, Did.SET_CONFIG, of="topic-config")
    _tell(copy, op.entity, None)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_reassignment_forgotten(copy: Copy) -> Expected:
    op = next(op for op in settled(operations(copy.original), Did.REASSIGN) if op.value != FIRST_PAIR)
    _tell(copy, op.entity, FIRST_PAIR)
    return _fails(Kind.ADMIN_LOST, op)


@plant
def admin_topic_resurrected(copy: Copy) -> Expected:
    op = _settled(copy, Did.DELETE_TOPIC)
    _tell(copy, op.entity, _was(copy.original, op))
    return _fails(Kind.ADMIN_RESURRECTED, op)


@plant
def admin_acl_resurrected(copy: Copy) -> Expected:
    op = _settled(copy, Did.DELETE_ACL)
    _tell(copy, op.entity, _was(copy.original, op))
    return _fails(Kind.ADMIN_RESURRECTED, op)


@plant
def admin_user_invented(copy: Copy) -> Expected:
    _add_views(copy, STRANGE, "4096", AFTERWARDS)
    return fails([(Kind.ADMIN_PHANTOM.value, None, None, None)], by_documents=True)


@plant
def admin_setting_that_was_refused(copy: Copy) -> Expected:
    op = _settled(copy, Did.SET_CONFIG, of="topic-config")
    _change(copy, op, outcome="refused", error="INVALID_CONFIG")
    return _fails(Kind.ADMIN_PHANTOM, op)


@plant
def metadata_broker_behind(copy: Copy) -> Expected:
    op = _settled(copy, Did.CREATE_TOPIC)
    _tell(copy, op.entity, None, node=2)
    return _fails(Kind.METADATA_DIVERGENCE, op)


@plant
def metadata_controller_behind(copy: Copy) -> Expected:
    op = _settled(copy, Did.CREATE_ACL)
    _tell(copy, op.entity, None, node=101)
    return _fails(Kind.METADATA_DIVERGENCE, op)


# --- near misses ---


@plant
def near_admin_lost_never_answered(copy: Copy) -> Expected:
    op = _settled(copy, Did.CREATE_TOPIC)
    _change(copy, op, outcome="unknown", error="_TIMED_OUT")
    _tell(copy, op.entity, None)
    return passes()


@plant
def near_admin_lost_never_answered_and_done(copy: Copy) -> Expected:
    _change(copy, _settled(copy, Did.CREATE_TOPIC), outcome="unknown", error="TOPIC_ALREADY_EXISTS")
    return passes()


@plant
def near_admin_lost_refused(copy: Copy) -> Expected:
    op = _settled(copy, Did.SET_CONFIG, of="topic-config", first=True)
    _change(copy, op, outcome="refused", error="INVALID_CONFIG")
    _tell(copy, op.entity, None)
    return passes()


@plant
def near_admin_lost_changed_again(copy: Copy) -> Expected:
    op = _settled(copy, Did.SET_USER)
    _another(copy, op, "acked", "16000")
    _tell(copy, op.entity, "16000")
    return passes()


@plant
def near_admin_resurrected_never_answered(copy: Copy) -> Expected:
    op = _settled(copy, Did.DELETE_ACL)
    _change(copy, op, outcome="unknown", error="_TIMED_OUT")
    _tell(copy, op.entity, _was(copy.original, op))
    return passes()


@plant
def near_admin_resurrected_made_again(copy: Copy) -> Expected:
    op = _settled(copy, Did.DELETE_ACL)
    _another(copy, op, "acked", _was(copy.original, op))
    _tell(copy, op.entity, _was(copy.original, op))
    return passes()


@plant
def near_admin_phantom_there_before(copy: Copy) -> Expected:
    _add_views(copy, STRANGE, "4096", ("start", *AFTERWARDS))
    return passes()


@plant
def near_metadata_divergence_that_passed(copy: Copy) -> Expected:
    """The last look counts."""
    op = _settled(copy, Did.CREATE_TOPIC)
    copy.change("admin_views", {"value": None}, entity=op.entity, node=2, phase="healed")
    return passes()


@plant
def near_metadata_divergence_under_way(copy: Copy) -> Expected:
    op = _settled(copy, Did.SET_USER)
    _another(copy, op, "unknown", "16000")
    _tell(copy, op.entity, "16000", node=2)
    return passes()


# --- doubts ---


@plant
def doubt_admin_without_rows(copy: Copy) -> Expected:
    """Whatever is there then, nobody knows who asked for it."""
    copy.drop("admin_ops")
    return doubtful("no_operation")


@plant
def doubt_admin_never_looked_after(copy: Copy) -> Expected:
    copy.drop("admin_views", phase=AFTERWARDS)
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


def _settled(copy: Copy, did: Did, of: str = "", *, first: bool = False) -> Operation:
    """An acknowledged operation after which nothing was tried on its thing; `first`: nor before."""
    ops = operations(copy.original)
    once = {op.entity for op in ops if sum(other.entity == op.entity for other in ops) == 1}
    return next(op for op in settled(ops, did) if op.entity.startswith(of) and (not first or op.entity in once))


def operations(original: Original) -> list[Operation]:
    """All rows of `admin_ops` in order."""
    return sorted((Operation(**row) for row in original.rows("admin_ops")), key=lambda op: op.op)


def _was(original: Original, op: Operation) -> str | None:
    """What the thing was before the operation."""
    earlier = [o for o in operations(original) if o.entity == op.entity and o.op < op.op and o.value is not None]
    return earlier[-1].value


def _fails(kind: Kind, op: Operation) -> Expected:
    sort, name, *_ = op.entity.split()
    topic = name if sort in ("topic", "topic-config", "replicas") else None
    broken: Broken = (kind.value, topic, None, None)
    return fails([broken], by_documents=True)


def _tell(copy: Copy, entity: str, value: str | None, **node: Any) -> None:
    copy.change("admin_views", {"value": value}, entity=entity, phase=AFTERWARDS, **node)


def _change(copy: Copy, op: Operation, **to: Any) -> None:
    """The run went on until just as many were acknowledged as its floors want: of a copy, one less is wanted."""
    copy.change("admin_ops", to, op=op.op, writer=op.writer)
    with copy.document("scenario") as scenario:
        floors = scenario["admin"][0]["floors"]
        floors.update({window: max(0, floor - 1) for window, floor in floors.items()})


def _another(copy: Copy, op: Operation, outcome: str, value: str | None) -> None:
    """One more operation on the thing, shortly before the last look."""
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
