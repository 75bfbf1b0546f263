"""Operations of an admin on real brokers, the answers of every node afterwards, and outcomes without a quorum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView, Seen
from harness.model.entities import ALLOWED, FIRST_PAIR, MetadataEntity, Sort, legal, standing_topics
from harness.model.outcome import Did, Outcome
from harness.model.scenario.rules import AUTHORIZER
from harness.model.scenario.scenario import Admin, ClusterShape, Scenario
from harness.model.waiting import wait_for
from harness.run import broker_state
from harness.run.admin_probe import AdminProbe, clear
from harness.workload.admins.admin_load import AdminLoop
from suites.gate.cluster_probes import RELEASES
from suites.gate.playing import running

pytestmark = pytest.mark.kafka

SPEC = Admin(name="ops", entities=8, rate_per_s=20)
SHAPE = ClusterShape(controllers=3, config=dict(AUTHORIZER))
SCENARIO = Scenario(name="s", title="", property="", shape=SHAPE, admin=(SPEC,))
TOPIC = MetadataEntity(Sort.TOPIC, "ops-topic-3")
ON_CONTROLLERS_TOO = {Sort.TOPIC, Sort.TOPIC_CONFIG, Sort.BROKER_CONFIG, Sort.ACL}


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest, backend: str) -> Iterator[Cluster]:
    with running(backend, SHAPE, request.param) as started:
        yield started


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminView]:
    """An admin client; creates the standing topics, and deletes afterwards whatever an admin has created."""
    with broker_state.observer(cluster) as view:
        view.create_topics(standing_topics(SPEC))
        yield view
        cluster.heal()
        wait_for(view.brokers_up, until=lambda up: up == list(cluster.brokers), deadline_s=60, what="every broker")
        clear(view, SCENARIO)
        assert not [seen for seen in view.entities(SPEC) if seen.value is not None]


def rows_of(admin: AdminView, metadata_entity: MetadataEntity, value: str | None) -> list[Seen]:
    """The rows of an entity, once every node that reports it reports this value."""
    return wait_for(
        lambda: [seen for seen in admin.entities(SPEC) if seen.metadata_entity == metadata_entity],
        until=lambda rows: bool(rows) and {row.value for row in rows} == {value},
        deadline_s=20,
        what=f"{metadata_entity.text} to be {value}",
    )


@pytest.mark.parametrize(
    ("metadata_entity", "steps"),
    [
        (TOPIC, [(Did.CREATE_TOPIC, "1000000007"), (Did.DELETE_TOPIC, None), (Did.CREATE_TOPIC, "1000000008")]),
        (
            MetadataEntity(Sort.TOPIC_CONFIG, "ops-standing-0", "flush.ms"),
            [(Did.SET_CONFIG, "1000000007"), (Did.SET_CONFIG, "1000000008"), (Did.UNSET_CONFIG, None)],
        ),
        (
            MetadataEntity(Sort.BROKER_CONFIG, "", "max.connections.per.ip"),
            [(Did.SET_CONFIG, "1000000007"), (Did.UNSET_CONFIG, None)],
        ),
        (MetadataEntity(Sort.ACL, "ops-acl-1"), [(Did.CREATE_ACL, ALLOWED), (Did.DELETE_ACL, None)]),
        (
            MetadataEntity(Sort.USER, "ops-user-1"),
            [(Did.SET_USER, "4097"), (Did.SET_USER, "4098"), (Did.DELETE_USER, None)],
        ),
        (MetadataEntity(Sort.REPLICAS, "ops-standing-0", "1"), [(Did.REASSIGN, "2,3"), (Did.REASSIGN, "3,1")]),
    ],
    ids=lambda value: value.sort.value if isinstance(value, MetadataEntity) else "",
)
def test_every_node_reports_each_operation(
    admin: AdminView, cluster: Cluster, metadata_entity: MetadataEntity, steps: list[tuple[Did, str | None]]
) -> None:
    nodes = {*cluster.brokers, *(cluster.controllers if metadata_entity.sort in ON_CONTROLLERS_TOO else ())}
    assert {seen.node for seen in admin.entities(SPEC) if seen.metadata_entity == metadata_entity} == nodes
    for did, value in steps:
        admin.carry_out(did, metadata_entity, value)
        assert {seen.node for seen in rows_of(admin, metadata_entity, value)} == nodes


def test_every_broker_reports_entities_that_no_plan_contains(admin: AdminView, cluster: Cluster) -> None:
    for did, metadata_entity, value in (
        (Did.CREATE_TOPIC, MetadataEntity(Sort.TOPIC, "ops-invented"), "7"),
        (Did.CREATE_ACL, MetadataEntity(Sort.ACL, "ops-invented"), ALLOWED),
        (Did.SET_USER, MetadataEntity(Sort.USER, "ops-invented"), "4096"),
    ):
        admin.carry_out(did, metadata_entity, value)
        assert {seen.node for seen in rows_of(admin, metadata_entity, value)} >= set(cluster.brokers)


def test_operations_are_answered_and_every_node_has_a_legal_value(
    admin: AdminView, cluster: Cluster, tmp_path: Path
) -> None:
    bundle = BundleWriter(tmp_path / "bundle")
    clear(admin, SCENARIO)
    looks = AdminProbe(admin, SCENARIO, bundle)
    looks.begin(30)
    loop = AdminLoop(SPEC, cluster.bootstrap(), bundle.table("admin_ops", "ops"), Random(1))
    loop.start()
    wait_for(lambda: loop.ended(0, Outcome.ACKED), until=lambda acked: acked >= 60, deadline_s=60, what="60 operations")
    loop.stop()
    assert loop.join(20) is None
    operations = loop.operations()
    assert {(op.outcome, op.error) for op in operations} <= {("acked", None), ("refused", "INVALID_CONFIG")}
    assert {op.kind for op in operations} >= {did.value for did in Did} - {
        Did.UNSET_CONFIG.value,
        Did.DELETE_USER.value,
    }
    looks.look("drained", {"ops": loop})
    for seen in admin.entities(SPEC):
        mine = [op for op in operations if op.entity == seen.metadata_entity.text]
        first = {FIRST_PAIR} if seen.metadata_entity.sort is Sort.REPLICAS else {None}
        if seen.metadata_entity.key != "min.insync.replicas":  # the standing topics are created with it
            assert seen.value in legal(mine, first, seen.asked_ns, seen.at_ns).values
    bundle.close()
    assert list((tmp_path / "bundle" / "admin_views").glob("ops-drained-*.parquet"))


def test_without_a_quorum_an_operation_is_unknown_and_may_be_done_later(
    admin: AdminView, cluster: Cluster, tmp_path: Path
) -> None:
    """The brokers keep retrying: an operation that timed out is executed when the quorum is back."""
    bundle = BundleWriter(tmp_path / "bundle")
    cluster.kill(*cluster.controllers[:2])
    spec = Admin(name="ops", does=("topics",), rate_per_s=0.1, timeout_s=2.0)
    loop = AdminLoop(spec, cluster.bootstrap(), bundle.table("admin_ops", "ops"), Random(1))
    loop.start()
    wait_for(lambda: loop.ended(0), until=lambda ended: ended >= 1, deadline_s=30, what="an operation")
    loop.stop()
    assert loop.join(20) is None
    cluster.heal()
    first = loop.operations()[0]
    assert (first.outcome, first.error) == ("unknown", "_TIMED_OUT")
    assert first.kind == Did.CREATE_TOPIC.value
    reported = rows_of(admin, MetadataEntity(Sort.TOPIC, "ops-topic-0"), first.value)
    assert legal([first], {None}, reported[0].asked_ns, reported[0].at_ns).values == {None, first.value}
    bundle.close()
