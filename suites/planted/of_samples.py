"""Plants in the samples of replicas: members of the ISR that lack records, log starts, and high watermarks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Broken, Expected, fails, passes
from suites.planted.plants import plant

# The fault of planted.toml kills the leader of plain/0, which is a follower of this partition.
_PLACE: Final[dict[str, Any]] = {"topic": "plain", "partition": 1}
_LACKS: Final = 2
_START: Final = 5
_S: Final = 10**9


def _samples(copy: Copy, broker: int) -> list[Row]:
    """The samples of a broker's replica, in the order of time."""
    return sorted(copy.original.rows("positions", broker=broker, **_PLACE), key=lambda row: row["at_ns"])


def _kill(copy: Copy) -> Any:
    """The fact that a broker is killed."""
    return next(f for step in copy.original.documents["steps"] for f in step["facts"] if f["kind"] == "stopped")


def _states(copy: Copy) -> list[Any]:
    """The states of the partition in the history."""
    rows = [row for row in copy.original.documents["history"]["changes"] if row["type"] == "partition"]
    return [row for row in rows if (row["topic"], row["partition"]) == (_PLACE["topic"], _PLACE["partition"])]


def _leader(copy: Copy) -> int:
    return int(_states(copy)[-1]["leader"])


def _follower(copy: Copy) -> int:
    """A follower on a broker that is not killed."""
    return min({1, 2, 3} - {_leader(copy), *_kill(copy)["nodes"]})


def _reported(copy: Copy, before_ns: int) -> int:
    """The highest high watermark that a leader had reported by then."""
    leaders = {row["leader_epoch"]: row["leader"] for row in reversed(_states(copy))}
    rows = [row for broker in (1, 2, 3) for row in _samples(copy, broker) if row["at_ns"] <= before_ns]
    own = (row["high_watermark"] for row in rows if leaders.get(row["leader_epoch"]) == row["broker"])
    return max((mark for mark in own if mark is not None), default=0)


def _reports(copy: Copy, row: Row, **values: int) -> None:
    """The broker of a sample reports these values in it."""
    copy.change("positions", values, broker=row["broker"], at_ns=row["at_ns"], **_PLACE)


def _lacking(copy: Copy) -> tuple[Row, list[Broken]]:
    """The last sample of the follower lacks records that its leader had reported a second before."""
    last = _samples(copy, _follower(copy))[-1]
    mark = _reported(copy, last["asked_ns"] - _S)
    _reports(copy, last, log_end=mark - _LACKS)
    lacks: list[Broken] = [(Kind.NOT_IN_SYNC.value, "plain", 1, offset) for offset in range(mark - _LACKS, mark)]
    return last, lacks


def _in_sync_again(copy: Copy, row: Row, left_ns: int, joined_ns: int, *, eligible: bool = False) -> None:
    """In the history, the replica of a sample is not in the ISR between these times. eligible: it is in the ELR."""
    last = _states(copy)[-1]
    with copy.document("history") as history:
        without = [broker for broker in last["isr"] if broker != row["broker"]]
        for isr, at_ns in ((without, left_ns), (last["isr"], joined_ns)):
            epoch = last["partition_epoch"] + (1 if isr == without else 2)
            elr = [row["broker"]] if eligible and isr == without else []
            changed = {"isr": isr, "elr": elr, "time_ns": at_ns, "partition_epoch": epoch, "offset": history["end"]}
            history["changes"].append(last | changed | {"created": False})
            history["end"] += 1


@plant
def not_in_sync(copy: Copy) -> Expected:
    _, lacks = _lacking(copy)
    return fails(lacks, by_documents=True)


@plant
def not_in_sync_as_it_joined(copy: Copy) -> Expected:
    """It left the ISR, and joined it again without everything below the high watermark."""
    row, lacks = _lacking(copy)
    _in_sync_again(copy, row, row["asked_ns"] - 3 * _S, row["asked_ns"] - 2 * _S)
    return fails(lacks, by_documents=True)


@plant
def near_not_in_sync_outside_the_isr(copy: Copy) -> Expected:
    row, _ = _lacking(copy)
    _in_sync_again(copy, row, row["asked_ns"] - 3 * _S, row["at_ns"] + 2 * _S)
    return passes()


