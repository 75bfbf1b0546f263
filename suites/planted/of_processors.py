"""Plants in the outputs of an application, which commits its offsets in their transactions; each with its near miss."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from harness.model.finding import Kind
from harness.model.outcome import JAVA_CLIENTS
from suites.planted.copies import Copy, Original, Row
from suites.planted.expected import Broken, Expected, fails, passes
from suites.planted.plants import COMMITTED, plant

TOPIC, MADE = "orders", "made"  # its input and its output
COMMITS, ABORTS = "committed", "aborted"


def _outputs(original: Original, outcome: str) -> list[Row]:
    """Rows of `processed`, each with the transaction of its output, of transactions with this outcome."""
    ended = {row["txn_id"] for row in original.rows("transactions", producer="worker", outcome=outcome)}
    sent = {(row["stream"], row["seq"]): row["txn_id"] for row in original.rows("ledger", topic=MADE, outcome="acked")}
    rows = [row | {"txn_id": sent.get((row["stream"], row["seq"]))} for row in original.rows("processed")]
    return [row for row in rows if row["txn_id"] in ended]


def _alone(original: Original) -> list[Row]:
    """The outputs of inputs that the application processed at its first attempt."""
    tries: dict[int, int] = defaultdict(int)
    for row in original.rows("processed"):
        tries[row["offset"]] += 1
    return [row for row in _outputs(original, COMMITS) if tries[row["offset"]] == 1]


def _neighbours(original: Original) -> tuple[Row, Row]:
    """The outputs of two adjacent inputs in one transaction, from the middle."""
    pairs = [
        (one, next_one)
        for one, next_one in pairwise(_alone(original))
        if (one["txn_id"], one["offset"] + 1, one["seq"] + 1)
        == (next_one["txn_id"], next_one["offset"], next_one["seq"])
    ]
    return pairs[len(pairs) // 2]


def _row(output: Row) -> Row:
    return {column: value for column, value in output.items() if column != "txn_id"}


def _inputs(kind: Kind, *offsets: int) -> list[Broken]:
    return [(kind.value, TOPIC, 0, offset) for offset in offsets]


@plant
def duplicated_by_an_application(copy: Copy) -> Expected:
    """An output of one input is another output of the input before it, too."""
    first, second = _neighbours(copy.original)
    copy.add("processed", [_row(second) | {"offset": first["offset"]}])
    return fails(_inputs(Kind.DUPLICATED, first["offset"]))


@plant
def near_duplicated_by_an_application_that_aborted(copy: Copy) -> Expected:
    """The second output is of a transaction that was aborted."""
    first, _ = _neighbours(copy.original)
    (aborted, *_) = _outputs(copy.original, ABORTS)
    copy.add("processed", [_row(aborted) | {"offset": first["offset"]}])
    return passes()


@plant
def skipped_read_by_an_application(copy: Copy) -> Expected:
    """The group committed past an input without any output."""
    first, _ = _neighbours(copy.original)
    copy.drop("processed", offset=first["offset"])
    return fails(_inputs(Kind.SKIPPED_READ, first["offset"]))


@plant
def near_skipped_read_by_an_application_that_aborted(copy: Copy) -> Expected:
    """The input has no output of its aborted attempt; its output is of a later one."""
    (aborted, *_) = _outputs(copy.original, ABORTS)
    copy.drop("processed", stream=aborted["stream"], seq=aborted["seq"])
    return passes()


@plant
def reordered_by_an_application(copy: Copy) -> Expected:
    """The release's own client wrote the outputs of two inputs in the other order."""
    first, second = _swapped(copy)
    copy.reserved_by(f"{JAVA_CLIENTS} 4.3.1", first["stream"])
    return fails(_inputs(Kind.REORDERED, second["offset"]))


@plant
def near_reordered_by_an_application_of_another_client(copy: Copy) -> Expected:
    """Its own retries may change the order."""
    _swapped(copy)
    return passes()


def _swapped(copy: Copy) -> tuple[Row, Row]:
    first, second = _neighbours(copy.original)
    for output, other in ((first, second), (second, first)):
        copy.change("processed", {"offset": other["offset"]}, stream=output["stream"], seq=output["seq"])
    return first, second


@plant
def torn_transaction_by_an_application(copy: Copy) -> Expected:
    """The end of its transaction was not answered: the group is past the inputs, and no output is visible."""
    outputs = _of_unknown_end(copy)
    for output in outputs:
        copy.drop("observations", stream=output["stream"], seq=output["seq"], isolation=COMMITTED)
    return fails(_inputs(Kind.TORN_TRANSACTION, *(output["offset"] for output in outputs)))


@plant
def near_torn_transaction_by_an_application_with_all_outputs(copy: Copy) -> Expected:
    _of_unknown_end(copy)
    return passes()


def _of_unknown_end(copy: Copy) -> list[Row]:
    """The outputs of a whole transaction, which is not answered now."""
    first, _ = _neighbours(copy.original)
    copy.change("transactions", {"outcome": "unknown"}, txn_id=first["txn_id"])
    return [row for row in _outputs(copy.original, COMMITS) if row["txn_id"] == first["txn_id"]]


def _by_two_instances(copy: Copy) -> list[Row]:
    """The later outputs of committed transactions are of a second instance of the application. Returns them."""
    with copy.document("run") as run:
        processors = run["contract"]["processors"]
        processors["helper"] = processors["worker"] | {"processor": "helper"}
    made = sorted(_alone(copy.original), key=lambda row: row["offset"])
    later = made[len(made) // 2 :]
    for row in later:
        copy.change("processed", {"processor": "helper"}, stream=row["stream"], seq=row["seq"])
    return later


@plant
def duplicated_by_instances_of_an_application(copy: Copy) -> Expected:
    """The first instance processed an input, and the second one did, too."""
    first, second, *_ = _by_two_instances(copy)
    copy.add("processed", [_row(second) | {"offset": first["offset"], "processor": "worker"}])
    return fails(_inputs(Kind.DUPLICATED, first["offset"]))


@plant
def skipped_read_by_instances_of_an_application(copy: Copy) -> Expected:
    """None of the instances processed an input."""
    first, *_ = _by_two_instances(copy)
    copy.drop("processed", offset=first["offset"])
    return fails(_inputs(Kind.SKIPPED_READ, first["offset"]))


@plant
def near_skipped_read_by_one_of_two_instances(copy: Copy) -> Expected:
    """Each input is processed by one of the instances, and not by the other one."""
    _by_two_instances(copy)
    return passes()
