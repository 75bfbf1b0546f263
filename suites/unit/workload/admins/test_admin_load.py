"""An admin's plan, and the outcomes of its operations: with an answer, without one, and without a broker."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.kafka.admin.operations import refusal, request
from harness.kafka.admin.wire import Unanswered
from harness.model.entities import ALLOWED, FIRST_PAIR, MetadataEntity, Sort
from harness.model.outcome import Did, Outcome
from harness.model.scenario.scenario import Admin
from harness.model.waiting import wait_for
from harness.workload.admins import admin_load
from harness.workload.admins.admin_load import AdminLoop, addresses_of
from harness.workload.admins.admin_plan import Plan, Wanted
from harness.workload.producers.outcomes import ADMIN_VALIDATIONS, NOT_SENT, outcome_of_operation

BOOTSTRAP = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
ENTITIES = {
    Did.CREATE_TOPIC: MetadataEntity(Sort.TOPIC, "ops-topic-1"),
    Did.DELETE_TOPIC: MetadataEntity(Sort.TOPIC, "ops-topic-1"),
    Did.SET_CONFIG: MetadataEntity(Sort.TOPIC_CONFIG, "ops-standing-0", "flush.ms"),
    Did.UNSET_CONFIG: MetadataEntity(Sort.BROKER_CONFIG, "", "max.connections.per.ip"),
    Did.CREATE_ACL: MetadataEntity(Sort.ACL, "ops-acl-1"),
    Did.DELETE_ACL: MetadataEntity(Sort.ACL, "ops-acl-1"),
    Did.SET_USER: MetadataEntity(Sort.USER, "ops-user-1"),
    Did.DELETE_USER: MetadataEntity(Sort.USER, "ops-user-1"),
    Did.REASSIGN: MetadataEntity(Sort.REPLICAS, "ops-standing-0", "3"),
}
DENIED = {"error_code": 0, "matching_acls": [{"error_code": 7}]}
MISSING = {"partitions": [{"error_code": 3}]}
VALUES: Mapping[Did, str] = {Did.CREATE_TOPIC: "7", Did.SET_CONFIG: "7", Did.SET_USER: "4096", Did.REASSIGN: "2,3"}


# --- the plan ---


def planned(count: int, does: tuple[str, ...] = Admin(name="x").does, entities: int = 6) -> list[Wanted]:
    plan = Plan(Admin(name="ops", does=does, entities=entities), 3, Random(1))
    wanted = []
    for _ in range(count):
        wanted.append(plan.next())
        plan.done(wanted[-1])
    return wanted


def test_kinds_of_work_take_turns() -> None:
    sorts = [wanted.metadata_entity.sort for wanted in planned(10)]
    assert sorts[:5] == sorts[5:]
    assert len(set(sorts[:5])) == 5


def test_each_entity_gets_one_to_three_operations_in_turn() -> None:
    names = [wanted.metadata_entity.name for wanted in planned(12, ("topics",))]
    assert names == [f"ops-topic-{n}" for n in (0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 5)]


def test_topics_are_created_and_deleted_in_turn_with_unique_numbers() -> None:
    wanted = planned(600, ("topics",))
    of_one = [(w.did, w.after is None) for w in wanted if w.metadata_entity.name == "ops-topic-2"]
    assert of_one[:4] == [
        (Did.CREATE_TOPIC, False),
        (Did.DELETE_TOPIC, True),
        (Did.CREATE_TOPIC, False),
        (Did.DELETE_TOPIC, True),
    ]
    made = [w.after for w in wanted if w.after is not None]
    assert len(set(made)) == len(made)


def test_no_value_occurs_twice_in_a_row_on_one_entity() -> None:
    was: dict[MetadataEntity, str | None] = {ENTITIES[Did.REASSIGN]: FIRST_PAIR}
    for wanted in planned(2000):
        if wanted.metadata_entity in was and wanted.did is not Did.UNSET_CONFIG:
            assert was[wanted.metadata_entity] != wanted.after
        was[wanted.metadata_entity] = wanted.after


def test_a_refused_operation_does_not_change_the_plan() -> None:
    plan = Plan(Admin(name="ops", does=("acls",), entities=1), 3, Random(1))
    assert plan.next().did is Did.CREATE_ACL
    assert plan.next().did is Did.CREATE_ACL
    plan.done(Wanted(Did.CREATE_ACL, ENTITIES[Did.CREATE_ACL], ALLOWED))


def test_some_topic_settings_are_invalid() -> None:
    values = [w.after for w in planned(400, ("configs",), 20) if w.after is not None]
    invalid = [value for value in values if value.startswith("-")]
    assert 0 < len(invalid) < len(values) / 4


# --- requests and answers ---


@pytest.mark.parametrize("did", Did)
def test_every_operation_has_a_request_that_can_be_encoded(did: Did) -> None:
    question = request(did, ENTITIES[did], VALUES.get(did), 4.0)
    newest = min(question.kind.max_version, question.newest)
    message = question.build(newest)
    message.API_VERSION = newest
    message.with_header(correlation_id=1, client_id="x")
    assert ENTITIES[did].name.encode() in message.encode(header=True, framed=True)


@pytest.mark.parametrize(
    ("did", "answer", "error"),
    [
        (Did.CREATE_TOPIC, {"topics": [{"error_code": 36}]}, "TOPIC_ALREADY_EXISTS"),
        (Did.CREATE_TOPIC, {"topics": [{"error_code": 0}]}, None),
        (Did.CREATE_TOPIC, {"topics": []}, "_NO_ANSWER"),
        (Did.DELETE_TOPIC, {"responses": [{"error_code": 3}]}, "UNKNOWN_TOPIC_OR_PARTITION"),
        (Did.SET_CONFIG, {"responses": [{"error_code": 40}]}, "INVALID_CONFIG"),
        (Did.DELETE_ACL, {"filter_results": [{"error_code": 0, "matching_acls": []}]}, None),
        (Did.DELETE_ACL, {"filter_results": [DENIED]}, "REQUEST_TIMED_OUT"),
        (Did.DELETE_USER, {"results": [{"error_code": 91}]}, "RESOURCE_NOT_FOUND"),
        (Did.REASSIGN, {"error_code": 41, "responses": []}, "NOT_CONTROLLER"),
        (Did.REASSIGN, {"error_code": 0, "responses": [MISSING]}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_an_answer_is_a_success_or_one_error(did: Did, answer: dict[str, Any], error: str | None) -> None:
    assert refusal(did, _object(answer)) == error


def _object(plain: Any) -> Any:
    if isinstance(plain, dict):
        return SimpleNamespace(**{key: _object(value) for key, value in plain.items()})
    return [_object(entry) for entry in plain] if isinstance(plain, list) else plain


def test_an_operation_is_refused_only_if_no_attempt_can_have_done_it() -> None:
    assert outcome_of_operation(None) is Outcome.ACKED
    assert outcome_of_operation(NOT_SENT) is Outcome.REFUSED
    assert {outcome_of_operation(error) for error in ADMIN_VALIDATIONS} == {Outcome.REFUSED}
    doubtful = {"TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION", "RESOURCE_NOT_FOUND", "NOT_CONTROLLER"}
    doubtful |= {"REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "_TIMED_OUT", "_TRANSPORT", "_NO_ANSWER"}
    assert {outcome_of_operation(error) for error in doubtful} == {Outcome.UNKNOWN}


# --- the loop ---


class Table:
    """A table that keeps its rows in memory."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def append(self, row: Mapping[str, Any]) -> None:
        self.rows.append(dict(row))

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Script:
    """The fates of connections, one after another; the last one repeats. A fate is an answer or an exception."""

    def __init__(self, *fates: Any) -> None:
        self.fates = list(fates)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, address: tuple[str, int], give_up_at: float) -> Script:
        self.asked.append(address)
        self.fate = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
        if isinstance(self.fate, ConnectionRefusedError):
            raise self.fate
        return self

    def ask(self, question: Any, give_up_at: float) -> Any:
        if isinstance(self.fate, Exception):
            raise self.fate
        return self.fate

    def close(self) -> None: ...


