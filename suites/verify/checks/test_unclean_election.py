"""Leaders that were not in sync, in histories in which nothing is lost; each with near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.contract.contract import UNCLEAN
from harness.model.contract.internal_topics import OFFSETS, SHARE_STATE, TRANSACTIONS
from harness.model.history.changes import PartitionChange, Problem, ProblemKind
from harness.model.verdict import Status, Verdict
from harness.verify.checks.unclean_election import UNSEEN
from suites.verify.edits import contract
from suites.verify.history import BROKERS, MS, START_NS, Built, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import CONTROLLER, Metadata

S = 1000 * MS
FOUND = ["unclean_election 1"]


def out_of_sync(topic: str = "t", topic_id: str = "T", at_ns: int = START_NS + S) -> Metadata:
    """Broker 2 is elected although broker 1 was alone in the ISR, and the ELR was empty."""
    return Metadata(topic, topic_id).in_sync(at_ns - 1, 1).led(2, at_ns, isr=(2,)).in_sync(at_ns + 1, *BROKERS)


def told(metadata: Metadata, **settings: Any) -> Built:
    """No record is lost. settings: of the contract."""
    built = History("AA").build()
    built.metadata = metadata.history()
    built.run["ended_ns"] = built.steps[0]["ended_ns"] = START_NS + 100 * S
    built.steps[0] |= {"name": "hold", "do": "hold", "is_fault": False, "facts": [], "healed_ns": None}
    built.run["contract"] |= settings
    return built


def internal(topic: str, **settings: Any) -> Built:
    return told(out_of_sync(topic, "I"), **settings)


def offsets(*, unclean: bool) -> dict[str, Any]:
    return {"partitions": 10, "replicas": 3, "min_insync_replicas": 2, "unclean_election": unclean}


def set_by_step(built: Built, from_s: int, until_s: int) -> Built:
    """Declared steps permit unclean elections for a while."""
    changes = [("on", True, from_s), ("off", False, until_s)]
    built.run["contract"]["changes"] = [
        {"step": n, "topic": "t", "config": {UNCLEAN: value}} for n, value, _ in changes
    ]
    for name, value, at_s in changes:
        args, at_ns = {"topic": "t", "config": {UNCLEAN: value}}, START_NS + at_s * S
        like = {key: value for key, value in built.steps[0].items() if key != "facts"}
        row = like | {"name": name, "do": "alter_topic", "args": args, "is_fault": False, "events": []}
        built.steps.append(row | {"started_ns": at_ns, "ended_ns": at_ns + MS, "healed_ns": None})
    return built


def wrong_clock(built: Built) -> Built:
    """A step changed the clock of the controller, so that the time of the election is unknown."""
    fact = {"kind": "clock_changed", "nodes": [CONTROLLER], "from_ns": START_NS, "to_ns": START_NS + 1}
    built.steps[0] |= {"facts": [fact]}
    return built


def with_problem(metadata: Metadata) -> Metadata:
    metadata.problems.append(Problem(kind=ProblemKind.MISSING_RECORDS, node=None, offset=3, detail="3 to 4"))
    return metadata


def hidden(metadata: Metadata) -> Metadata:
    """A snapshot shows the new leader, and not what came before it."""
    last = metadata.rows[-2]
    metadata.rows[-2] = replace(last, from_snapshot=True)
    return metadata


def reassigned(metadata: Metadata) -> Metadata:
    """The only replica moves to broker 2, which joins the ISR and leads by one record."""
    last = metadata.rows[-1]
    assert isinstance(last, PartitionChange)
    first = replace(last, replicas=(1,), isr=(1,))
    moving = replace(first, replicas=(1, 2), adding=(2,), removing=(1,), partition_epoch=1, offset=last.offset + 1)
    moved = replace(first, replicas=(2,), isr=(2,), leader=2, leader_epoch=1, partition_epoch=2, offset=last.offset + 2)
    metadata.rows[-1:] = [first, replace(moving, time_ns=START_NS + S), replace(moved, time_ns=START_NS + 2 * S)]
    return metadata


def returning(broker: int, at_ns: int) -> Built:
    """Broker 1 is eligible, broker 2 becomes the leader, and a broker registers."""
    metadata = Metadata().in_sync(START_NS, elr=(1,), last_known=(2,)).led(2, START_NS + S, isr=(2,))
    return told(metadata.registered(broker, at_ns))


# name -> (history, what condemns)
CASES: dict[str, tuple[Built, list[str]]] = {
    "a leader from outside": (told(out_of_sync()), FOUND),
    "a leader from outside, after the partition had none": (
        told(Metadata().in_sync(START_NS, 1).led(-1, START_NS + S).led(2, START_NS + 2 * S, isr=(2,))),
        FOUND,
    ),
    "a leader from outside, while another replica is eligible": (
        told(Metadata().in_sync(START_NS, elr=(1,), last_known=(2,)).led(2, START_NS + S, isr=(2,))),
        FOUND,
    ),
    "a leader from outside, just before the eligible replica returns": (returning(1, START_NS + S + 1), FOUND),
    "a leader from outside, when a replica returns that is not eligible": (returning(3, START_NS + S), FOUND),
    "a leader from outside of the offsets of groups": (internal(OFFSETS, offsets=offsets(unclean=False)), FOUND),
    "a leader from outside of the state of transactions": (internal(TRANSACTIONS, unclean_internal=[]), FOUND),
    "a leader from outside of the state of share groups": (
        internal(SHARE_STATE, unclean_internal=[TRANSACTIONS]),
        FOUND,
    ),
    "a leader from outside after the last permitted one": (set_by_step(told(out_of_sync()), -90, -60), FOUND),
    "a leader from outside, by a controller with a wrong clock": (wrong_clock(told(out_of_sync())), FOUND),
    # --- legal
    "no election": (told(Metadata()), []),
    "a leader from the ISR": (told(Metadata().led(2, START_NS + S, isr=(2, 3))), []),
    "a leader from the ELR": (told(Metadata().in_sync(START_NS, elr=(2,)).led(2, START_NS + S, isr=(2,))), []),
    "the last known leader, with ISR and ELR empty": (
        told(Metadata().in_sync(START_NS, last_known=(2,)).led(-1, START_NS + 1).led(2, START_NS + S, isr=(2,))),
        [],
    ),
    "the last known leader, when the eligible replica returns from an unclean stop": (returning(1, START_NS + S), []),
    "a replica that joins the ISR by the end of its reassignment": (told(reassigned(Metadata())), []),
    "permitted": (contract(told(out_of_sync()), unclean_election=True), []),
    "permitted by a step": (set_by_step(told(out_of_sync()), 0, 50), []),
    "permitted by a step, at a time that is unknown": (set_by_step(wrong_clock(told(out_of_sync())), 0, 1), []),
    "permitted for the offsets of groups": (internal(OFFSETS, offsets=offsets(unclean=True)), []),
    "permitted for the state of transactions": (internal(TRANSACTIONS, unclean_internal=[TRANSACTIONS]), []),
    "it is unknown whether it is permitted": (internal(TRANSACTIONS), []),
    "of a topic that the contract is not about": (internal("other"), []),
    "of another run on the same cluster": (
        told(out_of_sync(OFFSETS, "I", START_NS - 100 * S), offsets=offsets(unclean=False)),
        [],
    ),
    # --- unknown
    "the state before is unknown": (told(hidden(out_of_sync())), []),
    "an unknown record": (told(out_of_sync().unknown()), []),
    "missing records": (told(with_problem(out_of_sync())), []),
}
UNKNOWN = {"an unknown record": "history_unknown", "missing records": "history_incomplete"}
NO_DOUBT = {name for name, (_, found) in CASES.items() if not found} - {*UNKNOWN, "the state before is unknown"}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_leader_that_was_not_in_sync_is_a_finding_though_nothing_is_lost(
    name: str, judged: dict[str, Verdict]
) -> None:
    verdict, expected = judged[name], CASES[name][1]
    assert reported(verdict) == expected
    if name in NO_DOUBT:
        assert verdict.status is Status.PASS, verdict.doubts
        assert UNSEEN not in verdict.not_covered
    if name in UNKNOWN:
        assert UNKNOWN[name] in {doubt.name for doubt in verdict.doubts}
        assert UNSEEN in verdict.not_covered


def test_the_finding_names_the_sets_and_the_step(judged: dict[str, Verdict]) -> None:
    (found,) = judged["a leader from outside"].findings
    assert (found.topic, found.topic_id, found.partition, found.first_ns) == ("t", "T", 0, START_NS + S)
    assert found.detail == ("broker 2 became the leader in epoch 1, and was neither in the ISR [1] nor in the ELR []")
    assert found.step == "hold"
    (found,) = judged["a leader from outside, by a controller with a wrong clock"].findings
    assert (found.first_ns, found.step) == (None, None)
