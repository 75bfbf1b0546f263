"""Losses after elections that only the history of the cluster shows; each with near misses."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.edits import Edit, contract, cut
from suites.verify.history import MS, START_NS, Built, Entry, History
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import CONTROLLER, Metadata

S = 1000 * MS
LATER_NS = START_NS + S  # every record is acknowledged by then, unless a history says otherwise


def with_history(built: Built, metadata: Metadata) -> Built:
    """With this history, and with no fault; `fault` adds one."""
    built.metadata = metadata.history()
    built.steps[0] |= {"is_fault": False, "facts": []}
    built.run["ended_ns"] = built.drained["at_ns"] = START_NS + 900 * S
    return built


def fault(built: Built, from_ns: int, to_ns: int, *facts: dict[str, Any]) -> Built:
    """A fault that had an effect and was healed at `to_ns`."""
    times = {"started_ns": from_ns, "ended_ns": from_ns, "healed_ns": to_ns}
    row = built.steps[0] | {"name": f"fault-{len(built.steps)}", "is_fault": True, "facts": list(facts), "events": []}
    built.steps.append(row | times)
    return built


def stopped(node: int, from_ns: int, to_ns: int, how: str = "killed") -> dict[str, Any]:
    return {"kind": "stopped", "how": how, "nodes": [node], "from_ns": from_ns, "to_ns": to_ns}


def wrong_clock(built: Built, node: int) -> Built:
    fact = {"kind": "clock_changed", "nodes": [node], "from_ns": START_NS, "to_ns": START_NS + 1}
    return fault(built, START_NS, START_NS + 1, fact)


def acks_one(*texts: str) -> History:
    return History(*texts, acks="1", idempotent=False)


def edits(*several: Edit) -> Edit:
    def edit(history: History) -> None:
        for one in several:
            one(history)

    return edit


def epochs(*starts: tuple[int, int]) -> Edit:
    """The lineage of every replica: leader epochs with their first offsets."""

    def edit(history: History) -> None:
        history.lineage[0] = [list(start) for start in starts]

    return edit


def replaced(offset: int) -> Edit:
    """Another producer's record is at the offset of a lost one."""

    def edit(history: History) -> None:
        history.logs[0][offset] = Entry(2, 0, history.now_ns)

    return edit