DONE = _object({"results": [{"error_code": 0}], "filter_results": [{"error_code": 0, "matching_acls": []}]})


@pytest.fixture
def table() -> Table:
    return Table()


def ran(monkeypatch: pytest.MonkeyPatch, table: Table, script: Script, rows: int) -> AdminLoop:
    monkeypatch.setattr(admin_load, "Connection", script)
    spec = Admin(name="ops", does=("acls",), rate_per_s=100, timeout_s=1)
    loop = AdminLoop(spec, BOOTSTRAP, table, Random(1))
    loop.start()
    wait_for(lambda: len(table.rows), until=lambda count: count >= rows, deadline_s=10, what="operations")
    loop.stop()
    assert loop.join(10) is None
    return loop


def test_each_outcome_is_that_of_the_only_attempt(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    fates = (ConnectionRefusedError(), TimeoutError(), ConnectionResetError(), struct.error(), Unanswered(), DONE)
    loop = ran(monkeypatch, table, Script(*fates), 7)
    reported = [(row["outcome"], row["error"]) for row in table.rows[:6]]
    assert reported == [
        ("refused", "_NOT_SENT"),
        ("unknown", "_TIMED_OUT"),
        ("unknown", "_TRANSPORT"),
        ("unknown", "_TRANSPORT"),
        ("refused", "_NOT_SENT"),
        ("acked", None),
    ]
    assert [row["op"] for row in table.rows] == list(range(len(table.rows)))
    assert loop.ended(0, Outcome.UNKNOWN) == 3
    assert loop.ended(table.rows[1]["called_ns"], Outcome.REFUSED) == 1
    assert loop.ended(0) == len(table.rows)
    assert loop.metadata_entity("acl User:ops-acl-0 ALLOW READ TOPIC LITERAL ops-acl-0 from *").sort is Sort.ACL


def test_operations_are_sent_to_the_brokers_in_turn(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    script = Script(DONE)
    ran(monkeypatch, table, script, 6)
    assert script.asked[:4] == [*addresses_of(BOOTSTRAP), ("127.0.0.1", 1)]


def test_an_exception_in_the_thread_is_a_doubt(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    monkeypatch.setattr(admin_load, "Connection", Script(DONE))
    monkeypatch.setattr(table, "append", lambda row: 1 / 0)
    loop = AdminLoop(Admin(name="ops", does=("acls",), rate_per_s=100), BOOTSTRAP, table, Random(1))
    loop.start()
    assert "admin ops died: ZeroDivisionError" in (loop.join(10) or "")
