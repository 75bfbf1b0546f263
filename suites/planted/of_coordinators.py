"""Plants in the states of coordinators, as they answered them and as their logs have them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.model.finding import Kind
from suites.planted.copies import Copy
from suites.planted.expected import Broken, Expected, doubtful, fails, passes
from suites.planted.plants import plant

WRONG: Broken = (Kind.WRONG_COORDINATOR_STATE.value, None, None, None)
GROUP, PAYMENTS = "readers", "payments"


def states_of(copy: Copy, kind: str, name: str, look: str = "coordinators") -> list[dict[str, Any]]:
    """The states of one kind of a group or transactional id in a look, to be changed in place."""
    with copy.document("cluster") as cluster:
        of = [one for one in cluster[look]["states"] if one["kind"] == kind]
        found = [one for one in of if one["name"].split(" ")[0] == name and one["steady"]]
    assert found, f"no coordinator has a state of {kind} {name}"
    return found


def _offset(copy: Copy) -> dict[str, Any]:
    """A committed offset that the coordinator loaded from the log of an earlier leader."""
    state = max(states_of(copy, "offset", GROUP), key=lambda one: one["logged"]["offset"])
    state["written_epoch"] = state["leader_epoch"] - 1
    return state


def _told(copy: Copy) -> Counter[str]:
    """The outcomes of the producer's transactions."""
    return Counter(row["outcome"] for row in copy.original.rows("transactions", producer=PAYMENTS))


@plant
def coordinator_offset_older_than_its_log(copy: Copy) -> Expected:
    """It loaded its log only up to an earlier commit."""
    state = _offset(copy)
    state |= {"answered": {"offset": state["logged"]["offset"] - 1}, "was": True}
    return fails([WRONG], by_documents=True)


@plant
def coordinator_offset_with_another_leader_epoch(copy: Copy) -> Expected:
    """A consumer that begins there would take the log for truncated, or not see that it was."""
    state = _offset(copy)
    state["answered"]["leader_epoch"] = state["logged"]["leader_epoch"] - 1
    return fails([WRONG], by_documents=True)


@plant
def coordinator_offset_with_another_text(copy: Copy) -> Expected:
    """The text that a client commits beside its offset, which Kafka Streams keeps its time in."""
    state = _offset(copy)
    state["answered"]["metadata"] = state["logged"]["metadata"][:-1]
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_without_a_leader_epoch(copy: Copy) -> Expected:
    """Evidence of a harness that did not ask for it."""
    del _offset(copy)["answered"]["leader_epoch"]
    return passes()


@plant
def coordinator_without_an_offset(copy: Copy) -> Expected:
    _offset(copy)["answered"] = None
    return fails([WRONG], by_documents=True)


@plant
def coordinator_transaction_with_an_older_epoch(copy: Copy) -> Expected:
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state["answered"]["producer_epoch"] -= 1
    return fails([WRONG], by_documents=True)


def _open_transaction(copy: Copy, answered: str) -> None:
    """Under load a producer has an open transaction in two partitions; the coordinator answers with these."""
    (ended,) = states_of(copy, "transaction", PAYMENTS)
    logged = ended["logged"] | {"state": "Ongoing", "started_ms": 1, "partitions": "paid/0 paid/1"}
    copies = [one | {"logged": logged} for one in ended["copies"]]
    state = ended | {"logged": logged, "answered": logged | {"partitions": answered}, "copies": copies}
    with copy.document("cluster") as cluster:
        cluster["coordinators_under_load"]["states"].append(state | {"commits": None, "commit_records": None})


@plant
def coordinator_transaction_open_in_fewer_partitions(copy: Copy) -> Expected:
    """It would end the transaction without a marker in the other one."""
    _open_transaction(copy, "paid/0")
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_open_transaction(copy: Copy) -> Expected:
    _open_transaction(copy, "paid/0 paid/1")
    return passes()


@plant
def coordinator_group_with_another_epoch(copy: Copy) -> Expected:
    (state,) = states_of(copy, "group", GROUP)
    state["answered"] = {name: f"{value} 1" for name, value in state["answered"].items()}
    return fails([WRONG], by_documents=True)


