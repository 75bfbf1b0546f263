"""Plants on a compacted topic: records of a key that a cleaner may remove, and those that it may not."""

from __future__ import annotations

from collections.abc import Collection

from harness.model.finding import Kind
from suites.planted.copies import Copy, Original
from suites.planted.expected import Expected, Record, fails, of, passes
from suites.planted.plants import COMMITTED, forget, named_by_lookups, plant, records

_FOLLOWER = 1  # a broker with a copy of "keys" that does not lead it
_BROKERS = (1, 2, 3)


def records_of_a_key(original: Original, *, deleted: bool) -> list[Record]:
    """All records of one key, in order: the last one is a tombstone, or a value, and a value is before it.

    No lookup by time names any of them, no read from an arbitrary offset returned the last two, and another batch
    follows.
    """
    rows = {(row["stream"], row["seq"]): row for row in original.rows("ledger", topic="keys", outcome="acked")}
    of_key: dict[int, list[Record]] = {}
    for record in records(original, "keys", 0):
        of_key.setdefault(rows[record.stream, record.seq]["key_hash"], []).append(record)
    probed = {row["offset"] for row in original.rows("observations", topic="keys", partition=0, kind="probe")}
    reported = named_by_lookups(original, "keys", 0)
    last = min(_last_batch(original, broker) for broker in _BROKERS)
    for found in of_key.values():
        tombstones = [rows[r.stream, r.seq]["value"] == "null" for r in found]
        offsets = [r.offset for r in found]
        if len(found) < 3 or reported & {*offsets} or probed & {*offsets[-2:]} or offsets[-1] >= last:
            continue
        if tombstones[-2:] == [False, deleted]:
            return found
    raise AssertionError("no key of keys/0 has these last records")


def _last_batch(original: Original, broker: int) -> int:
    """The base offset of the last batch of "keys" on a disk."""
    return int(max(row["base_offset"] for row in original.rows("batches", topic="keys", partition=0, broker=broker)))


def _expire_tombstones_at_once(copy: Copy) -> None:
    """Tombstones may be removed immediately."""
    with copy.document("run") as run:
        run["contract"]["topics"]["keys"]["delete_retention_ms"] = 0


def clean(copy: Copy, *gone: Record, brokers: Collection[int] = _BROKERS) -> None:
    """Removes records from batches on disks, and starts a segment with the last batch of each log, because a cleaner
    does not touch the active segment."""
    for broker in brokers:
        last = _last_batch(copy.original, broker)
        for batch in copy.original.rows("batches", topic="keys", partition=0, broker=broker):
            taken = sum(batch["base_offset"] <= record.offset <= batch["last_offset"] for record in gone)
            if taken:
                where = {"topic": "keys", "partition": 0, "broker": broker, "base_offset": batch["base_offset"]}
                copy.change("batches", {"count": batch["count"] - taken}, **where)
        copy.change("batches", {"segment": last}, topic="keys", partition=0, broker=broker, base_offset=last)


def _only_follower_has(copy: Copy, *left: Record) -> None:
    for record in left:
        for row in copy.original.rows("observations", **record.at):
            if row["replica"] != _FOLLOWER:
                copy.drop("observations", **record.at, reader=row["reader"], session=row["session"])


@plant
def lost_newest_of_a_key(copy: Copy) -> Expected:
    newest = records_of_a_key(copy.original, deleted=False)[-1]
    forget(copy, newest)
    return fails(of(Kind.LOST, newest))


@plant
def near_lost_older_of_a_key(copy: Copy) -> Expected:
    *older, _ = records_of_a_key(copy.original, deleted=False)
    forget(copy, *older)
    clean(copy, *older)
    return passes(excused=of(Kind.LOST, *older))


@plant
def lost_older_of_a_key_on_disks(copy: Copy) -> Expected:
    """No reader receives it any more, and no cleaner has run."""
    *older, _ = records_of_a_key(copy.original, deleted=False)
    forget(copy, *older)
    return fails(of(Kind.LOST, *older))


@plant
def lost_older_of_a_key_hidden(copy: Copy) -> Expected:
    """Only one isolation does not return it, so it exists."""
    *older, _ = records_of_a_key(copy.original, deleted=False)
    forget(copy, *older, kinds=["drain"], isolation=COMMITTED)
    return fails(of(Kind.LOST, *older))


@plant
def lost_tombstone_too_early(copy: Copy) -> Expected:
    """Removed with its values on every copy, before its time has passed."""
    *older, tombstone = records_of_a_key(copy.original, deleted=True)
    forget(copy, *older, tombstone)
    clean(copy, *older, tombstone)
    return fails(of(Kind.LOST, tombstone)).with_excused(of(Kind.LOST, *older))


@plant
def near_lost_tombstone_in_its_time(copy: Copy) -> Expected:
    gone = records_of_a_key(copy.original, deleted=True)
    _expire_tombstones_at_once(copy)
    forget(copy, *gone)
    clean(copy, *gone)
    return passes(excused=of(Kind.LOST, *gone))


@plant
def lost_tombstone_of_a_visible_value(copy: Copy) -> Expected:
    """Its time has passed, but its value is visible: readers take the older value for the current one."""
    tombstone = records_of_a_key(copy.original, deleted=True)[-1]
    _expire_tombstones_at_once(copy)
    forget(copy, tombstone)
    return fails(of(Kind.LOST, tombstone))


@plant
def replica_divergence_of_a_visible_value(copy: Copy) -> Expected:
    """The same on one follower, which may lead next."""
    tombstone = records_of_a_key(copy.original, deleted=True)[-1]
    _expire_tombstones_at_once(copy)
    forget(copy, tombstone, kinds=["replica"], replica=_FOLLOWER)
    return fails(of(Kind.REPLICA_DIVERGENCE, tombstone))


@plant
def replica_divergence_of_a_value_on_one_follower(copy: Copy) -> Expected:
    """All other cleaners removed the value with its tombstone; this follower removed only the tombstone."""
    *older, tombstone = records_of_a_key(copy.original, deleted=True)
    _expire_tombstones_at_once(copy)
    forget(copy, tombstone)
    back = older[-1]
    forget(copy, *older[:-1])
    _only_follower_has(copy, back)
    clean(copy, *older, tombstone)
    excused = of(Kind.LOST, *older, tombstone)
    return fails(of(Kind.REPLICA_DIVERGENCE, back)).with_excused(excused)


@plant
def near_replica_that_compacted_a_key(copy: Copy) -> Expected:
    """One follower's cleaner ran before the leader's."""
    gone = records_of_a_key(copy.original, deleted=True)
    _expire_tombstones_at_once(copy)
    forget(copy, *gone, kinds=["replica"], replica=_FOLLOWER)
    clean(copy, *gone, brokers=[_FOLLOWER])
    return passes(excused=of(Kind.REPLICA_DIVERGENCE, *gone))


@plant
def near_replica_that_has_not_compacted_a_key(copy: Copy) -> Expected:
    """One follower's cleaner has not run yet: it has the value and its tombstone."""
    gone = records_of_a_key(copy.original, deleted=True)
    _expire_tombstones_at_once(copy)
    _only_follower_has(copy, *gone)
    clean(copy, *gone, brokers=[broker for broker in _BROKERS if broker != _FOLLOWER])
    return passes(excused=of(Kind.LOST, *gone))
