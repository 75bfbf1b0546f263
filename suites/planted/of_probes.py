"""Plants in reads from arbitrary offsets, each with its near miss."""

from __future__ import annotations

from typing import Any

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, fails, passes
from suites.planted.plants import plant


def _read(copy: Copy, *, topic: str = "plain", isolation: str = "read_committed") -> tuple[Row, list[Row]]:
    """A read that returned some records of a topic without deletions, and these records."""
    for probe in copy.original.rows("probes", topic=topic, isolation=isolation, why="batch"):
        given = copy.original.rows("observations", **_of(probe))
        if len(given) >= 5 and given[0]["offset"] == probe["offset"]:
            return probe, given
    raise AssertionError(f"no read of {topic} as {isolation} returned five records")


def _of(probe: Row) -> dict[str, Any]:
    return {name: probe[name] for name in ("reader", "session", "topic", "partition")}


def _broken(kind: Kind, *rows: Row) -> list[tuple[str, str, int, int]]:
    return [(kind.value, row["topic"], row["partition"], row["offset"]) for row in rows]


@plant
def skipped_read_from_an_offset(copy: Copy) -> Expected:
    """It starts two records after the requested offset."""
    probe, given = _read(copy)
    copy.drop("observations", **_of(probe), offset=[row["offset"] for row in given[:2]])
    return fails(_broken(Kind.SKIPPED_READ, *given[:2]))


@plant
def skipped_read_by_a_member_that_continues(copy: Copy) -> Expected:
    """The group had committed an offset, and its new member does not receive the record there."""
    probe = next(p for p in copy.original.rows("probes", why="commit") if p["records"])
    given = copy.original.rows("observations", **_of(probe))
    copy.drop("observations", **_of(probe), offset=given[0]["offset"])
    return fails(_broken(Kind.SKIPPED_READ, given[0]))


@plant
def skipped_read_of_an_offset_that_is_denied(copy: Copy) -> Expected:
    probe, _ = _read(copy)
    copy.drop("observations", **_of(probe))
    copy.change("probes", {"reported": "out_of_range", "records": 0}, **_of(probe))
    return fails(_broken(Kind.SKIPPED_READ, probe))


@plant
def skipped_read_before_a_false_end(copy: Copy) -> Expected:
    """The end of the log is reported, and one more record exists."""
    probe, given = _read(copy)
    copy.drop("observations", **_of(probe), offset=[row["offset"] for row in given[-1:]])
    copy.change("probes", {"reported": "end", "end_offset": given[-1]["offset"] + 1}, **_of(probe))
    return fails(_broken(Kind.SKIPPED_READ, given[-1]))


@plant
def near_skipped_read_of_what_is_deleted_meanwhile(copy: Copy) -> Expected:
    probe, given = _read(copy)
    copy.drop("observations", **_of(probe), offset=[row["offset"] for row in given[:2]])
    copy.change("probes", {"log_start_after": given[2]["offset"]}, **_of(probe))
    return passes()


@plant
def near_skipped_read_that_timed_out(copy: Copy) -> Expected:
    """The read timed out: its records are correct, and the next ones were not requested."""
    probe, given = _read(copy)
    copy.drop("observations", **_of(probe), offset=[row["offset"] for row in given[2:]])
    copy.change("probes", {"reported": "silent", "records": 2, "end_offset": None}, **_of(probe))
    return passes()


@plant
def conflicting_for_a_read_from_an_offset(copy: Copy) -> Expected:
    probe, given = _read(copy)
    other = {name: given[3][name] for name in ("stream", "seq")}
    copy.change("observations", other, **_of(probe), offset=given[1]["offset"])
    return fails(_broken(Kind.CONFLICTING, given[1]))


def _below(copy: Copy) -> tuple[Row, Row]:
    """A read below a log start, and a record that a reader received there before it was deleted."""
    for probe in copy.original.rows("probes", why="below_log_start", topic="sized"):
        seen = copy.original.rows("observations", topic="sized", reader="committed", offset=probe["offset"])
        if seen:
            return probe, seen[0]
    raise AssertionError("no read started below the log start of sized")


@plant
def log_start_below_which_records_are_served(copy: Copy) -> Expected:
    probe, deleted = _below(copy)
    served = deleted | {"kind": "probe", "given_ns": None} | _of(probe)
    copy.add("observations", [served | {"isolation": probe["isolation"]}])
    copy.change("probes", {"reported": "silent", "records": 1}, **_of(probe))
    return fails(_broken(Kind.LOG_START, deleted))


@plant
def near_log_start_returned_for_a_read_below_it(copy: Copy) -> Expected:
    """Out of range, or the records at the log start: both are correct."""
    probe, _ = _below(copy)
    there = copy.original.rows("observations", topic="sized", kind="drain", isolation=probe["isolation"])[:3]
    copy.add("observations", [row | {"kind": "probe", "replica": None} | _of(probe) for row in there])
    copy.change("probes", {"reported": "silent", "records": 3}, **_of(probe))
    return passes()
