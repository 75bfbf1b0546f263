"""Plants in the deliveries to a share group, with records in a topic of their own."""

from __future__ import annotations

from harness.model.finding import Kind
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Expected, Record, doubtful, fails, of, passes
from suites.planted.of_coordinators import states_of
from suites.planted.plants import forget, partition_added, plant, records

TOPIC = "tasks"
READER = "sharer"
LIMIT = 5  # share.delivery.count.limit of brokers
_WRONG = (Kind.WRONG_COORDINATOR_STATE.value, TOPIC, 0, None)
LOCK_NS = 30 * 10**9  # share.record.lock.duration.ms of brokers


def _accepted_once(original: Original) -> Record:
    """A record from the middle that the group received and accepted, once."""
    accepted = original.rows("deliveries", topic=TOPIC, answer="accept", outcome="acked", count=1)
    offsets = {row["offset"] for row in accepted}
    found = [record for record in records(original, TOPIC, 0) if record.offset in offsets]
    return found[len(found) // 2]


def _again(copy: Copy, record: Record, answers: list[str | None], outcome: str | None = "acked") -> None:
    """Further deliveries of a record, each when the lock of the last one has ended."""
    (row,) = copy.original.rows("deliveries", **record.at)
    copy.add(
        "deliveries",
        [
            row
            | {"count": 2 + n, "answer": answer, "outcome": outcome if answer else None}
            | _later(row, (1 + n) * LOCK_NS)
            for n, answer in enumerate(answers)
        ],
    )


def _later(row: Row, late_ns: int) -> Row:
    """The times of a delivery that came later than this one."""
    return {"given_ns": row["given_ns"] + late_ns, "returned_ns": row["returned_ns"] + late_ns}


@plant
def never_delivered(copy: Copy) -> Expected:
    """Its member passes it, which alone proves nothing: the group is found to have left it out, once."""
    gone = _accepted_once(copy.original)
    copy.drop("deliveries", **gone.at)
    forget(copy, gone, kinds=["live"], reader=READER)
    return fails(of(Kind.SKIPPED_READ, gone))


@plant
def near_skipped_read_delivered_to_another_member(copy: Copy) -> Expected:
    """Its member passes it within a session, because another member has it."""
    other = _accepted_once(copy.original)
    for table in ("deliveries", "observations"):
        copy.change(table, {"reader": "another"}, **other.at, reader=READER)
    return passes()


@plant
def held_by_a_dead_member_and_not_delivered_again(copy: Copy) -> Expected:
    gone = _accepted_once(copy.original)
    copy.change("deliveries", {"answer": None, "outcome": None, "returned_ns": None}, **gone.at)
    return fails(of(Kind.SKIPPED_READ, gone))


@plant
def released_below_the_limit_and_not_delivered_again(copy: Copy) -> Expected:
    gone = _accepted_once(copy.original)
    copy.change("deliveries", {"answer": "release"}, **gone.at)
    return fails(of(Kind.SKIPPED_READ, gone))


@plant
def near_skipped_read_released_up_to_the_limit(copy: Copy) -> Expected:
    gone = _accepted_once(copy.original)
    copy.change("deliveries", {"answer": "release"}, **gone.at)
    _again(copy, gone, ["release"] * (LIMIT - 1))
    return passes(excused=of(Kind.SKIPPED_READ, gone))


@plant
def near_skipped_read_delivered_again_after_a_death(copy: Copy) -> Expected:
    again = _accepted_once(copy.original)
    _again(copy, again, ["accept"])
    copy.change("deliveries", {"answer": None, "outcome": None, "returned_ns": None}, **again.at, count=1)
    return passes()


@plant
def accepted_and_delivered_again(copy: Copy) -> Expected:
    """The second accept was acknowledged, so the group delivered it again."""
    again = _accepted_once(copy.original)
    _again(copy, again, ["accept"])
    return fails(of(Kind.COMMIT_REGRESSED, again))


@plant
def near_commit_regressed_accepted_too_late(copy: Copy) -> Expected:
    """A delivery in flight when another one was accepted: its accept was not acknowledged."""
    again = _accepted_once(copy.original)
    _again(copy, again, ["accept"], outcome="unknown")
    return passes()


@plant
def delivered_above_the_limit(copy: Copy) -> Expected:
    """The last delivery counts one more than the limit, at which the record is archived."""
    again = _accepted_once(copy.original)
    copy.change("deliveries", {"count": LIMIT + 1}, **again.at)
    return fails(of(Kind.COMMIT_REGRESSED, again))


@plant
def near_commit_regressed_delivered_up_to_the_limit(copy: Copy) -> Expected:
    again = _accepted_once(copy.original)
    copy.change("deliveries", {"count": LIMIT}, **again.at)
    return passes()


@plant
def released_and_not_counted(copy: Copy) -> Expected:
    """The group forgot that a member had released the record."""
    again = _accepted_once(copy.original)
    _released_first(copy, again, count=1)
    return fails(of(Kind.COMMIT_REGRESSED, again))


@plant
def near_commit_regressed_released_and_counted(copy: Copy) -> Expected:
    again = _accepted_once(copy.original)
    _released_first(copy, again, count=2)
    return passes()


@plant
def near_commit_regressed_released_without_an_answer(copy: Copy) -> Expected:
    """The group may not have received the release."""
    again = _accepted_once(copy.original)
    _released_first(copy, again, count=1)
    copy.change("deliveries", {"outcome": "unknown"}, **again.at, answer="release")
    return passes()


def _released_first(copy: Copy, record: Record, count: int) -> None:
    """A member releases the record, and the next delivery of it, after that, has this count and is accepted."""
    (row,) = copy.original.rows("deliveries", **record.at)
    copy.change("deliveries", {"answer": "release"}, **record.at)
    copy.add("deliveries", [row | {"count": count} | _later(row, row["returned_ns"] - row["given_ns"] + 10**9)])


@plant
def delivered_to_another_member_within_the_lock(copy: Copy) -> Expected:
    """No step ran at that time, and the other member never answered."""
    again = _in_peace(copy)
    (row,) = copy.original.rows("deliveries", **again.at)
    unanswered = {"reader": "another", "answer": None, "outcome": None, "returned_ns": None}
    copy.add("deliveries", [row | unanswered | {"given_ns": row["given_ns"] + 10**6}])
    return fails(of(Kind.COMMIT_REGRESSED, again))


@plant
def near_commit_regressed_delivered_again_when_the_lock_had_ended(copy: Copy) -> Expected:
    again = _in_peace(copy)
    (row,) = copy.original.rows("deliveries", **again.at)
    unanswered = {"reader": "another", "answer": None, "outcome": None, "returned_ns": None}
    copy.add("deliveries", [row | unanswered | {"given_ns": row["given_ns"] + LOCK_NS}])
    return passes()


def _in_peace(copy: Copy) -> Record:
    """The last record that the group accepted once: no fault was active, and no leader elected, shortly before."""
    accepted = copy.original.rows("deliveries", topic=TOPIC, answer="accept", outcome="acked", count=1)
    last = max(accepted, key=lambda row: (row["given_ns"], row["offset"]))
    return next(record for record in records(copy.original, TOPIC, 0) if record.offset == last["offset"])


@plant
def share_group_done_with_more_than_there_is(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        (row,) = (row for row in cluster["share_groups"] if row["partition"] == 0)
        (at,) = (at for at in cluster["snapshots"][-1]["partitions"] if (at["topic"], at["partition"]) == (TOPIC, 0))
        row["start"] = max(log["log_end"] for log in at["logs"]) + 1
    return fails([_WRONG], by_documents=True)


@plant
def share_group_went_back(copy: Copy) -> Expected:
    """Its coordinator answers what its log says, and both have forgotten the last record with which it was done."""
    for state in states_of(copy, "share_state", "sharers"):
        for value in (state["logged"], state["answered"], *(each["logged"] for each in state["copies"])):
            value["start"] -= 1
    return fails([_WRONG], by_documents=True)


@plant
def near_skipped_read_from_before_the_group_began(copy: Copy) -> Expected:
    before = _before_it_began(copy)
    return passes(excused=of(Kind.SKIPPED_READ, *before))


@plant
def never_delivered_after_the_group_began(copy: Copy) -> Expected:
    """The group begins at the log end, and leaves out a record that was written later."""
    gone = _accepted_once(copy.original)
    before = _before_it_began(copy)
    copy.drop("deliveries", **gone.at)
    forget(copy, gone, kinds=["live"], reader=READER)
    return fails(of(Kind.SKIPPED_READ, gone)).with_excused(of(Kind.SKIPPED_READ, *before))


def _before_it_began(copy: Copy) -> list[Record]:
    """The group begins at the log end instead of the log start, after these records."""
    before = records(copy.original, TOPIC, 0)[:5]
    for record in before:
        copy.drop("deliveries", **record.at)
        forget(copy, record, kinds=["live"], reader=READER)
    with copy.document("run") as run:
        for share in run["contract"]["shares"].values():
            share["reset"] = "latest"
    return before


@plant
def first_records_of_an_added_partition_never_delivered(copy: Copy) -> Expected:
    """The group knew the topic before, so it must begin at the first record of the partition."""
    gone = _before_it_began(copy)
    partition_added(copy, TOPIC, 0, step=-1)
    return fails(of(Kind.SKIPPED_READ, *gone))


@plant
def near_skipped_read_of_a_partition_that_was_added_before_the_group_began(copy: Copy) -> Expected:
    """No answer of the group had been acknowledged when the step began."""
    before = _before_it_began(copy)
    added_ns = partition_added(copy, TOPIC, 0, step=0)
    answered = copy.original.rows("deliveries", topic=TOPIC, outcome="acked")
    early = {row["offset"] for row in answered if row["returned_ns"] <= added_ns} - {r.offset for r in before}
    if early:  # in some runs the first answer comes later
        copy.change("deliveries", {"outcome": "unknown"}, topic=TOPIC, offset=early)
    return passes(excused=of(Kind.SKIPPED_READ, *before))


@plant
def share_group_not_finished(copy: Copy) -> Expected:
    _left(copy, 0)
    return doubtful("share_undrained")


@plant
def share_group_stuck(copy: Copy) -> Expected:
    """For longer than a member may hold a record."""
    _left(copy, 60)
    return fails([(Kind.GROUP_UNSETTLED.value, "tasks", 0, None)], doubts=["share_undrained"], by_documents=True)


@plant
def near_share_group_stuck_for_a_moment(copy: Copy) -> Expected:
    _left(copy, 40)
    return doubtful("share_undrained")


def _left(copy: Copy, unchanged_s: int) -> None:
    """The group has an offset left, and all answers of the last seconds said so."""
    with copy.document("cluster") as cluster:
        for row in cluster["share_groups"]:
            row |= {"lag": 1, "unchanged_ns": row["at_ns"] - unchanged_s * 10**9}