@plant
def near_not_in_sync_with_what_came_later(copy: Copy) -> Expected:
    """A replica has what its leader had reported a second before, and nothing more."""
    rows = _samples(copy, _follower(copy))
    grown = [row for row, after in pairwise(rows) if after["at_ns"] - row["at_ns"] < 3 * _S]
    row = next(r for r in reversed(grown) if r["log_end"] > _reported(copy, r["asked_ns"] - _S))
    _reports(copy, row, log_end=_reported(copy, row["asked_ns"] - _S))
    return passes()


@plant
def wrongly_eligible(copy: Copy) -> Expected:
    """A replica leaves the ISR for the ELR and lacks records."""
    row, lacks = _lacking(copy)
    _in_sync_again(copy, row, row["asked_ns"] - 3 * _S, row["at_ns"] + 2 * _S, eligible=True)
    return fails([(Kind.WRONGLY_ELIGIBLE.value, *one[1:]) for one in lacks], by_documents=True)


@plant
def near_wrongly_eligible_with_every_record(copy: Copy) -> Expected:
    row = _samples(copy, _follower(copy))[-1]
    _in_sync_again(copy, row, row["asked_ns"] - 3 * _S, row["at_ns"] + 2 * _S, eligible=True)
    return passes()


@plant
def wrongly_eligible_after_a_sudden_end(copy: Copy) -> Expected:
    """The next process of a killed broker registers, and the broker stays in the ELR."""
    _stays_eligible(copy)
    return fails([(Kind.WRONGLY_ELIGIBLE.value, "plain", 1, None)], by_documents=True)


@plant
def near_wrongly_eligible_after_a_controlled_shutdown(copy: Copy) -> Expected:
    _stays_eligible(copy)
    with copy.document("steps") as steps:
        for step in steps:
            for fact in step["facts"]:
                if fact["kind"] == "stopped":
                    fact["how"] = "cleanly"
    return passes()


def _stays_eligible(copy: Copy) -> None:
    """In the history, the killed broker is in the ELR when it registers again."""
    kill = _kill(copy)
    (killed,) = kill["nodes"]
    with copy.document("history") as history:
        changes = history["changes"]
        again = next(
            number
            for number, row in enumerate(changes)
            if row["type"] == "broker"
            and (row["event"], row["broker"]) == ("registered", killed)
            and row["time_ns"] > kill["to_ns"]
        )
        before = [row for row in changes[:again] if row["type"] == "partition" and row["topic"] == "plain"]
        state = [row for row in before if row["partition"] == 1][-1]
        place = {name: changes[again][name] for name in ("offset", "time_ns", "controller_epoch")}
        isr = [broker for broker in state["isr"] if broker != killed]
        changes.insert(again, state | place | {"isr": isr, "elr": [killed], "created": False})
        for row in changes[again:]:
            if row["type"] == "partition" and (row["topic"], row["partition"]) == ("plain", 1):
                row["partition_epoch"] += 1


def _starts_at(copy: Copy, broker: int, from_ns: int, to_ns: int) -> None:
    """The samples of a broker of these times report a log start above 0."""
    times = {row["at_ns"] for row in _samples(copy, broker) if from_ns <= row["at_ns"] <= to_ns}
    copy.change("positions", {"log_start": _START}, broker=broker, at_ns=times, **_PLACE)


def _starts(count: int = _START) -> list[Broken]:
    return [(Kind.LOG_START.value, "plain", 1, offset) for offset in range(count)]


@plant
def log_start_moved_back(copy: Copy) -> Expected:
    """Without any end of its broker."""
    epoch = _states(copy)[-1]["leader_epoch"]
    rows = [row for row in _samples(copy, _follower(copy)) if row["leader_epoch"] == epoch]
    _starts_at(copy, rows[0]["broker"], rows[0]["at_ns"], rows[-2]["at_ns"])
    return fails(_starts(), by_documents=True)


@plant
def near_log_start_moved_back_after_a_sudden_end(copy: Copy) -> Expected:
    """The broker is killed before it has written its log start to disk."""
    kill = _kill(copy)
    (killed,) = kill["nodes"]
    returned = [row["at_ns"] for row in _samples(copy, killed) if row["at_ns"] > kill["to_ns"]]
    _starts_at(copy, killed, kill["from_ns"] - 30 * _S, returned[0] - 1)
    return passes()


@plant
def log_start_that_a_follower_does_not_learn(copy: Copy) -> Expected:
    for broker in {1, 2, 3} - {_follower(copy)}:
        _starts_at(copy, broker, 0, 2**62)
    return fails(_starts(), by_documents=True)


