"""Plants in the sequence numbers and epochs on the disks, each with its near miss."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.finding import Kind
from suites.planted.copies import Copy, Row
from suites.planted.expected import Expected, fails, passes
from suites.planted.plants import plant

_PLACE = {"topic": "plain", "partition": 0}


def _later_half(copy: Copy) -> Sequence[Row]:
    """The batches from the middle on of the producer that wrote most of them, as one broker has them."""
    batches = copy.original.rows("batches", **_PLACE, broker=2, control=None)
    ids = [batch["producer_id"] for batch in batches]
    mine = [batch for batch in batches if batch["producer_id"] == max(set(ids), key=ids.count)]
    assert len(mine) > 3
    return mine[len(mine) // 2 :]


def _rewritten(copy: Copy, batches: Sequence[Row], *, sequence: int = 0, epoch: int = 0) -> None:
    """These batches have other numbers on every disk, by as much."""
    for batch in batches:
        to = {
            "base_sequence": batch["base_sequence"] + sequence,
            "producer_epoch": batch["producer_epoch"] + epoch,
        }
        copy.change("batches", to, **_PLACE, base_offset=batch["base_offset"])


def _wrong(batch: Row) -> Expected:
    return fails([(Kind.OUT_OF_SEQUENCE.value, batch["topic"], batch["partition"], batch["base_offset"])])


@plant
def out_of_sequence_with_a_gap(copy: Copy) -> Expected:
    """One number is missing, and the log has every offset."""
    later = _later_half(copy)
    _rewritten(copy, later, sequence=1)
    return _wrong(later[0])


@plant
def out_of_sequence_at_the_begin_of_an_epoch(copy: Copy) -> Expected:
    later = _later_half(copy)
    _rewritten(copy, later, epoch=1)
    return _wrong(later[0])


@plant
def out_of_sequence_in_an_older_epoch(copy: Copy) -> Expected:
    """A client that was fenced writes once more."""
    later = _later_half(copy)
    begin = later[0]["base_sequence"]
    _rewritten(copy, later, sequence=-begin, epoch=2)
    copy.change("batches", {"producer_epoch": 1}, **_PLACE, base_offset=later[-1]["base_offset"])
    return _wrong(later[-1])


@plant
def near_out_of_sequence_in_the_next_epoch(copy: Copy) -> Expected:
    later = _later_half(copy)
    _rewritten(copy, later, sequence=-later[0]["base_sequence"], epoch=1)
    return passes()


@plant
def near_out_of_sequence_after_expiry(copy: Copy) -> Expected:
    """Brokers forget a producer that wrote nothing for a day, and take any next number."""
    later = _later_half(copy)
    _rewritten(copy, later, sequence=1)
    before = [row["base_offset"] for row in copy.original.rows("batches", **_PLACE, broker=2, control=None)]
    old = {offset for offset in before if offset < later[0]["base_offset"]}
    copy.change("batches", {"max_timestamp_ms": 0}, **_PLACE, base_offset=old)
    return passes()


# --- leader epochs ---


@plant
def wrong_epoch_that_nobody_had(copy: Copy) -> Expected:
    """Everything that brokers say about the partition has the same epoch, which no controller gave."""
    keys = {"topic": "keys", "partition": 0}
    batches = copy.original.rows("batches", **keys)
    epoch = max(batch["leader_epoch"] for batch in batches)
    first = min(batch["base_offset"] for batch in batches if batch["leader_epoch"] == epoch)
    for table in ("batches", "observations", "lookups"):
        copy.change(table, {"leader_epoch": epoch + 1}, **keys, leader_epoch=epoch)
    copy.change("epoch_ends", {"epoch": epoch + 1, "reported_epoch": epoch + 1}, **keys, epoch=epoch)
    with copy.document("cluster") as cluster:
        for lineage in cluster["lineages"]:
            if lineage["topic"] == "keys":
                lineage["epochs"] = [[one + (one == epoch), start] for one, start in lineage["epochs"]]
    return fails([(Kind.WRONG_EPOCH.value, "keys", 0, first)], by_documents=True)


def _sent_after_its_epoch(copy: Copy, after_s: int) -> Row:
    """The last batch of the first leader of plain/0 was sent so long after the next one led and the fault was over."""
    batches = copy.original.rows("batches", **_PLACE, control=None)
    first = min(batch["leader_epoch"] for batch in batches)
    last = [batch for batch in batches if batch["leader_epoch"] == first][-1]
    with copy.document("steps") as steps:
        over_ns = max(step["healed_ns"] for step in steps if step["is_fault"])
    sent_ms = over_ns // 10**6 + after_s * 1000
    copy.change("batches", {"max_timestamp_ms": sent_ms}, **_PLACE, base_offset=last["base_offset"])
    return last


@plant
def wrong_epoch_of_a_deposed_leader(copy: Copy) -> Expected:
    """It goes on as if no other replica had been elected, and the followers copy what it writes."""
    last = _sent_after_its_epoch(copy, 20)
    return fails([(Kind.WRONG_EPOCH.value, "plain", 0, last["base_offset"])], by_documents=True)


@plant
def near_wrong_epoch_shortly_after_the_next(copy: Copy) -> Expected:
    """A starved broker learns late that it was replaced."""
    _sent_after_its_epoch(copy, 8)
    return passes()
