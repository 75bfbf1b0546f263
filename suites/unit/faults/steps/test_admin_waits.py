"""Steps about an admin: waits for its operations, and the entity that a negative control changes."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from harness.faults.steps import admin_waits as steps
from harness.faults.steps.admin_waits import CorruptMetadata, WaitOperations
from harness.faults.steps.registry import check_steps
from harness.faults.steps.step_context import StepContext
from harness.model.clock import now_ns
from harness.model.entities import MetadataEntity, Operation, Sort
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.outcome import Did, Outcome
from harness.model.scenario.rules import AUTHORIZER
from harness.model.scenario.toml import parse


def operation(op: int, kind: Did, name: str, value: str | None, outcome: str = "acked") -> Operation:
    return Operation(
        op=op,
        writer="ops",
        kind=kind.value,
        entity=MetadataEntity(Sort.TOPIC, name).text,
        value=value,
        outcome=outcome,
        called_ns=now_ns(),
        returned_ns=now_ns(),
    )


class World:
    """A load with an admin, and the observer that changes its entities."""

    def __init__(self, *done: Operation) -> None:
        self.done = list(done)
        self.carried_out: list[tuple[Did, str, str | None]] = []

    def operations(self, admin: str) -> list[Operation]:
        assert admin == "ops"
        return self.done

    def operations_ended(self, admin: str, since_ns: int, outcome: Outcome | None = None) -> int:
        self.done.append(operation(len(self.done), Did.CREATE_TOPIC, f"t{len(self.done)}", "7"))
        return sum(o.called_ns >= since_ns and outcome in (None, Outcome(o.outcome)) for o in self.done)

    def metadata_entity(self, admin: str, entity: str) -> MetadataEntity:
        return MetadataEntity(Sort.TOPIC, entity.split()[1])

    def carry_out(self, did: Did, metadata_entity: MetadataEntity, value: str | None) -> None:
        self.carried_out.append((did, metadata_entity.text, value))


def context_of(world: World) -> StepContext:
    return StepContext(
        cluster=cast(Any, None), admin=cast(Any, world), load=cast(Any, world), rng=Random(1), topics=(), say=print
    )


HISTORY = (
    operation(0, Did.CREATE_TOPIC, "a", "1"),
    operation(1, Did.CREATE_TOPIC, "b", "2"),
    operation(2, Did.CREATE_TOPIC, "c", "3"),
    operation(3, Did.DELETE_TOPIC, "c", None),
    operation(4, Did.CREATE_TOPIC, "d", "4"),
    operation(5, Did.DELETE_TOPIC, "d", None),
    operation(6, Did.CREATE_TOPIC, "e", "5"),
    operation(7, Did.CREATE_TOPIC, "f", "6", "unknown"),
)


def test_only_an_acknowledged_entity_that_the_admin_has_left_is_deleted() -> None:
    world = World(*HISTORY)
    done = CorruptMetadata(admin="ops").perform(context_of(world))
    assert world.carried_out == [(Did.DELETE_TOPIC, "topic b", None)]
    assert done.resolved == {"did": "delete_topic", "entity": "topic b", "value": None}


def test_a_deleted_entity_is_restored_with_its_value() -> None:
    world = World(*HISTORY)
    CorruptMetadata(admin="ops", how="restore").perform(context_of(world))
    assert world.carried_out == [(Did.CREATE_TOPIC, "topic c", "3")]


def test_an_entity_that_no_admin_asked_for_is_invented() -> None:
    world = World()
    CorruptMetadata(admin="ops", how="invent", what="users").perform(context_of(world))
    assert world.carried_out == [(Did.SET_USER, "user ops-invented", "4096")]


def test_without_an_entity_to_change_the_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CHOICE_DEADLINE_S", 0.05)
    with pytest.raises(HarnessTimeout, match="two acknowledged operations create_topic of ops"):
        CorruptMetadata(admin="ops").perform(context_of(World(HISTORY[0])))


def test_operations_before_the_step_do_not_count() -> None:
    world = World(*(replace(o, called_ns=0) for o in HISTORY))
    WaitOperations(admin="ops", operations=3).perform(context_of(world))
    assert len(world.done) == len(HISTORY) + 3
    with pytest.raises(HarnessTimeout, match=r"1 operations of ops \(refused\)"):
        WaitOperations(admin="ops", outcome="refused", deadline_s=0.05).perform(context_of(world))


SMALL = """
title = "t"
property = "g"
steps = [{ %s }]
[shape.config]
%s
[topics.plain]
[producers.plain]
topics = ["plain"]
[admin.ops]
%s
"""
AUTHORIZED = "\n".join(f'"{key}" = "{value}"' for key, value in AUTHORIZER.items())


def refused(step: str = 'do = "hold", seconds = 1', config: str = AUTHORIZED, admin: str = "") -> str:
    with pytest.raises(BadInput) as reported:
        parse(SMALL % (step, config, admin), "small", check_steps)
    assert "\n" not in str(reported.value)
    return str(reported.value)


@pytest.mark.parametrize(
    ("case", "reported"),
    [
        ({"step": 'do = "wait_operations", admin = "op"'}, "admin: no admin 'op'; did you mean 'ops'?"),
        ({"step": 'do = "corrupt_metadata", admin = "ops", what = "topic"'}, "unknown value 'topic'"),
        (
            {"step": 'do = "corrupt_metadata", admin = "ops", what = "configs", how = "invent"'},
            "no configs can be invented",
        ),
        (
            {"step": 'do = "corrupt_metadata", admin = "ops", what = "acls"', "admin": 'does = ["topics"]'},
            "what: ops does no acls; add it to `does`",
        ),
        ({"config": ""}, "admin.ops: does has acls, which needs \"authorizer.class.name\""),
        ({"admin": "does = []"}, "admin.ops: does is empty; name some of topics"),
        ({"admin": 'does = ["topcis"]'}, "does = 'topcis'; it is one of topics"),
        ({"admin": 'does = ["topics", "topics"]'}, "names a kind of work twice"),
        ({"admin": "entities = 0"}, "entities = 0"),
        ({"admin": "rate_per_s = 0.0"}, "rate_per_s = 0.0"),
        ({"admin": "floors = { befor = 1 }"}, "did you mean 'before'?"),
    ],
)  # fmt: skip
def test_impossible_arguments_are_refused(case: dict[str, str], reported: str) -> None:
    assert reported in refused(**case)


def test_an_admin_needs_three_brokers() -> None:
    text = SMALL % ('do = "hold", seconds = 1', AUTHORIZED, "") + "[shape]\nbrokers = 2\n"
    with pytest.raises(BadInput, match="an admin's topics have 3 replicas"):
        parse(text.replace("[topics.plain]", "[topics.plain]\nreplicas = 2"), "small", check_steps)


def test_without_acls_no_authorizer_is_needed() -> None:
    scenario = parse(SMALL % ('do = "hold", seconds = 1', "", 'does = ["topics"]'), "small", check_steps)
    assert scenario.admin[0].does == ("topics",)
    assert scenario.admin[0].floors.before == 20
