"""Plants on a compacted topic: what a cleaner may take of a key, and what it may not."""

from __future__ import annotations

from collections.abc import Collection

from harness.model.finding import Kind
from suites.planted.copies import Copy, Original
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import COMMITTED, forget, named, plant, records

_FOLLOWER = 1  # a broker that has a copy of "keys" and does not lead it
_BROKERS = (1, 2, 3)


def _keys(original: Original, *, deleted: bool) -> list[Record]:
    """All records of one key, in order: the last one is a tombstone, or a value, and before it there is a value.

    No answer about times names any of them, no read from anywhere was given the last two, and another batch follows.
    """
    rows = {(row["stream"], row["seq"]): row for row in original.rows("ledger", topic="keys", outcome="acked")}
    of_key: dict[int, list[Record]] = {}
    for record in records(original, "keys", 0):
        of_key.setdefault(rows[record.stream, record.seq]["key_hash"], []).append(record)
    probed = {row["offset"] for row in original.rows("observations", topic="keys", partition=0, kind="probe")}
    reported = named(original, "keys", 0)
    last = min(_last_batch(original, broker) for broker in _BROKERS)
    for found in of_key.values():
        dead = [rows[r.stream, r.seq]["value"] == "null" for r in found]
        offsets = [r.offset for r in found]
        if len(found) < 3 or reported & {*offsets} or probed & {*offsets[-2:]} or offsets[-1] >= last:
            continue
        if dead[-2:] == [False, deleted]:
            return found
    raise AssertionError("no key of keys/0 ends so")


def _last_batch(original: Original, broker: int) -> int:
    """Where the last batch of "keys" begins on a disk."""
    return int(max(row["base_offset"] for row in original.rows("batches", topic="keys", partition=0, broker=broker)))


def _bury_at_once(copy: Copy) -> None:
    """A tombstone may go as soon as it has been there."""
    with copy.document("run") as run:
        run["contract"]["topics"]["keys"]["delete_retention_ms"] = 0


def _clean(copy: Copy, *gone: Record, brokers: Collection[int] = _BROKERS) -> None:
    """Takes records out of batches on disks, and has the last batch of each log begin a segment: in the one that is
    written no cleaner works."""
    for broker in brokers:
        last = _last_batch(copy.original, broker)
        for batch in copy.original.rows("batches", topic="keys", partition=0, broker=broker):
            taken = sum(batch["base_offset"] <= record.offset <= batch["last_offset"] for record in gone)
            if taken:
                where = {"topic": "keys", "partition": 0, "broker": broker, "base_offset": batch["base_offset"]}
                copy.change("batches", {"count": batch["count"] - taken}, **where)
        copy.change("batches", {"segment": last}, topic="keys", partition=0, broker=broker, base_offset=last)


def _leave_to_the_follower(copy: Copy, *left: Record) -> None:
    for record in left:
        for row in copy.original.rows("observations", **record.at):
            if row["replica"] != _FOLLOWER:
                copy.drop("observations", **record.at, reader=row["reader"], session=row["session"])


@plant
def lost_newest_of_a_key(copy: Copy) -> Expected:
    newest = _keys(copy.original, deleted=False)[-1]
    forget(copy, newest)
    return fails(of(Kind.LOST, newest))


@plant
def near_lost_older_of_a_key(copy: Copy) -> Expected:
    *older, _ = _keys(copy.original, deleted=False)
    forget(copy, *older)
    _clean(copy, *older)
    return passes(excused=of(Kind.LOST, *older))


@plant
def lost_older_of_a_key_that_is_on_disks(copy: Copy) -> Expected:
    """No reader is given it any more, and no cleaner was at work."""
    *older, _ = _keys(copy.original, deleted=False)
    forget(copy, *older)
    return fails(of(Kind.LOST, *older))


@plant
def lost_older_of_a_key_that_is_hidden(copy: Copy) -> Expected:
    """One isolation alone does not show it: it is there."""
    *older, _ = _keys(copy.original, deleted=False)
    forget(copy, *older, kinds=["drain"], isolation=COMMITTED)
    return fails(of(Kind.LOST, *older))


@plant
def lost_tombstone_too_early(copy: Copy) -> Expected:
    """With what it deletes, on every copy, and its time is not over."""
    *older, tombstone = _keys(copy.original, deleted=True)
    forget(copy, *older, tombstone)
    _clean(copy, *older, tombstone)
    return fails(of(Kind.LOST, tombstone)).with_excused(of(Kind.LOST, *older))


@plant
def near_lost_tombstone_in_its_time(copy: Copy) -> Expected:
    gone = _keys(copy.original, deleted=True)
    _bury_at_once(copy)
    forget(copy, *gone)
    _clean(copy, *gone)
    return passes(excused=of(Kind.LOST, *gone))


@plant
def lost_tombstone_of_a_value_that_is_back(copy: Copy) -> Expected:
    """Its time is over, and what it deletes is there: a reader takes the older value for the key's."""
    tombstone = _keys(copy.original, deleted=True)[-1]
    _bury_at_once(copy)
    forget(copy, tombstone)
    return fails(of(Kind.LOST, tombstone))


@plant
def replica_divergence_of_a_value_that_is_back(copy: Copy) -> Expected:
    """The same on one follower alone, which may lead next."""
    tombstone = _keys(copy.original, deleted=True)[-1]
    _bury_at_once(copy)
    forget(copy, tombstone, kinds=["replica"], replica=_FOLLOWER)
    return fails(of(Kind.REPLICA_DIVERGENCE, tombstone))


@plant
def replica_divergence_of_a_value_that_one_has_alone(copy: Copy) -> Expected:
    """Everybody else's cleaner has taken it with its tombstone; of this follower only the tombstone is gone."""
    *older, tombstone = _keys(copy.original, deleted=True)
    _bury_at_once(copy)
    forget(copy, tombstone)
    back = older[-1]
    forget(copy, *older[:-1])
    _leave_to_the_follower(copy, back)
    _clean(copy, *older, tombstone)
    excused = of(Kind.LOST, *older, tombstone)
    return fails(of(Kind.REPLICA_DIVERGENCE, back)).with_excused(excused)


@plant
def near_replica_that_has_buried_a_key(copy: Copy) -> Expected:
    """One follower's cleaner was there before the leader's."""
    gone = _keys(copy.original, deleted=True)
    _bury_at_once(copy)
    forget(copy, *gone, kinds=["replica"], replica=_FOLLOWER)
    _clean(copy, *gone, brokers=[_FOLLOWER])
    return passes(excused=of(Kind.REPLICA_DIVERGENCE, *gone))


@plant
def near_replica_that_has_not_buried_a_key(copy: Copy) -> Expected:
    """And this one's comes last: it has the value and its tombstone."""
    gone = _keys(copy.original, deleted=True)
    _bury_at_once(copy)
    _leave_to_the_follower(copy, *gone)
    _clean(copy, *gone, brokers=[broker for broker in _BROKERS if broker != _FOLLOWER])
    return passes(excused=of(Kind.LOST, *gone))