@plant
def near_log_start_that_a_follower_has_not_learned_yet(copy: Copy) -> Expected:
    """The leader reports it with its last high watermark only."""
    rows = _samples(copy, _leader(copy))
    last = next(row for row in rows if row["high_watermark"] == rows[-1]["high_watermark"])
    _starts_at(copy, _leader(copy), last["at_ns"], 2**62)
    return passes()


def _received(copy: Copy) -> tuple[Row, Row]:
    """The last sample of the leader, and the highest record that a live reader had received by then."""
    sample = _samples(copy, _leader(copy))[-1]
    polls = copy.original.rows("observations", kind="live", **_PLACE)
    before = [row for row in polls if (row["given_ns"] or 2**62) <= sample["asked_ns"]]
    return sample, max(before, key=lambda row: (row["offset"], row["reader"]))


def _marked_at(copy: Copy, row: Row, high_watermark: int) -> None:
    _reports(copy, row, high_watermark=high_watermark, last_stable_offset=high_watermark)


@plant
def above_high_watermark(copy: Copy) -> Expected:
    """The leader reports a high watermark below what it has given."""
    sample, highest = _received(copy)
    mark = highest["offset"] - 1
    _marked_at(copy, sample, mark)
    above = [(Kind.ABOVE_HIGH_WATERMARK.value, "plain", 1, offset) for offset in (mark, mark + 1)]
    return fails(above, by_documents=True)


@plant
def near_above_high_watermark_received_just_below(copy: Copy) -> Expected:
    sample, highest = _received(copy)
    _marked_at(copy, sample, highest["offset"] + 1)
    return passes()


@plant
def near_above_high_watermark_reported_before(copy: Copy) -> Expected:
    """A record that is received after the report."""
    sample, highest = _received(copy)
    rows = pairwise(_samples(copy, sample["broker"]))
    grown = [row for row, after in rows if after["at_ns"] - row["at_ns"] < 3 * _S]  # its values do not last longer
    before = [row for row in grown if row["asked_ns"] < highest["given_ns"]]
    earlier = [r for r in copy.original.rows("observations", kind="live", **_PLACE) if r["given_ns"]]
    given = [row["offset"] for row in earlier if row["given_ns"] <= before[-1]["at_ns"]]
    _marked_at(copy, before[-1], max(given) + 1)
    return passes()


@plant
def near_above_high_watermark_of_a_follower(copy: Copy) -> Expected:
    sample, highest = _received(copy)
    own = _samples(copy, _follower(copy))[-1]
    _marked_at(copy, own, min(highest["offset"], sample["high_watermark"]) - 1)
    return passes()


def _behind(copy: Copy, since_s: int) -> Row:
    """The follower reports one high watermark in its last samples, for so long. Returns the last one, as it was."""
    rows = _samples(copy, _follower(copy))
    from_ns = rows[-1]["asked_ns"] - since_s * _S
    mark = _reported(copy, from_ns)
    times = {row["at_ns"] for row in rows if row["asked_ns"] >= from_ns}
    values = {"high_watermark": mark, "last_stable_offset": mark}
    copy.change("positions", values, broker=_follower(copy), at_ns=times, **_PLACE)
    return rows[-1]


@plant
def unserved_by_a_follower(copy: Copy) -> Expected:
    """For 10 s it does not learn what its leader reports."""
    last = _behind(copy, 15)
    first, end = _reported(copy, last["asked_ns"] - 15 * _S), _reported(copy, last["asked_ns"] - 10 * _S)
    assert first < end, "nothing was written in these seconds"
    return fails([(Kind.UNSERVED.value, "plain", 1, offset) for offset in range(first, end)], by_documents=True)


@plant
def near_unserved_by_a_follower_for_a_moment(copy: Copy) -> Expected:
    _behind(copy, 8)
    return passes()


@plant
def near_unserved_by_a_follower_outside_the_isr(copy: Copy) -> Expected:
    last = _behind(copy, 15)
    _in_sync_again(copy, last, last["asked_ns"] - 17 * _S, last["at_ns"] + 2 * _S)
    return passes()


# --- high watermarks of leaders, in a topic without live readers ---

_UNREAD: Final[dict[str, Any]] = {"topic": "far", "partition": 0}


