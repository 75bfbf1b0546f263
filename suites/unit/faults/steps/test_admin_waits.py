"""Steps about an admin: waits for what it did, and the choice of what a negative control changes behind its back."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from harness.faults.steps import admin_waits as steps
from harness.faults.steps.admin_waits import Meddle, WaitOperations
from harness.faults.steps.registry import check_steps
from harness.faults.steps.step_context import Stage
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
    """A load with an admin, and the observer that meddles."""

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


def stage_of(world: World) -> Stage:
    return Stage(
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


def test_only_what_was_acknowledged_and_left_alone_is_forgotten() -> None:
    world = World(*HISTORY)
    done = Meddle(admin="ops").perform(stage_of(world))
    assert world.carried_out == [(Did.DELETE_TOPIC, "topic b", None)]
    assert done.resolved == {"did": "delete_topic", "entity": "topic b", "value": None}


def test_what_was_unmade_is_restored_as_it_was() -> None:
    world = World(*HISTORY)
    Meddle(admin="ops", how="restore").perform(stage_of(world))
    assert world.carried_out == [(Did.CREATE_TOPIC, "topic c", "3")]


def test_what_nobody_asked_for_is_invented() -> None:
    world = World()
    Meddle(admin="ops", how="invent", what="users").perform(stage_of(world))
    assert world.carried_out == [(Did.SET_USER, "user ops-invented", "4096")]


def test_with_nothing_to_meddle_with_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CHOICE_DEADLINE_S", 0.05)
    with pytest.raises(HarnessTimeout, match="two acknowledged operations create_topic of ops"):
        Meddle(admin="ops").perform(stage_of(World(HISTORY[0])))


def test_operations_before_the_step_do_not_count() -> None:
    world = World(*(replace(o, called_ns=0) for o in HISTORY))
    WaitOperations(admin="ops", operations=3).perform(stage_of(world))
    assert len(world.done) == len(HISTORY) + 3
    with pytest.raises(HarnessTimeout, match=r"1 operations of ops \(refused\)"):
        WaitOperations(admin="ops", outcome="refused", deadline_s=0.05).perform(stage_of(world))


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
        ({"step": 'do = "meddle", admin = "ops", what = "topic"'}, "unknown value 'topic'"),
        ({"step": 'do = "meddle", admin = "ops", what = "configs", how = "invent"'}, "no configs can be invented"),
        (
            {"step": 'do = "meddle", admin = "ops", what = "acls"', "admin": 'does = ["topics"]'},
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
def test_what_cannot_be_is_refused_at_load(case: dict[str, str], reported: str) -> None:
    assert reported in refused(**case)


def test_an_admin_needs_three_brokers() -> None:
    text = SMALL % ('do = "hold", seconds = 1', AUTHORIZED, "") + "[shape]\nbrokers = 2\n"
    with pytest.raises(BadInput, match="an admin's topics have 3 replicas"):
        parse(text.replace("[topics.plain]", "[topics.plain]\nreplicas = 2"), "small", check_steps)


def test_without_acls_no_authorizer_is_needed() -> None:
    scenario = parse(SMALL % ('do = "hold", seconds = 1', "", 'does = ["topics"]'), "small", check_steps)
    assert scenario.admin[0].does == ("topics",)
    assert scenario.admin[0].floors.before == 20
