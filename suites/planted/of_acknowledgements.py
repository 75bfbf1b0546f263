"""Plants in acknowledgements: two records at one offset, too few replicas in sync, or an offset below one that had been
acknowledged; each with its near miss."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from harness.model.clock import CLOCKS_MS
from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from harness.verify.engine.timelines import LATE_NS
from suites.planted.copies import Copy, Row
from suites.planted.expected import Broken, Expected, Record, fails, of, passes
from suites.planted.plants import borders, forget, last_partition, middle, plant, record_of

DRAINED = {"topic": "plain", "partition": 0, "reader": "leader-uncommitted"}
TOPIC = "sized"  # its first records are deleted, so nothing but the ledger knows them


@plant
def acked_twice_and_deleted(copy: Copy) -> Expected:
    """The release's own client reported both, and neither is in the log any more."""
    first = _both_at_one_offset(copy)
    _by_own_client(copy, first)
    return fails(of(Kind.CONFLICTING, first))


@plant
def near_conflicting_acked_twice_to_another_client(copy: Copy) -> Expected:
    """librdkafka reported both, and may have named a wrong offset."""
    _both_at_one_offset(copy)
    return passes()


@plant
def near_conflicting_acked_once(copy: Copy) -> Expected:
    """The send of the other one was not answered."""
    first, second = _deleted(copy)
    copy.change("ledger", {"outcome": "unknown", "offset": None}, **second.sent)
    _by_own_client(copy, first)
    return passes()


@plant
def acked_twice_and_lost(copy: Copy) -> Expected:
    """The log has the other one there: the contradiction is named beside the loss."""
    there, gone = middle(copy.original, count=2)
    copy.change("ledger", {"offset": there.offset}, **gone.sent)
    forget(copy, gone)
    _by_own_client(copy, gone)
    lost = gone.moved(there.offset)
    return fails(of(Kind.CONFLICTING, lost), of(Kind.LOST, lost))


def _both_at_one_offset(copy: Copy) -> Record:
    first, second = _deleted(copy)
    copy.change("ledger", {"offset": first.offset}, **second.sent)
    return first


