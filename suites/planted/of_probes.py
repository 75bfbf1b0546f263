"""Plants in what reads from anywhere were given, each beside its near miss."""

from __future__ import annotations

from typing import Any

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, fails, passes
from suites.planted.plants import plant


def _read(copy: Copy, *, topic: str = "plain", isolation: str = "read_committed") -> tuple[Row, list[Row]]:
    """A read that was given some records of a topic that keeps all, and these."""
    for probe in copy.original.rows("probes", topic=topic, isolation=isolation, why="batch"):
        given = copy.original.rows("observations", **_of(probe))
        if len(given) >= 5 and given[0]["offset"] == probe["offset"]:
            return probe, given
    raise AssertionError(f"no read of {topic} as {isolation} was given anything")


def _of(probe: Row) -> dict[str, Any]:
    return {name: probe[name] for name in ("reader", "session", "topic", "partition")}


def _broken(kind: Kind, *rows: Row) -> list[tuple[str, str, int, int]]:
    return [(kind.value, row["topic"], row["partition"], row["offset"]) for row in rows]


@plant
def skipped_read_from_an_offset(copy: Copy) -> Expected:
    """It begins two records behind the offset that was asked for."""
    probe, given = _read(copy)
    copy.drop("observations", **_of(probe), offset=[row["offset"] for row in given[:2]])
    return fails(_broken(Kind.SKIPPED_READ, *given[:2]))


@plant
def skipped_read_by_a_member_that_goes_on(copy: Copy) -> Expected:
    """The group had committed an offset, and its new member is not given the record there."""
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
def skipped_read_before_an_end_that_is_none(copy: Copy) -> Expected:
    """It is told that there is no more, and there is one record."""
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
def near_skipped_read_that_was_not_to_the_end(copy: Copy) -> Expected:
    """Its time was over: what it was given is right, and what follows it was not told."""
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
    """A read below the start of a log, and what a reader was given there before it was deleted."""
    for probe in copy.original.rows("probes", why="below_log_start", topic="sized"):
        seen = copy.original.rows("observations", topic="sized", reader="committed", offset=probe["offset"])
        if seen:
            return probe, seen[0]
    raise AssertionError("nobody read below the start of sized")


@plant
def log_start_below_which_records_are_served(copy: Copy) -> Expected:
    probe, deleted = _below(copy)
    served = deleted | {"kind": "probe", "given_ns": None} | _of(probe)
    copy.add("observations", [served | {"isolation": probe["isolation"]}])
    copy.change("probes", {"reported": "silent", "records": 1}, **_of(probe))
    return fails(_broken(Kind.LOG_START, deleted))


@plant
def near_log_start_that_a_read_below_it_is_sent_to(copy: Copy) -> Expected:
    """Out of range, or what is at the start: both are right."""
    probe, _ = _below(copy)
    there = copy.original.rows("observations", topic="sized", kind="drain", isolation=probe["isolation"])[:3]
    copy.add("observations", [row | {"kind": "probe", "replica": None} | _of(probe) for row in there])
    copy.change("probes", {"reported": "silent", "records": 3}, **_of(probe))
    return passes()
