"""The entities of an admin, and the states in which each may legally be found, for every order of outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.entities import (
    LATE_NS,
    Legal,
    MetadataEntity,
    Operation,
    Sort,
    entities_of,
    legal,
    settled,
    standing_topics,
)
from harness.model.outcome import Did
from harness.model.scenario.scenario import Admin

SECOND_NS = 10**9


def operations(text: str) -> list[Operation]:
    """Operations of 1 s, one after another: "a1" acknowledged, "u2" without an answer, "r3" refused, "a-" deletes."""
    outcomes = {"a": "acked", "u": "unknown", "r": "refused"}
    return [
        Operation(
            op=n,
            writer="ops",
            kind=(Did.DELETE_USER if word[1:] == "-" else Did.SET_USER).value,
            entity="user ops-user-1",
            value=None if word[1:] == "-" else word[1:],
            outcome=outcomes[word[0]],
            called_ns=n * SECOND_NS,
            returned_ns=(n + 1) * SECOND_NS - 1,
        )
        for n, word in enumerate(text.split())
    ]


def found(text: str, at_s: float = 1000.0, before: str | None = None) -> Legal:
    at_ns = int(at_s * SECOND_NS)
    return legal(operations(text), {before}, at_ns, at_ns)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {None}),
        ("a1", {"1"}),
        ("a1 a2", {"2"}),
        ("a1 a-", {None}),
        ("a1 u2", {"1", "2"}),
        ("a1 u-", {"1", None}),
        ("a1 r2", {"1"}),
        ("u1", {None, "1"}),
        ("u1 a2", {"1", "2"}),  # the first may be carried out after the second
        ("u1 u2 a-", {"1", "2", None}),
        ("a1 u2 a3 a4", {"2", "4"}),
        ("r1 r2", {None}),
    ],
)
def test_legal_values(text: str, values: set[str | None]) -> None:
    assert found(text).values == values


def test_the_first_value_is_legal_until_an_operation_is_acknowledged() -> None:
    assert found("", before="7").values == {"7"}
    assert found("u1", before="7").values == {"1", "7"}
    assert found("u1 a2", before="7").values == {"1", "2"}


def test_an_operation_without_an_answer_cannot_take_effect_after_its_limit() -> None:
    late_s = LATE_NS / SECOND_NS
    ops = operations("u1 a2")
    for begun_s, values in ((late_s - 1, {"1", "2"}), (late_s + 1, {"2"})):
        called_ns = int(begun_s * SECOND_NS)
        second = [replace(ops[1], called_ns=called_ns, returned_ns=called_ns + 1)]
        assert legal([ops[0], *second], {None}, 10**12, 10**12).values == values


def test_a_fault_may_delay_a_request() -> None:
    """A broker that was paused processes the request when it resumes, long after its sender gave up."""
    ops = [operations("u1")[0], *operations("a0 a2")[1:]]
    late = replace(ops[1], called_ns=2 * LATE_NS, returned_ns=2 * LATE_NS + 1)
    at_ns = 10 * LATE_NS
    assert legal([ops[0], late], {None}, at_ns, at_ns).values == {"2"}
    assert legal([ops[0], late], {None}, at_ns, at_ns, calm_ns=2 * LATE_NS).values == {"1", "2"}
    assert not legal([ops[0], late], {None}, at_ns, at_ns, calm_ns=2 * LATE_NS).moving


def test_two_overlapping_operations_may_take_effect_in_either_order() -> None:
    first, second = operations("a1 a2")
    beside = replace(second, called_ns=first.called_ns, writer="other")
    assert legal([first, beside], {None}, 10**12, 10**12).values == {"1", "2"}


def test_an_operation_after_the_question_does_not_count() -> None:
    assert found("a1 a2", at_s=1.0).values == {"1", "2"}  # the second began at that moment
    assert found("a1 a2", at_s=0.9999999995).values == {"1"}
    assert found("a1", at_s=0.5).values == {None, "1"}  # under way


def test_an_operation_may_be_under_way() -> None:
    assert not found("a1").moving
    assert found("a1 u2", at_s=5).moving
    assert not found("a1 u2", at_s=5 + LATE_NS / SECOND_NS).moving
    assert found("a1", at_s=0.5).moving


def test_the_decisive_one_is_the_last_that_was_acknowledged() -> None:
    decisive = found("a1 a2 u3").decisive
    assert decisive is not None
    assert decisive.op == 1
    assert found("u1").decisive is None


def test_settled_operations_are_the_last_ones_on_their_entities() -> None:
    ops = operations("a1 a2")
    assert [op.op for op in settled(ops, Did.SET_USER)] == [1]
    assert settled(operations("a1 u2"), Did.SET_USER) == []
    assert [op.op for op in settled(operations("a1 r2"), Did.SET_USER)] == [0]
    assert settled(operations("a1 a-"), Did.SET_USER) == []
    assert [op.op for op in settled(operations("a1 a-"), Did.DELETE_USER)] == [1]


def test_every_entity_has_a_text_of_its_own() -> None:
    entities = [
        metadata_entity for work in entities_of(Admin(name="ops", entities=40)).values() for metadata_entity in work
    ]
    assert len({metadata_entity.text for metadata_entity in entities}) == len(entities) == 4 * 40 + 43
    assert {metadata_entity.text.split()[0] for metadata_entity in entities} == {sort.value for sort in Sort}
    assert MetadataEntity(Sort.REPLICAS, "ops-standing-0", "3").text == "replicas ops-standing-0 3"
    assert (
        MetadataEntity(Sort.BROKER_CONFIG, "", "max.connections.per.ip").text
        == "broker-config all max.connections.per.ip"
    )


@pytest.mark.parametrize("entities", [1, 7, 8, 32, 300])
def test_standing_topics_have_room_for_all_settings_and_partitions(entities: int) -> None:
    admin = Admin(name="ops", entities=entities)
    names = {topic.name: topic.partitions for topic in standing_topics(admin)}
    for metadata_entity in entities_of(admin)["reassignments"]:
        assert int(metadata_entity.key) < names[metadata_entity.name]
    assert len(entities_of(admin)["reassignments"]) == entities
    assert {t.name for t in entities_of(admin)["configs"] if t.name} <= names.keys()


def test_an_admin_does_only_the_work_in_its_list() -> None:
    assert list(entities_of(Admin(name="ops", does=("users", "topics")))) == ["users", "topics"]