def _deleted(copy: Copy) -> tuple[Record, Record]:
    """Two adjacent records below the log start, from the middle."""
    place = last_partition(copy.original.documents["cluster"], TOPIC, 0)
    start = min(log["log_start"] for log in place["logs"])
    rows = [row for row in copy.original.rows("ledger", topic=TOPIC, outcome="acked") if row["offset"] < start]
    first, second = rows[len(rows) // 2 :][:2]
    return record_of(first), record_of(second)


def _by_own_client(copy: Copy, record: Record) -> None:
    copy.reserved_by(f"{JAVA_CLIENTS} 4.3.1", record.stream)


# --- acked_below_min_isr ---


@plant
def acked_below_min_isr(copy: Copy) -> Expected:
    """The other replicas had left the ISR 2 s before the sends, and nothing was lost."""
    rows = _sent_late(copy)
    _shrunk(copy, rows[0]["called_ns"], max(row["returned_ns"] for row in rows))
    return fails(of(Kind.ACKED_BELOW_MIN_ISR, *map(record_of, rows)))


def _alone(copy: Copy, since_s: int) -> tuple[list[Row], list[int]]:
    """The leader is alone in the ISR for the last seconds in which its high watermark rises. Returns what is sent and
    acknowledged then, and the high watermarks that it reports in the time that counts."""
    last = _states(copy.original.documents["history"])[-1]
    reported = copy.original.rows("positions", topic="plain", partition=1, broker=last["leader"])
    rows = sorted(reported, key=lambda row: int(row["at_ns"]))
    # The last rise is by a record of the drain.
    rose = [row for before, row in pairwise(rows) if row["high_watermark"] > before["high_watermark"] + 1][-1]
    from_ns, to_ns = rose["at_ns"] - since_s * 10**9, rose["at_ns"] + 1
    _shrunk(copy, from_ns, to_ns)
    acked = copy.original.rows("ledger", topic="plain", partition=1, outcome="acked")
    sent = [row for row in acked if row["called_ns"] >= from_ns and row["returned_ns"] <= to_ns]
    return sent, [row["high_watermark"] for row in rows if from_ns + LATE_NS <= row["at_ns"] <= to_ns]


@plant
def acked_below_min_isr_by_a_mark_that_rises(copy: Copy) -> Expected:
    sent, marks = _alone(copy, 6)
    assert marks[0] < marks[-1], "nothing was written in these seconds"
    mark: Broken = (Kind.ACKED_BELOW_MIN_ISR.value, "plain", 1, None)
    return fails(of(Kind.ACKED_BELOW_MIN_ISR, *map(record_of, sent)), also=[mark])


@plant
def acked_below_min_isr_without_a_mark_that_rises(copy: Copy) -> Expected:
    """The reports may be from before the leader knew."""
    sent, _ = _alone(copy, 3)
    return fails(of(Kind.ACKED_BELOW_MIN_ISR, *map(record_of, sent)))


@plant
def near_acked_below_min_isr_sent_before(copy: Copy) -> Expected:
    """The last of the sends began before that."""
    rows = _sent_late(copy)
    _shrunk(copy, rows[-1]["called_ns"] + 1, rows[-1]["returned_ns"])
    return passes()


@plant
def near_acked_below_min_isr_of_a_frozen_leader(copy: Copy) -> Expected:
    """It may not have known of the change."""
    rows = _sent_late(copy)
    from_ns, to_ns = rows[0]["called_ns"], max(row["returned_ns"] for row in rows)
    leader = _shrunk(copy, from_ns, to_ns)
    with copy.document("steps") as steps:
        steps[-1]["facts"].append({"kind": "frozen", "nodes": [leader], "from_ns": from_ns, "to_ns": to_ns})
    return passes()


@plant
def near_acked_below_min_isr_of_a_new_controller(copy: Copy) -> Expected:
    """The change was written by a controller that was replaced, so the leader may have learned of it much later."""
    rows = _sent_late(copy)
    _shrunk(copy, rows[0]["called_ns"], max(row["returned_ns"] for row in rows))
    with copy.document("history") as history:
        history["changes"][-1]["controller_epoch"] += 1
    return passes()


def _sent_late(copy: Copy) -> list[Row]:
    """Acknowledged sends that overlap one that was made long after the last change of the ISR, by their calls; all
    that lie within the time of these."""
    since_ns = _states(copy.original.documents["history"])[-1]["time_ns"] + 3 * 10**9
    acked = copy.original.rows("ledger", topic="plain", partition=1, outcome="acked")
    late = sorted((row for row in acked if row["called_ns"] > since_ns), key=lambda row: int(row["called_ns"]))
    like = late[len(late) // 2]
    return [row for row in late if row["called_ns"] >= like["called_ns"] and row["returned_ns"] <= like["returned_ns"]]


def _shrunk(copy: Copy, from_ns: int, to_ns: int) -> int:
    """The leader is alone in the ISR, and has known it for the whole of this time. Returns the leader."""
    with copy.document("history") as history:
        last = _states(history)[-1]
        alone = {"isr": [last["leader"]], "time_ns": from_ns - 2 * 10**9, "offset": history["end"]}
        whole = {"time_ns": to_ns + CLOCKS_MS * 10**6, "offset": history["end"] + 1}
        for nth, changed in enumerate((alone, whole), start=1):
            history["changes"].append(last | changed | {"partition_epoch": last["partition_epoch"] + nth})
        history["end"] += 2
    return int(last["leader"])


def _states(history: Any) -> list[Any]:
    rows = [row for row in history["changes"] if row["type"] == "partition" and row["topic"] == "plain"]
    return [row for row in rows if row["partition"] == 1]


# --- below_acked ---

SLOT_NS = CLOCKS_MS * 10**6  # clocks of clients may differ by as much


@plant
def below_acked_by_another_producer(copy: Copy) -> Expected:
    """The next record was acknowledged a slot of time before the slot of its send."""
    below = _called_after_the_next(copy, slots=2)
    return fails(of(Kind.BELOW_ACKED, below))


@plant
def near_below_acked_in_flight(copy: Copy) -> Expected:
    """The next record was acknowledged just before; clocks of clients may differ by as much."""
    _called_after_the_next(copy, slots=1)
    return passes()


@plant
def near_below_acked_at_a_wrong_offset(copy: Copy) -> Expected:
    """The acknowledgements of an early and of a late record name each other's offset: the log is in order."""
    pairs = borders(copy.original)
    early, late = pairs[len(pairs) // 3][0], pairs[len(pairs) * 2 // 3][0]
    copy.change("ledger", {"offset": late.offset}, **early.sent)
    copy.change("ledger", {"offset": early.offset}, **late.sent)
    return passes(wrong_ack_offset=2)


def _called_after_the_next(copy: Copy, slots: int) -> Record:
    """The send of a record was called so many slots of time after the next record was acknowledged."""
    times = {row["offset"]: row["timestamp_ms"] * 10**6 for row in copy.original.rows("observations", **DRAINED)}
    pairs = [(a, b) for a, b in borders(copy.original) if times[a.offset] // SLOT_NS == times[b.offset] // SLOT_NS]
    below, above = pairs[len(pairs) // 2]
    called_ns = (times[above.offset] // SLOT_NS + 1) * SLOT_NS
    acked_ns = called_ns - (slots - 1) * SLOT_NS - 1
    copy.change("ledger", {"called_ns": called_ns, "returned_ns": called_ns + 1}, **below.sent)
    copy.change("ledger", {"called_ns": acked_ns - 1, "returned_ns": acked_ns}, **above.sent)
    return below
