"""Plants in bundles that lack parts which their run had recorded. Without them some checks would look at nothing."""

from __future__ import annotations

from harness.model.recorded import POSITIONS, positions_of
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, passes
from suites.planted.plants import plant

_LOST = "evidence_missing"


def _without_key(copy: Copy, document: str, *keys: str) -> Expected:
    copy.contradicts = True
    with copy.document(document) as content:
        content.update(dict.fromkeys(keys))
    return doubtful(_LOST)


@plant
def doubt_positions_taken_away(copy: Copy) -> Expected:
    copy.contradicts = True
    copy.drop("positions")
    return doubtful(_LOST)


@plant
def doubt_positions_of_one_broker_taken_away(copy: Copy) -> Expected:
    copy.contradicts = True
    copy.drop("positions", broker=2)
    return doubtful(_LOST)


@plant
def doubt_receipt_times_taken_away(copy: Copy) -> Expected:
    copy.change("observations", {"given_ns": None}, kind="live")
    return doubtful(_LOST)


@plant
def doubt_receipt_times_of_one_partition_taken_away(copy: Copy) -> Expected:
    """A bundle by an earlier version of this harness, which did not say what it recorded."""
    copy.change("observations", {"given_ns": None}, kind="live", reader="committed", topic="plain", partition=1)
    with copy.document("run") as run:
        run["recorded"] = None
    return doubtful(_LOST)


@plant
def doubt_order_of_records_taken_away(copy: Copy) -> Expected:
    copy.change("observations", {"previous_offset": None})
    return doubtful(_LOST)


@plant
def doubt_acknowledged_offsets_taken_away(copy: Copy) -> Expected:
    copy.change("ledger", {"offset": None})
    return doubtful(_LOST)


@plant
def doubt_exits_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "run", "exits")


@plant
def doubt_groups_at_rest_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "run", "groups_at_rest")


@plant
def doubt_wait_for_readers_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "run", "readers_waited")


@plant
def doubt_groups_resume_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "run", "groups_resume")


@plant
def doubt_transactions_ended_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "run", "transactions_ended")


@plant
def doubt_metadata_of_brokers_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "cluster", "brokers")


@plant
def doubt_coordinators_taken_away(copy: Copy) -> Expected:
    return _without_key(copy, "cluster", "coordinators", "coordinators_under_load")


@plant
def doubt_history_taken_away(copy: Copy) -> Expected:
    """Also the word that the run wrote it."""
    copy.contradicts = True
    copy.without("history")
    with copy.document("run") as run:
        run["has_history"] = False
    return doubtful(_LOST)


@plant
def near_doubt_parts_never_recorded(copy: Copy) -> Expected:
    """No broker answered the sampler."""
    copy.contradicts = True
    copy.drop("positions")
    with copy.document("run") as run:
        samples = [part for part in run["recorded"] if part.startswith(POSITIONS)]
        assert positions_of(2) in samples
        run["recorded"] = [part for part in run["recorded"] if part not in samples]
    return passes()


@plant
def near_doubt_parts_of_another_harness(copy: Copy) -> Expected:
    """It does not say what it recorded, so the verdict names what was not looked at."""
    copy.contradicts = True
    copy.drop("positions")
    with copy.document("run") as run:
        run.update(recorded=None, exits=None, groups_resume=None)
    return passes()