@plant
def coordinator_group_without_its_members(copy: Copy) -> Expected:
    """While its members work, the coordinator reports none of them."""
    (state,) = states_of(copy, "group", GROUP, "coordinators_under_load")
    assert state["logged"]["members"]
    state["answered"]["members"] = ""
    return fails([WRONG], by_documents=True)


@plant
def coordinator_group_with_members_that_have_nothing(copy: Copy) -> Expected:
    (state,) = states_of(copy, "group", GROUP, "coordinators_under_load")
    state["logged"]["assigned"], state["answered"]["assigned"] = "reader AAAA/0", ""
    for one in state["copies"]:
        one["logged"]["assigned"] = "reader AAAA/0"
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_of_partitions_that_are_not_reported(copy: Copy) -> Expected:
    """Those of a deleted topic."""
    (state,) = states_of(copy, "group", GROUP, "coordinators_under_load")
    state["logged"]["assigned"] = "reader AAAA/0"
    state["answered"].pop("assigned", None)
    for one in state["copies"]:
        one["logged"]["assigned"] = "reader AAAA/0"
    return passes()


@plant
def coordinator_share_state_behind_its_log(copy: Copy) -> Expected:
    state = states_of(copy, "share_state", "sharers")[0]
    state["answered"]["start"] -= 1
    return fails([WRONG], by_documents=True)


@plant
def wrong_coordinator_that_stays(copy: Copy) -> Expected:
    """A broker lists a group, and another one led the log of its state all the time."""
    (state,) = states_of(copy, "group", "readers")
    place = {name: state[name] for name in ("topic", "partition", "coordinator", "leader_epoch")}
    row = place | {"kind": "group", "name": "readers", "broker": state["coordinator"] % 3 + 1}
    with copy.document("cluster") as cluster:
        cluster["coordinators"]["elsewhere"] = [row]
    return fails([WRONG], by_documents=True)


@plant
def coordinator_log_without_acknowledged_commits(copy: Copy) -> Expected:
    """The log has neither of two commits that were acknowledged."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state["commit_records"] = _told(copy)["committed"] - 2
    return fails([WRONG], by_documents=True)


@plant
def coordinator_log_with_commits_that_were_aborted(copy: Copy) -> Expected:
    """Its log commits a transaction whose abort it acknowledged."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state["commits"] = state["commit_records"] = _told(copy)["committed"] + _told(copy)["unknown"] + 1
    return fails([WRONG], by_documents=True)


def _agreed(copy: Copy, **changed: Any) -> None:
    """The log of the coordinator, its copies and the answer have these fields of payments."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    for one in (state, *state["copies"]):
        one["logged"] = one["logged"] | changed
    state["answered"] = state["answered"] | changed


def _last_end(copy: Copy) -> dict[str, Any]:
    """The last transaction of payments with acknowledged records. Later ones, without records, are left out."""
    rows = copy.original.rows("transactions", producer=PAYMENTS)
    for row in sorted(rows, key=lambda row: row["called_ns"], reverse=True):
        if copy.original.rows("ledger", txn_id=row["txn_id"], outcome="acked"):
            assert row["outcome"] in ("committed", "aborted")
            return row
        copy.drop("transactions", txn_id=row["txn_id"])
    raise AssertionError("no transaction has acknowledged records")


def _other_end(row: dict[str, Any]) -> str:
    return "CompleteAbort" if row["outcome"] == "committed" else "CompleteCommit"


def _forgotten(copy: Copy) -> None:
    """Neither log nor coordinator has the transactional id."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state |= {"logged": None, "answered": None, "commits": None, "commit_records": None}
    for one in state["copies"]:
        one["logged"] = None


@plant
def coordinator_forgot_a_transactional_id(copy: Copy) -> Expected:
    _forgotten(copy)
    return fails([WRONG], by_documents=True)