def sent_by_another(built: Built, offset: int, at_ns: int) -> Built:
    """The send of the record that `replaced` puts there."""
    first, reserved = built.rows("ledger", stream=1)[0], built.rows("reservations", stream=1)[0]
    sent = {"stream": 2, "seq": 0, "offset": offset, "called_ns": at_ns - MS, "returned_ns": at_ns}
    built.tables["ledger"].append(first | sent)
    built.tables["reservations"].append(reserved | {"stream": 2, "producer": "q", "acks": "all"})
    producers = built.run["contract"]["producers"]
    producers["q"] = producers["p"] | {"producer": "q", "acks": "all"}
    return built.change("observations", {"timestamp_ms": at_ns // MS - 1}, stream=2, seq=0)


def acked_at(built: Built, seq: int, at_ns: int) -> Built:
    """A record was sent and acknowledged then."""
    return built.change("ledger", {"called_ns": at_ns - MS, "returned_ns": at_ns}, stream=1, seq=seq)


def deposed(kept: int = 2, lost_at_ns: int = LATER_NS) -> Built:
    """Broker 2 leads from LATER_NS on, and its epoch began at offset 2. Broker 1 acknowledged the record at that offset
    with acks=1."""
    built = acks_one("AAA").build(edits(cut(kept), epochs((0, 0), (1, 2))))
    return with_history(acked_at(built, 2, lost_at_ns), Metadata().led(2, LATER_NS, isr=(2, 3)))


def isolated(lost_at_ns: int, *, other_ns: int | None = LATER_NS + 5 * S) -> Built:
    """Broker 1 was cut off for 90 s when broker 2 was elected. The last record was acknowledged at `lost_at_ns`.

    Another producer's record that was acknowledged at `other_ns` is at its offset; None = nothing is there.
    """
    there = cut(2) if other_ns is None else replaced(2)
    built = acks_one("AAA").build(edits(epochs((0, 0), (1, 2)), there))
    built = with_history(acked_at(built, 2, lost_at_ns), Metadata().led(2, LATER_NS, isr=(2, 3)))
    if other_ns is not None:
        sent_by_another(built, 2, other_ns)
    return fault(built, LATER_NS - S, LATER_NS + 90 * S)


def overtaken(lost_at_ns: int, *, other: bool = True, of: History | None = None, elr: bool = True) -> Built:
    """Broker 1 was cut off when broker 2 was elected, and acknowledged records meanwhile. It leads again, from offset 4
    on, with its own log, which has another record at the offset of the one that was acknowledged at `lost_at_ns`."""
    built = (of or acks_one("AAAAA")).build(edits(epochs((0, 0), (2, 4)), *([replaced(2)] if other else [])))
    if not other:
        built.drop("observations", offset=2).change("batches", {"control": "other"}, base_offset=2)
    metadata = (
        Metadata().led(2, LATER_NS, isr=(2,), elr=(1,) if elr else ()).led(1, LATER_NS + 5 * S, isr=(1,), elr=(2,))
    )
    built = with_history(acked_at(built, 2, lost_at_ns), metadata)
    if other:
        sent_by_another(built, 2, LATER_NS - S)
    return fault(built, LATER_NS - 3 * S, LATER_NS + 4 * S)


def rejoined(built: Built, at_ns: int) -> Built:
    """The deposed leader was in the ISR again then."""
    built.metadata = Metadata().led(2, LATER_NS, isr=(2, 3)).in_sync(at_ns, 1, 2, 3).history()
    return built


def registered(built: Built, at_ns: int) -> Built:
    """Another process of the deposed leader's broker registered then."""
    built.metadata = Metadata().led(2, LATER_NS, isr=(2, 3)).registered(1, at_ns).history()
    return built


def quick(lost_at_ns: int, kept: int) -> Built:
    """Two elections within a second: broker 2 leads from offset 2 on, and broker 3 from offset 4 on. Every record from
    `kept` on is lost; all of them were acknowledged at `lost_at_ns`."""
    built = acks_one("AAAAA").build(edits(cut(kept), epochs((0, 0), (1, 2), (2, 4))))
    for seq in range(kept, 5):
        acked_at(built, seq, lost_at_ns)
    metadata = Metadata().led(2, LATER_NS, isr=(2, 3)).led(3, LATER_NS + S // 2, isr=(3,))
    killed = (stopped(1, START_NS, LATER_NS - 5 * S), stopped(2, LATER_NS, LATER_NS + S // 4))
    return fault(with_history(built, metadata), START_NS, LATER_NS, *killed)


def elected(metadata: Metadata, *, permitted: bool = True) -> Built:
    """Broker 2 leads from offset 2 on, without the last 2 records, which were acknowledged with acks=all."""
    built = with_history(History("AAAA").build(edits(cut(2), epochs((0, 0), (1, 2)))), metadata)
    return contract(built, unclean_election=permitted)


def out_of_sync() -> Metadata:
    """Broker 2 is elected although broker 1 was alone in the ISR."""
    return Metadata().in_sync(LATER_NS, 1).led(2, LATER_NS, isr=(2,))


def recreated(before: Metadata) -> Metadata:
    """After that the topic is deleted and created again, and its leader never changes."""
    return before.deleted(LATER_NS + S).created("T", LATER_NS + 2 * S)


STEP: dict[str, Any] = {"topic_id": "T", "leader": 2, "leader_epoch": 1, "log_end": 2, "at_ns": LATER_NS}
SAMPLE: dict[str, Any] = {"old_leader": 1, "new_leader": 2, "leader_epoch": 1, "clean": False, "at_ns": LATER_NS}

# name -> (history, what condemns, records that are excused, names of doubts)
CASES: dict[str, tuple[Built, list[str], int, list[str]]] = {
    "acks=1: acknowledged before the election": (deposed(), [], 1, []),
    "acks=1: below the start of the new epoch": (deposed(kept=1), ["lost 1"], 1, []),
    "acks=1: no leader changed": (with_history(acks_one("AAA").build(cut(2)), Metadata()), ["lost 1"], 0, []),
    "acks=1: a leader that only gets a new epoch lacks nothing": (
        with_history(acks_one("AAA").build(edits(cut(2), epochs((0, 0), (1, 2)))), Metadata().led(1, LATER_NS)),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: the next leader has nothing of that epoch, and its own record there": (
        overtaken(LATER_NS + S),
        [],
        1,
        [],
    ),
    "acks=1: the same, acknowledged by the leader that was replaced and did not know it yet": (
        overtaken(LATER_NS + 6 * S),
        [],
        1,
        [],
    ),
    "acks=1: the next leader has nothing of that epoch, and nothing is there": (
        overtaken(LATER_NS + S, other=False),
        [],
        0,
        ["leader_unknown"],
    ),
    "acks=1: another record is there, and it was acknowledged before the epoch that left nothing": (
        overtaken(LATER_NS - 2 * S),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: another record is there, and it was acknowledged when all brokers knew the next leader": (
        overtaken(LATER_NS + 300 * S),
        ["lost 1"],
        0,
        [],
    ),
    "unclean: the next leader has nothing of that epoch, and its own record there": (
        contract(overtaken(LATER_NS + S, of=History("AAAAA"), elr=False), unclean_election=True),
        [],
        1,
        [],
    ),
    "unclean: the same, and no unclean election is permitted": (
        contract(overtaken(LATER_NS + S, of=History("AAAAA"), elr=False), unclean_election=False),
        ["lost 1", "unclean_election 1"],
        0,
        [],
    ),
    "unclean: the next leader was in the ELR": (
        contract(overtaken(LATER_NS + S, of=History("AAAAA")), unclean_election=True),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: the new leader had nothing": (
        with_history(acks_one("AA").build(edits(cut(0), epochs((1, 0)))), Metadata().led(2, LATER_NS, isr=(2, 3))),
        [],
        2,
        ["reader_saw_nothing", "empty_drain"],
    ),
    "acks=1: by a cut-off leader, and another record is there": (isolated(LATER_NS + 60 * S), [], 1, []),
    "acks=1: by a cut-off leader, and nothing is there": (
        isolated(LATER_NS + 60 * S, other_ns=None),
        [],
        0,
        ["leader_unknown"],
    ),
    "acks=1: by a cut-off leader, and another record from before the election is there": (
        isolated(LATER_NS + 60 * S, other_ns=LATER_NS - S // 2),
        [],
        0,
        ["leader_unknown"],
    ),
    "acks=1: long after the cut-off leader was healed": (isolated(LATER_NS + 200 * S), ["lost 1"], 0, []),
    "acks=1: before the deposed leader was in sync again": (
        rejoined(isolated(LATER_NS + 40 * S), LATER_NS + 50 * S),
        [],
        1,
        [],
    ),
    "acks=1: after the deposed leader was in sync again": (
        rejoined(isolated(LATER_NS + 60 * S), LATER_NS + 50 * S),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: after the deposed leader's broker started again": (
        registered(isolated(LATER_NS + 60 * S), LATER_NS + 50 * S),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: after the deposed leader was killed": (
        fault(deposed(lost_at_ns=LATER_NS + 5 * S), START_NS, LATER_NS + 9 * S, stopped(1, START_NS, LATER_NS)),
        ["lost 1"],
        0,
        [],
    ),
    "acks=1: after the deposed leader may have crashed": (
        fault(
            deposed(lost_at_ns=LATER_NS + 5 * S), START_NS, LATER_NS + 9 * S, stopped(1, START_NS, LATER_NS, "crashed")
        ),
        [],
        0,
        ["leader_unknown"],
    ),
    "acks=1: the controller had a wrong clock": (wrong_clock(deposed(), CONTROLLER), [], 0, ["leader_unknown"]),
    "acks=1: the controller had a wrong clock, and another record is there": (
        wrong_clock(isolated(LATER_NS + 60 * S), CONTROLLER),
        [],
        1,
        [],
    ),
    "acks=1: a broker had a wrong clock": (wrong_clock(deposed(), 1), [], 1, []),
    "two quick elections: the second leader lacks what the first acknowledged": (
        quick(LATER_NS + S // 4, 4),
        [],
        1,
        [],
    ),
    "two quick elections: below the start of the second leader": (quick(LATER_NS + S // 4, 3), ["lost 1"], 1, []),
    "two quick elections: acknowledged by the second leader": (quick(LATER_NS + 5 * S, 4), ["lost 1"], 0, []),
    "two quick elections: acknowledged before both": (quick(LATER_NS, 2), [], 3, []),
    "an unclean election": (elected(out_of_sync()), [], 2, []),
    "an unclean election that the contract forbids": (
        elected(out_of_sync(), permitted=False),
        ["lost 2", "unclean_election 1"],
        0,
        [],
    ),
    "an unclean election before the acknowledgements, of a leader that was killed": (
        fault(
            elected(Metadata().in_sync(START_NS, 1).led(2, START_NS, isr=(2,))),
            START_NS - 9 * S,
            LATER_NS,
            stopped(1, START_NS - 1, START_NS - 1) | {"to_ns": START_NS - 3 * S},
        ),
        ["lost 2"],
        0,
        [],
    ),
    "an unclean election long before the run": (
        elected(Metadata().in_sync(START_NS - 99 * S, 1).led(2, START_NS - 99 * S, isr=(2,))),
        ["lost 2"],
        0,
        [],
    ),
    "an election of the last known leader": (
        elected(Metadata().in_sync(LATER_NS, last_known=(2,)).led(2, LATER_NS, isr=(2,))),
        [],
        2,
        [],
    ),
    "an election from the ISR": (elected(Metadata().led(2, LATER_NS, isr=(2, 3))), ["lost 2"], 0, []),
    "an election from the ELR": (
        elected(Metadata().in_sync(LATER_NS, 1, elr=(2,)).led(2, LATER_NS, isr=(2,))),
        ["lost 2"],
        0,
        [],
    ),
    "a step saw an unclean election, and the history has one from the ISR": (
        elected(Metadata().led(2, LATER_NS, isr=(2, 3))).event("unclean_election", **STEP),
        ["lost 2"],
        0,
        [],
    ),
    "a sample beside a history that has no such election": (
        elected(Metadata()).event("leader_change", **SAMPLE),
        ["lost 2"],
        0,
        [],
    ),
    "an unclean election of a deleted topic": (
        elected(recreated(Metadata(topic_id="Old").in_sync(LATER_NS, 1).led(2, LATER_NS, isr=(2,)))),
        ["lost 2"],
        0,
        [],
    ),
    "acks=1: an election of a deleted topic": (
        with_history(
            acks_one("AAA").build(edits(cut(2), epochs((0, 0), (1, 2)))),
            recreated(Metadata(topic_id="Old").led(2, LATER_NS, isr=(2, 3))),
        ),
        ["lost 1"],
        0,
        [],
    ),
}

BATCH = HistoryBatch(history for history, *_ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_history_decides_which_losses_an_election_excuses(name: str, judged: dict[str, Verdict]) -> None:
    verdict = judged[name]
    _, condemning, excused, doubts = CASES[name]
    assert reported(verdict) == condemning
    assert sum(f.count for f in verdict.findings if not f.condemns) == excused
    assert [doubt.name for doubt in verdict.doubts] == doubts
