"""Every doubt, on a history without other defects."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.faults.steps import step_runner
from harness.model.doubt_names import DoubtOrigin
from harness.model.finding import Kind
from harness.model.history.changes import Problem, ProblemKind
from harness.model.verdict import Status, Verdict
from harness.verify.engine import inputs
from harness.verify.promise import declared, parameters
from suites.verify.edits import contract, run_finished, start_at, stuck
from suites.verify.history import START_NS, Built, History
from suites.verify.judging import JUDGE, HistoryBatch, few_queries, steps_of, verdicts
from suites.verify.metadata import Metadata


def changed(*edits: Callable[[Built], object]) -> Built:
    built = History("AAAA").build()
    for edit in edits:
        edit(built)
    return built


def run(**more: Any) -> Built:
    return changed(lambda built: built.run.update(more))


def without(table: str, **wanted: Any) -> Built:
    return History("AAAA").build().drop(table, **wanted)


def partition(**more: Any) -> Built:
    return changed(lambda built: built.drained["partitions"][0].update(more))


def floors(before: int = 0, during: int = 0, after: int = 0) -> Built:
    return run(floors={"before": before, "during": during, "after": after}, targets=[["t", 0]])


def configured(**settings: str) -> Built:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return changed(lambda built: built.cluster["snapshots"][0].update(topic_configs={"t": dotted}))


def stopped(reset: str, committed: int | None = None) -> Built:
    """A member of a group received only the first record, and refused to start anywhere else."""
    built = floors(after=1)
    built.run["windows"]["after"][0] = built.rows("ledger")[2]["called_ns"]
    built.scenario["readers"] = [{"name": "grouped", "group": "g", "topics": ["t"]}]
    for offset in (1, 2, 3):
        built.drop("observations", reader="grouped", offset=offset)
    row = {"group": "g", "reader": "grouped", "topic": "t", "partition": 0, "committed": committed, "began": None}
    built.cluster["group_resets"] = [row | {"at_ns": built.run["ended_ns"]}]
    member = {"reader": "grouped", "group": "g", "at_most_once": False, "reset": reset}
    built.run["contract"]["readers"] = {"grouped": member}
    return built


RESTLESS = {"ok": False, "waited_s": 90.0, "last_seen": "group g is Stable"}
NOT_BACK: dict[str, Any] = {"ok": False, "waited_s": 90, "last_seen": "t-0 isr [1]"}


def recorded(metadata: Metadata) -> Built:
    return changed(lambda built: setattr(built, "metadata", metadata.history()))


def with_problem(kind: ProblemKind, high_watermark: int | None = None) -> Built:
    problem = Problem(kind=kind, node=2, offset=3, detail="the checksum is wrong")
    return recorded(Metadata(problems=[problem], high_watermark=high_watermark))


SILENT: dict[str, Any] = {"ok": None, "waited_s": 0, "last_seen": "not asked"}

# name -> (history, names of the doubts)
CASES: dict[str, tuple[Built, list[str]]] = {
    "none": (History("AAAA").build(), []),
    "floors that are met": (floors(before=4, after=4), []),
    "a reader with auto.offset.reset=error stopped without an offset": (stopped("error"), []),
    "a reader with auto.offset.reset=error stopped although it had an offset": (
        stopped("error", committed=1),
        ["reader_behind"],
    ),
    "a reader with auto.offset.reset=latest stopped": (stopped("latest"), ["reader_behind"]),
    "too little before": (floors(before=5), ["floor_before"]),
    "too little during": (floors(during=1), ["floor_during"]),
    "too little after": (floors(after=5), ["floor_after"]),
    "too little before on a partition that was added later": (
        floors(before=5).event("partitions_added", partition=0, partitions=1),
        [],
    ),
    "too little after on a partition that was added": (
        floors(after=5).event("partitions_added", partition=0, partitions=1),
        ["floor_after"],
    ),
    "found while running": (run(doubts=[{"name": "reader_died", "text": "reader live died"}]), ["reader_died"]),
    "a group's offsets were never stable": (
        changed(lambda b: [row.update(stable=False) for row in b.drained["groups"]]),
        ["no_group_offsets"],
    ),
    "a fault without effect": (
        changed(lambda b: b.steps[0].update(effect={"held": False, "because": "no", "seen": {}})),
        ["no_effect"],
    ),
    "a fault without effect, which the run reported": (
        changed(
            lambda b: b.steps[0].update(effect={"held": False, "because": "no", "seen": {}}),
            lambda b: b.run.update(
                doubts=[{"name": d.name, "text": d.text} for d in step_runner.doubts(steps_of(b.steps))]
            ),
        ),
        ["no_effect"],
    ),
    "a fault without a report of its effect, which the run reported": (
        changed(
            lambda b: b.steps[0].update(effect=None),
            lambda b: b.run.update(
                doubts=[{"name": d.name, "text": d.text} for d in step_runner.doubts(steps_of(b.steps))]
            ),
        ),
        ["no_effect"],
    ),
    "a fault without effect, beside the text of another one": (
        changed(
            lambda b: b.steps[0].update(effect={"held": False, "because": "no", "seen": {}}),
            lambda b: b.run.update(doubts=[{"name": "no_effect", "text": "step kill of another run had none"}]),
        ),
        ["no_effect", "no_effect"],
    ),
    "a fault without a report of its effect": (changed(lambda b: b.steps[0].update(effect=None)), ["no_effect"]),
    "an action needs no effect": (changed(lambda b: b.steps[0].update(effect=None, is_fault=False)), []),
    "unfinished": (run_finished(History("AAAA").build(), finished=False), ["unfinished"]),
    "the drain is stuck": (stuck(History("AAAA").build(), 2), ["not_read", "not_reached", "not_reached"]),
    "a replica's read is stuck": (
        changed(lambda b: b.reads[3].update(reached=False, stuck_reason="broker 1 served it")),
        ["not_reached"],
    ),
    "a read claims to have reached its target and did not": (
        changed(lambda b: b.reads[3].update(target=9)),
        ["not_reached"],
    ),
    "no record was acknowledged": (History("uu").build(), ["empty_ledger", "reader_saw_nothing", "empty_drain"]),
    "no drain": (
        changed(lambda b: b.drop("observations", kind="drain"), lambda b: b.reads.clear()),
        ["empty_drain", "not_read", "no_drain", "copy_not_read", "copy_not_read"],
    ),
    "no drain with the isolation of a live reader": (
        changed(
            lambda b: b.drop("observations", reader="leader-uncommitted"),
            lambda b: b.reads.remove(next(r for r in b.reads if r["reader"] == "leader-uncommitted")),
        ),
        ["no_drain"],
    ),
    "replicas were read with an isolation without a drain": (
        changed(
            lambda b: b.drop("observations", reader="leader-uncommitted"),
            lambda b: b.drop("observations", kind="live"),
            lambda b: b.reads.remove(next(r for r in b.reads if r["reader"] == "leader-uncommitted")),
            lambda b: [r.update(isolation="read_uncommitted") for r in b.reads if r["kind"] == "replica"],
        ),
        ["reader_saw_nothing", "no_drain", "copy_not_read"],
    ),
    "another client's bundle without reads of replicas": (
        changed(
            lambda b: b.drop("observations", kind="replica"),
            lambda b: b.reads.__delitem__(slice(2, None)),
            lambda b: b.manifest.update(sealed_by="hand"),
        ),
        [],
    ),
    "no reads of replicas": (
        changed(lambda b: b.drop("observations", kind="replica"), lambda b: b.reads.__delitem__(slice(2, None))),
        ["copy_not_read"],
    ),
    "the leader changed after its copy was read": (
        changed(lambda b: b.drained["partitions"][0].update(leader=2)),
        [],
    ),
    "no reads of replicas with transactions": (
        changed(
            lambda b: b.drop("observations", kind="replica"),
            lambda b: b.reads.__delitem__(slice(2, None)),
            lambda b: b.scenario.update(producers=[{"name": "p", "topics": ["t"], "transactions": {"records": 10}}]),
        ),
        ["no_transaction", "copy_not_read", "copy_not_read"],
    ),
    "the leader served a replica's read": (
        changed(lambda b: b.reads[2].update(served_by=[1])),
        ["served_by_another"],
    ),
    "another client's bundle without group offsets": (
        changed(lambda b: b.drained.update(groups=[]), lambda b: b.manifest.update(sealed_by="hand")),
        ["no_group_offsets"],
    ),
    "disks that could be read were not": (
        changed(lambda b: b.tables["batches"].clear(), lambda b: b.run.update(capabilities=["disk.read"])),
        ["no_batches"],
    ),
    "a live reader received nothing": (without("observations", reader="grouped"), ["reader_saw_nothing"]),
    "no snapshot after healing": (changed(lambda b: b.cluster["snapshots"].pop()), ["no_snapshot"]),
    "a replica does not answer": (
        changed(lambda b: b.drained["partitions"][0]["logs"].pop()),
        ["replica_silent"],
    ),
    "the ISR is not full": (partition(isr=[1, 2]), ["isr_not_full"]),
    "the leader reports no high watermark": (partition(high_watermark=None), ["no_watermark"]),
    "the run did not wait for recovery": (run(recovered=SILENT), ["recovery_unknown"]),
    "a node stays down": (
        run(recovered=NOT_BACK | {"pending": "nodes_down"}),
        ["not_back"],
    ),
    "the run does not declare the missing condition, whatever the text says": (run(recovered=NOT_BACK), ["not_back"]),
    "a client died, so acknowledgements stopped": (
        run(
            recovered=NOT_BACK | {"pending": "no_acks"},
            doubts=[{"name": "producer", "text": "producer p died"}],
        ),
        ["producer", "not_back"],
    ),
    "transactions ended late": (
        run(transactions_settled={"ok": False, "waited_s": 75, "last_seen": "t-0 at 2 of 4"}),
        ["transactions_late"],
    ),
    "a coordinator did not answer about transactions": (
        run(transactions_ended={"ok": False, "waited_s": 105, "last_seen": "no answer from broker 2", "open": []}),
        ["transactions_late"],
    ),
    "a coordinator and the members of a group report different assignments": (
        run(groups_at_rest=RESTLESS | {"unsettled": [{"group": "g", "state": "Stable", "differing": 1}]}),
        ["unattributed"],
    ),
    "a group did not come to rest, and a node was down": (
        run(
            groups_at_rest=RESTLESS | {"unsettled": [{"group": "g", "state": None}]},
            recovered=NOT_BACK | {"pending": "nodes_down"},
        ),
        ["not_back", "unattributed"],
    ),
    "settings as declared": (configured(min_insync_replicas="2", retention_bytes="-1"), []),
    "another setting than declared": (configured(min_insync_replicas="1"), ["configs_differ"]),
    "unclean elections than declared": (configured(unclean_leader_election_enable="true"), ["configs_differ"]),
    "another setting in a negative control": (
        changed(
            lambda b: b.cluster["snapshots"][0].update(topic_configs={"t": {"min.insync.replicas": "1"}}),
            lambda b: b.run.update(negative_control="min.insync.replicas=1"),
        ),
        [],
    ),
    "fewer replicas than declared": (
        changed(lambda b: b.run["contract"]["topics"]["t"].update(replicas=4)),
        ["configs_differ"],
    ),
    "no broker reported the settings": (
        changed(lambda b: b.cluster["snapshots"][0].update(topic_configs={})),
        ["configs_unknown"],
    ),
    "streams without a reservation": (without("reservations", stream=1), ["no_reservation"]),
    "the log start cannot be judged": (
        contract(History("AAAA").build(start_at(2)), retention_bytes=200).drop("batches", count=1),
        ["unjudged"],
    ),
    "a whole history": (recorded(Metadata()), []),
    "an unknown record of the metadata log": (recorded(Metadata().unknown()), ["history_unknown"]),
    **{
        f"{kind} in the history": (with_problem(kind), ["history_incomplete"])
        for kind in ProblemKind
        if kind is not ProblemKind.CONFLICT  # a finding, too
    },
    "a file of one node is damaged, and the others have every record": (with_problem(ProblemKind.TORN_END, 6), []),
    "a file of one node is damaged, and the last records are missing": (
        with_problem(ProblemKind.TORN_END, 7),
        ["history_incomplete"],
    ),
    "records are missing below the high watermark": (
        with_problem(ProblemKind.MISSING_RECORDS, 6),
        ["history_incomplete"],
    ),
    "the metadata log begins in the middle of the run": (
        recorded(Metadata().from_snapshot(START_NS + 1)),
        ["history_incomplete"],
    ),
    "the metadata log begins before the run": (recorded(Metadata().from_snapshot(START_NS)), []),
    "the run's history is not in the bundle": (run(has_history=True), ["no_history"]),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_gap_is_a_doubt(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    expected = CASES[name][1]
    assert [doubt.name for doubt in verdict.doubts] == expected
    assert [finding for finding in verdict.findings if finding.condemns] == []
    assert verdict.status is (Status.INCONCLUSIVE if expected else Status.PASS)


@pytest.mark.parametrize(
    ("history", "durable", "unknown"),
    [
        ("unfinished", 0, 4),
        ("the drain is stuck", 2, 2),
        ("no drain", 0, 4),
        ("a replica's read is stuck", 4, 0),
        ("no snapshot after healing", 4, 0),
        ("a whole history", 4, 0),
    ],
)
def test_a_record_that_was_not_read_back_is_not_known_to_be_durable(
    judged: dict[str, Verdict], history: str, durable: int, unknown: int
) -> None:
    """Also where a live reader received it during the faults: that says nothing about the log afterwards."""
    verdict = judged[history]
    assert verdict.score is not None
    assert verdict.promised == verdict.score.acked == durable + unknown
    assert (verdict.durable, verdict.score.durable_raw, verdict.score.unknown) == (durable, durable, unknown)
    assert verdict.score.share_raw == (1.0 if durable else None)
    assert (verdict.score.episodes, verdict.score.episodes_unknown) == ((0, 1) if unknown else (1, 0))


def test_a_damaged_file_that_hides_nothing_is_a_note(judged: dict[str, Verdict]) -> None:
    (note,) = judged["a file of one node is damaged, and the others have every record"].notes
    assert "offset 3 of node 2, the checksum is wrong" in note


@pytest.mark.parametrize(
    ("history", "origin"),
    [("too little after", DoubtOrigin.SCENARIO), ("too little during", DoubtOrigin.RELEASE)],
    ids=["fewer acks than required", "no ack at all"],
)
def test_a_window_without_any_ack_may_be_the_release(
    judged: dict[str, Verdict], history: str, origin: DoubtOrigin
) -> None:
    (doubt,) = judged[history].doubts
    assert doubt.origin is origin


def test_a_failing_check_is_a_doubt_and_the_others_still_count(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Any:
        raise KeyError("no such column")

    lost = JUDGE.queries()["lost"]

    def broken_when_it_runs(inputs: Any) -> Any:
        rows = lost(inputs)
        return rows.withColumn("offset", rows["kind"].cast("bigint") + rows["offset"])

    def broken_in_java(_: object) -> Any:
        assert spark._jvm is not None
        return spark._jvm.java.lang.Integer.parseInt("nine")

    checks = {
        "lost": lost,
        "asked": broken,
        "run": broken_when_it_runs,
        "java": broken_in_java,
    }
    monkeypatch.setattr(JUDGE, "queries", lambda: checks)
    history = History("AAA").build()
    history.drop("observations", kind="drain", offset=1)
    (verdict,) = verdicts(spark, [history])
    assert [f.kind.value for f in verdict.findings if f.condemns] == ["lost"]
    assert verdict.score is not None
    assert (verdict.durable, verdict.score.unknown) == (2, 0)
    said = {doubt.name.removeprefix("check_failed:"): doubt.text for doubt in verdict.doubts}
    assert list(said) == ["asked", "run", "java"]
    assert "no such column" in said["asked"]
    assert "'lost'" in said["run"]
    assert 'NumberFormatException: For input string: "nine"' in said["java"]


def test_without_the_check_of_losses_no_record_is_known_to_be_durable(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JUDGE, "queries", lambda: {"lost": broken})
    (verdict,) = verdicts(spark, [History("AAA").build()])
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.score is not None
    assert (verdict.promised, verdict.durable, verdict.score.unknown) == (3, 0, 3)


def test_a_failing_input_is_a_doubt_for_each_check_that_needs_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise KeyError("no such column")

    monkeypatch.setattr(inputs, "compare", broken)
    history = History("AAA").build()
    history.drop("observations", kind="drain", offset=1)
    (verdict,) = verdicts(spark, [history])
    assert [f.kind.value for f in verdict.findings if f.condemns] == ["lost"]
    queries = {name: query for check in declared().values() for name, query in check.queries.items()}
    needy = {name for name, query in queries.items() if "compared" in parameters(query)}
    assert needy > {"conflicting", "replica_divergence", "skipped_read", "vanished"}
    assert [doubt.name for doubt in verdict.doubts] == [f"check_failed:{name}" for name in sorted(needy)]


def broken(*_: object) -> Any:
    raise KeyError("no such column")


@pytest.mark.parametrize("part", ["deduplicate", "runs_of", "excused"])
def test_what_was_found_stands_if_it_cannot_be_put_together(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A loss stays a FAIL, and a history without a defect only gets the doubt."""
    original = getattr(JUDGE, part)
    calls: list[object] = []

    def broken_at_first(*given: Any) -> Any:
        """Ranges of rows are needed again: there only the first call fails."""
        calls.append(given)
        return original(*given) if part == "runs_of" and len(calls) > 1 else broken()

    monkeypatch.setattr(JUDGE, part, broken_at_first)
    few_queries(monkeypatch, "lost", "vanished", "duplicated")
    lossy, sound = History("AAA").build(), History("AAA").build()
    lossy.drop("observations", kind="drain", offset=1)
    (bad, good) = verdicts(spark, [lossy, sound])
    found = [f for f in bad.findings if f.condemns and f.kind is Kind.LOST]
    assert [(f.topic, f.partition, f.offset_first, f.count) for f in found] == [("t", 0, 1, 1)]
    assert bad.status is Status.FAIL
    assert (good.status, good.findings) == (Status.INCONCLUSIVE, ())
    for verdict in (bad, good):
        assert [doubt.name for doubt in verdict.doubts] == ["check_failed:deduplicate"]


