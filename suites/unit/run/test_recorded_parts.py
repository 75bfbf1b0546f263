"""The names of what a run has written, from its documents and its tables."""

from __future__ import annotations

from typing import Any

from harness.evidence import BundleWriter
from harness.model.contract.contract import contract_of
from harness.model.documents.cluster import BrokerView, ClusterReports
from harness.model.documents.run import GroupsAtRest, Run
from harness.model.scenario.scenario import Scenario
from harness.run.recorded_parts import recorded_parts


def run(**more: Any) -> Run:
    return Run(finished=True, contract=contract_of(Scenario(name="s", title="", property="")), **more)


def test_a_run_that_wrote_nothing_names_nothing() -> None:
    assert recorded_parts(run(), None, []) == ()


def test_keys_that_are_null_or_empty_are_not_named() -> None:
    view = BrokerView(broker=1, asked_ns=1, at_ns=2, metadata_offset=1, partitions=(), settings={})
    reported = ClusterReports(snapshots=(), lineages=(), brokers=(view,), group_answers=())
    found = recorded_parts(run(exits=(), groups_at_rest=GroupsAtRest(), groups_resume=True), reported, [])
    assert found == (
        "cluster.json: brokers",
        "run.json: exits",
        "run.json: groups_at_rest",
        "run.json: groups_resume",
    )


def test_the_samples_of_each_broker_are_named_and_of_other_tables_the_table() -> None:
    written = [("positions", "broker-1"), ("positions", "broker-3"), ("lookups", "a"), ("lookups", "b")]
    assert recorded_parts(run(), None, written) == (
        "lookups",
        "positions",
        "positions/broker-1",
        "positions/broker-3",
    )


def test_columns_are_named_with_their_table_and_the_history_if_the_run_wrote_it() -> None:
    found = recorded_parts(run(has_history=True), None, [("ledger", "p"), ("observations", "r")])
    assert found == (
        "history.json",
        "ledger",
        "ledger.offset",
        "observations",
        "observations.given_ns",
        "observations.previous_offset",
    )


def test_a_writer_without_rows_is_not_named(tmp_path: Any) -> None:
    bundle = BundleWriter(tmp_path)
    bundle.table("positions", "broker-1")
    row = {"topic": "t", "topic_id": "T", "partition": 0, "epoch": 1, "asked_ns": 1}
    bundle.table("epoch_ends", "all").append(row)
    bundle.close()
    assert bundle.with_rows() == [("epoch_ends", "all")]