def _still(copy: Copy, since_s: int) -> tuple[int, int]:
    """Without the broker that was killed, the ISR is the same for long, and for so many seconds the leader reports one
    high watermark. Returns it, and where the logs of the ISR ended 10 s before the last report."""
    changes = copy.original.documents["history"]["changes"]
    state = [r for r in changes if r["type"] == "partition" and r["topic"] == _UNREAD["topic"]][-1]
    (killed,) = _kill(copy)["nodes"]
    rows = sorted(copy.original.rows("positions", broker=state["leader"], **_UNREAD), key=lambda row: row["at_ns"])
    last = rows[-1]
    with copy.document("history") as history:
        without = [broker for broker in state["isr"] if broker != killed]
        times = (without, last["asked_ns"] - 20 * _S), (state["isr"], last["at_ns"] + 2 * _S)
        for nth, (isr, at_ns) in enumerate(times, start=1):
            changed = {"isr": isr, "time_ns": at_ns, "offset": history["end"], "created": False}
            changed["partition_epoch"] = state["partition_epoch"] + nth
            history["changes"].append(state | changed)
            history["end"] += 1
    since = [row for row in rows if row["asked_ns"] >= last["asked_ns"] - since_s * _S]
    mark = since[0]["high_watermark"]
    values = {"high_watermark": mark, "last_stable_offset": mark}
    copy.change("positions", values, broker=state["leader"], at_ns={row["at_ns"] for row in since}, **_UNREAD)
    ends = []
    for broker in without:
        own = copy.original.rows("positions", broker=broker, **_UNREAD)
        before = [row for row in own if row["at_ns"] <= last["asked_ns"] - 10 * _S]
        ends.append(max(before, key=lambda row: row["at_ns"])["log_end"])
    return mark, min(ends)


@plant
def unserved_by_a_leader_whose_mark_stands_still(copy: Copy) -> Expected:
    mark, end = _still(copy, 15)
    assert mark < end, "nothing was written in these seconds"
    return fails([(Kind.UNSERVED.value, "far", 0, offset) for offset in range(mark, end)], by_documents=True)


@plant
def near_unserved_by_a_leader_whose_mark_stands_still_for_a_moment(copy: Copy) -> Expected:
    _still(copy, 8)
    return passes()


# --- followers that lag behind ---


def _lags(copy: Copy, after_s: int) -> None:
    """After the last sample the leader has two more records, and so long afterwards a follower in sync lacks them."""
    led, lacking = _samples(copy, _leader(copy))[-1], _samples(copy, _follower(copy))[-1]
    begun_ns = max(led["at_ns"], lacking["at_ns"]) + _S
    more = {"log_end": led["log_end"] + 2, "asked_ns": begun_ns, "at_ns": begun_ns, "after_silence": True}
    late = {"asked_ns": begun_ns + after_s * _S, "at_ns": begun_ns + after_s * _S, "after_silence": True}
    copy.add("positions", [led | more, lacking | late])


@plant
def unavailable_behind_a_follower_that_lags(copy: Copy) -> Expected:
    _lags(copy, 23)
    return fails([(Kind.UNAVAILABLE.value, "plain", 1, None)], by_documents=True)


@plant
def near_unavailable_behind_a_follower_that_lagged_just_now(copy: Copy) -> Expected:
    _lags(copy, 22)
    return passes()


# --- fenced brokers ---


@plant
def not_in_sync_while_it_is_fenced(copy: Copy) -> Expected:
    """The controllers fence a follower for a moment, and leave it in every ISR."""
    broker = _follower(copy)
    with copy.document("history") as history:
        changes = history["changes"]
        states = {(r["topic_id"], r["partition"]): r for r in changes if r["type"] == "partition"}
        first = next(state for state in states.values() if broker in state["isr"])
        registered = [r for r in changes if r["type"] == "broker" and r["broker"] == broker][-1]
        for event in ("fenced", "unfenced"):
            changes.append(registered | {"event": event, "fenced": event == "fenced", "offset": history["end"]})
            history["end"] += 1
    return fails([(Kind.NOT_IN_SYNC.value, first["topic"], first["partition"], None)], by_documents=True)


@plant
def near_not_in_sync_when_it_is_fenced_after_it_left(copy: Copy) -> Expected:
    """The controllers fence the broker that was killed once more, before it registers again."""
    with copy.document("history") as history:
        changes = history["changes"]
        fenced = next(r for r in changes if r["type"] == "broker" and r["event"] == "fenced")
        changes.insert(changes.index(fenced) + 1, dict(fenced))
    return passes()