def test_what_the_contract_permits_stays_permitted_if_findings_cannot_be_deduplicated(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JUDGE, "deduplicate", broken)
    few_queries(monkeypatch, "lost", "skipped_read", "passed_over")
    skipped = History("AAAA").build().drop("observations", reader="grouped", offset=2)
    skipped.run["contract"]["readers"] = {"grouped": {"reader": "grouped", "group": "g", "at_most_once": True}}
    skipped.event("reader_died", group="g", from_offset=2, before_offset=3, at_ns=START_NS + 10**9)
    (verdict,) = verdicts(spark, [skipped])
    assert [f.kind for f in verdict.findings if not f.condemns]
    assert [f for f in verdict.findings if f.condemns] == []
    assert verdict.status is Status.INCONCLUSIVE


def test_an_interrupt_cancels_waiting_queries(spark: SparkSession) -> None:
    began, go_on = Event(), Event()
    waiting: list[Future[bool]] = []

    def query() -> bool:
        began.set()
        return go_on.wait(60)

    def interrupted() -> None:
        with inputs.side_by_side(spark) as pool:
            waiting.extend(pool.submit(query) for _ in range(5))
            assert began.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [query.cancelled() for query in waiting[-3:]] == [True] * 3
    go_on.set()
    assert waiting[0].result(timeout=60)