@plant
def coordinator_without_a_transactional_id(copy: Copy) -> Expected:
    """No coordinator has a state of it, and all were asked."""
    with copy.document("cluster") as cluster:
        states = cluster["coordinators"]["states"]
        states[:] = [one for one in states if one["name"] != PAYMENTS or one["kind"] != "transaction"]
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_forgotten_after_expiration(copy: Copy) -> Expected:
    _forgotten(copy)
    with copy.document("cluster") as cluster:
        for snapshot in cluster["snapshots"]:
            for settings in snapshot["broker_configs"].values():
                settings["transactional.id.expiration.ms"] = "1000"
    return passes()


@plant
def coordinator_transaction_with_the_other_end(copy: Copy) -> Expected:
    _agreed(copy, state=_other_end(_last_end(copy)))
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_after_a_last_transaction_without_an_answer(copy: Copy) -> Expected:
    row = _last_end(copy)
    copy.change("transactions", {"outcome": "unknown"}, txn_id=row["txn_id"])
    _agreed(copy, state=_other_end(row))
    return passes()


@plant
def coordinator_transaction_with_another_producer_id(copy: Copy) -> Expected:
    _agreed(copy, producer_id=987_654)
    return fails([WRONG], by_documents=True)


def _epoch_of_batches(copy: Copy) -> int:
    """Producers of the paid topic other than payments write without transactions."""
    return max(int(row["producer_epoch"]) for row in copy.original.rows("batches", topic="paid", transactional=True))


@plant
def coordinator_transaction_with_an_epoch_below_its_batches(copy: Copy) -> Expected:
    """The next client would get an epoch that leaders know already."""
    _agreed(copy, producer_epoch=_epoch_of_batches(copy) - 1)
    return fails([WRONG], by_documents=True)


@plant
def near_wrong_coordinator_state_with_a_later_epoch(copy: Copy) -> Expected:
    """Another client was initialised, and wrote nothing."""
    _agreed(copy, producer_epoch=_epoch_of_batches(copy) + 2)
    return passes()


@plant
def coordinator_copy_with_another_offset(copy: Copy) -> Expected:
    """A follower in sync has an older commit, so a coordinator that loads its log will have it, too."""
    _offset(copy)["copies"][0]["logged"]["offset"] -= 1
    return fails([(Kind.WRONG_COORDINATOR_STATE.value, None, None, None)], by_documents=True)


@plant
def near_wrong_coordinator_state_written_meanwhile(copy: Copy) -> Expected:
    """Another commit was written after the answer."""
    state = _offset(copy)
    state["logged"]["offset"] += 1
    state["steady"] = False
    return passes()


@plant
def near_wrong_coordinator_state_expired(copy: Copy) -> Expected:
    """Log and coordinator no longer have the offset, and neither has any copy."""
    state = _offset(copy)
    state |= {"logged": None, "answered": None}
    state["copies"] = [one | {"logged": None} for one in state["copies"]]
    return passes()


@plant
def near_wrong_coordinator_state_repeated_commit(copy: Copy) -> Expected:
    """The coordinator wrote decisions again because it did not see that the first writes had succeeded."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state["commit_records"] += 5
    return passes()


@plant
def near_wrong_coordinator_state_one_empty_transaction(copy: Copy) -> Expected:
    """A producer that stopped committed a transaction without records."""
    (state,) = states_of(copy, "transaction", PAYMENTS)
    state["commits"] = state["commit_records"] = _told(copy)["committed"] - 1
    return passes()


@plant
def doubt_coordinator_failed_write(copy: Copy) -> Expected:
    """The coordinator wrote the last commit itself, and answers with the one before."""
    state = _offset(copy)
    state |= {"answered": {"offset": state["logged"]["offset"] - 1}, "was": True}
    state["written_epoch"] = state["leader_epoch"]
    return doubtful("unattributed")


@plant
def doubt_coordinator_unknown(copy: Copy) -> Expected:
    with copy.document("cluster") as cluster:
        why = "the log of __consumer_offsets-3 on broker 2: offset 7: OffsetCommitValue has no version 5 here"
        cluster["coordinators"]["unknown"] = [why]
    return doubtful("coordinator_unknown")
