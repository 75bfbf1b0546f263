"""Calls of transactional clients that coordinators refused, on short histories."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Verdict
from suites.verify.history import MS, START_NS, Built, History, Row
from suites.verify.judging import HistoryBatch, reported
from suites.verify.metadata import Metadata

TEXT: Final = "(AA)"
S: Final = 1000 * MS
MAPPING: Final = "INVALID_PRODUCER_ID_MAPPING"
STARTED_S: Final = 20.0  # the first call, after the end of the only fault


def at_ns(second: float) -> int:
    """So long after the start of the history, which takes some ms, as its fault does."""
    return START_NS + int(second * S)


def failed(second: float, error: str = MAPPING, call: str = "commit", **more: object) -> Row:
    """A call that takes 100 ms, of a client that was initialised 400 ms before it."""
    initialised_ns = None if call == "init" else at_ns(second - 0.4)
    row: Row = {"producer": "p", "call": call, "error": error, "initialised_ns": initialised_ns}
    times = {"called_ns": at_ns(second), "returned_ns": at_ns(second + 0.1)}
    return row | {"transaction_timeout_ms": 30_000} | times | more


def refused(*errors: str, call: str = "commit", every_s: float = 3.0, history: Built | None = None) -> Built:
    """Failed calls in a row: six with one error, unless errors are given."""
    history = history or History(TEXT).build()
    named = errors if len(errors) > 1 else (errors or (MAPPING,)) * 6
    history.tables["failed_calls"] = [failed(STARTED_S + nth * every_s, error, call) for nth, error in enumerate(named)]
    return history


def ended(history: Built, second: float, outcome: str, **more: object) -> Built:
    """A further transaction that ended at this time."""
    times = {"called_ns": at_ns(second - 0.1), "ended_ns": at_ns(second)}
    history.tables["transactions"].append({"txn_id": 9, "producer": "p", "outcome": outcome} | times | more)
    return history


def each(history: Built, **to: object) -> Built:
    """Changes every failed call."""
    return history.change("failed_calls", to)


def both(history: Built, *, first_s: float, call: str) -> Built:
    """Calls of another kind fail in the same way, with other clients and from another time on."""
    failed_calls = history.tables["failed_calls"]
    failed_calls += [failed(first_s + nth * 3.0, call=call) for nth in range(len(failed_calls))]
    return history


def older(history: Built, age_s: float) -> Built:
    """Each client was initialised so long before its failed call."""
    for row in history.tables["failed_calls"]:
        row["initialised_ns"] = row["called_ns"] - int(age_s * S)
    return history


def with_offsets(history: Built, second: float, outcome: str) -> Built:
    """Offsets in a transaction that ended later, with the outcome of their own."""
    times = {"called_ns": at_ns(second - 0.1), "returned_ns": at_ns(second), "txn_id": 9, "outcome": outcome}
    offset = history.rows("offset_commits")[-1]["offset"]
    return ended(history.copy("offset_commits", times, offset=offset), second + 60, "committed")


def expiring(history: Built, expiration_ms: str) -> Built:
    history.drained["broker_configs"] = {"1": {"transactional.id.expiration.ms": expiration_ms}}
    return history


def tried_again(*, took_s: float = 5.0, waited_s: float = 1.0, ok: bool = True) -> Built:
    """Commits of three clients, each tried twice until it timed out."""
    history = History(TEXT).build()
    history.run["recovered"] = {"ok": ok, "waited_s": waited_s, "last_seen": "", "pending": None if ok else "no_acks"}
    for client in range(3):
        initialised_s = STARTED_S + client * (2 * took_s + 1)
        for nth in range(2):
            called_s = initialised_s + 0.5 + nth * took_s
            times = {"called_ns": at_ns(called_s), "returned_ns": at_ns(called_s + took_s)}
            row = failed(called_s, "_TIMED_OUT", initialised_ns=at_ns(initialised_s)) | times
            history.tables["failed_calls"].append(row)
    return history


def disturbed(history: Built, second: float, **more: object) -> Built:
    """A second step, at this time."""
    step: Row = {"name": "move", "do": "move_coordinator", "args": {}, "resolved": {}, "is_fault": False, "events": []}
    times = {"started_ns": at_ns(second), "ended_ns": at_ns(second + 0.1), "healed_ns": None}
    fact = {"kind": "leaders_moved", "from_ns": at_ns(second), "to_ns": at_ns(second + 0.1)}
    history.steps.append(step | times | {"effect": None, "facts": [fact]} | more)
    return history


def elected(history: Built, second: float, topic: str) -> Built:
    """Another broker became the leader of a partition of this topic."""
    history.metadata = Metadata(topic=topic, topic_id=topic.upper()).led(2, at_ns(second)).history()
    return history


OWN: Final = "kafka-clients 4.4.0"


def fenced(*, error: str = "ProducerFencedException", call: str = "commit", client: str = OWN) -> Built:
    """One refused call of a client."""
    history = refused(call=call).change("reservations", {"client": client})
    history.tables["failed_calls"] = [failed(STARTED_S, error, call)]
    return history


def losing_data(history: Built) -> Built:
    history.steps[0]["facts"] = [{"kind": "data_lost", "what": "tail", "nodes": [1], "from_ns": START_NS}]
    return history


DOWN: Final[Row] = {"ok": False, "waited_s": 90.0, "last_seen": "not running: [2]", "pending": "nodes_down"}


def with_a_node_down(history: Built) -> Built:
    history.run["recovered"] = DOWN
    return history


CASES: dict[str, tuple[Built, list[str]]] = {
    "every commit is refused": (refused(), ["transaction_refused 1"]),
    "every abort is refused": (refused("INVALID_TXN_STATE", call="abort"), ["transaction_refused 1"]),
    "offsets are refused": (refused("UNKNOWN", call="offsets"), ["transaction_refused 1"]),
    "no client is initialised": (refused("INVALID_PRODUCER_EPOCH", call="init"), ["transaction_refused 1"]),
    "the Java client is refused": (refused("InvalidPidMappingException"), ["transaction_refused 1"]),
    "commits are refused for several reasons": (
        refused(MAPPING, "_FENCED", MAPPING, "_FENCED", "INVALID_TXN_STATE"),
        ["transaction_refused 1"],
    ),
    "commits are refused while aborts succeed": (ended(refused(), 27, "aborted"), ["transaction_refused 1"]),
    "aborts are refused while commits succeed": (
        ended(refused(call="abort"), 27, "committed"),
        ["transaction_refused 1"],
    ),
    "other errors among the refusals": (
        refused(MAPPING, MAPPING, "_TRANSPORT", MAPPING, MAPPING, "_HUNG", MAPPING),
        ["transaction_refused 1"],
    ),
    "commits of some clients and offsets of others are refused": (
        both(refused(), first_s=STARTED_S + 1, call="offsets"),
        ["transaction_refused 1", "transaction_refused 1"],
    ),
    "offsets are refused, and the client cannot abort after that": (
        each(refused(call="abort"), initialised_ns=at_ns(19)).copy(
            "failed_calls", {"call": "offsets", "called_ns": at_ns(19.2), "returned_ns": at_ns(19.3)}
        ),
        [],
    ),
    # --- too little
    "four refusals": (refused(MAPPING, MAPPING, MAPPING, MAPPING), []),
    "six refusals within 9 s": (refused(every_s=1.8), []),
    "a commit succeeds between them": (ended(refused(), 27, "committed"), []),
    "an abort succeeds between refused ones": (ended(refused(call="abort"), 27, "aborted"), []),
    "offsets are accepted between them": (with_offsets(refused(call="offsets"), 27, "acked"), []),
    "offsets without an answer between them": (
        with_offsets(refused(call="offsets"), 27, "unknown"),
        ["transaction_refused 1"],
    ),
    "a client is initialised between the refusals of others": (
        ended(refused(call="init"), 90, "unknown", initialised_ns=at_ns(27)),
        [],
    ),
    # --- not the coordinator's fault
    "another client of the id was initialised each time": (
        older(refused("_FENCED"), 4.5),
        [],
    ),
    "a client of which nothing is known": (refused().change("reservations", {"client": "by hand"}), []),
    "a producer of the harness that sent nothing": (
        refused("UNKNOWN", call="init").change("reservations", {"producer": "another"}),
        ["transaction_refused 1"],
    ),
    "the last client of the id is fenced": (
        each(refused("_FENCED"), initialised_ns=at_ns(19)).copy("failed_calls", {"initialised_ns": at_ns(19.5)}),
        ["transaction_refused 1"],
    ),
    "a call that another client cannot cause to fail": (
        ended(each(refused(MAPPING), initialised_ns=at_ns(19)), 90, "unknown", initialised_ns=at_ns(19.5)),
        ["transaction_refused 1"],
    ),
    "the transaction had timed out": (each(refused(), transaction_timeout_ms=400), []),
    "the timeout is unknown": (each(refused(), transaction_timeout_ms=None), []),
    "it is unknown when the client was initialised": (each(refused(), initialised_ns=None), []),
    "the id had expired": (expiring(refused(), "450"), []),
    "the id had not expired": (expiring(refused(), "3000"), ["transaction_refused 1"]),
    "clients lack a right": (refused("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), []),
    "the Java client lacks a right": (refused("TransactionalIdAuthorizationException"), []),
    "the coordinator moves or loads": (
        refused("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", *["_TRANSPORT"] * 4),
        [],
    ),
    "a member was removed from its group": (refused("UNKNOWN_MEMBER_ID", call="offsets"), []),
    "a timeout above that of the brokers": (refused("INVALID_TRANSACTION_TIMEOUT", call="init"), []),
    # --- disturbances
    "a fault that is never healed": (disturbed(refused(), 1, ended_ns=None, is_fault=True), []),
    "a coordinator moves before the last refusals": (disturbed(refused(), 28), []),
    "a coordinator moves before all of them": (disturbed(refused(), 9), ["transaction_refused 1"]),
    "a coordinator moves shortly before them": (disturbed(refused(), 19), []),
    "another topic has an election": (elected(refused(), 28, "other"), ["transaction_refused 1"]),
    "the coordinator has an election that no step asked for": (elected(refused(), 28, "__transaction_state"), []),
    "a node is down": (with_a_node_down(refused()), []),
    # --- calls that are tried again until they time out
    "no commit ends in time": (tried_again(), ["transaction_refused 1"]),
    "no commit ends in 24 s": (tried_again(took_s=3.5), []),
    "the cluster had not recovered": (tried_again(ok=False), ["not_recovered 1"]),
    "the cluster recovered late": (tried_again(waited_s=30.0), []),
    "one client alone gets no end": (
        each(tried_again(), initialised_ns=at_ns(STARTED_S), transaction_timeout_ms=90_000),
        [],
    ),
    "no client is initialised in time": (refused("_TIMED_OUT", call="init", every_s=6), []),
    # --- one refusal
    "the only client of the release is fenced": (fenced(), ["transaction_refused 1"]),
    "and a coordinator moves": (disturbed(fenced(call="abort"), STARTED_S), ["transaction_refused 1"]),
    "in a transaction that began late enough": (
        ended(older(fenced(), 40), STARTED_S + 0.2, "unknown", called_ns=at_ns(10)),
        ["transaction_refused 1"],
    ),
    "in a transaction that had timed out": (
        ended(older(each(fenced(), transaction_timeout_ms=9_000), 40), STARTED_S + 0.2, "unknown", called_ns=at_ns(10)),
        [],
    ),
    "after its timeout": (older(fenced(), 40), []),
    "its commit comes to a transaction that is over": (
        fenced(error="InvalidTxnStateException"),
        ["transaction_refused 1"],
    ),
    "its abort comes to one that is over": (fenced(error="InvalidTxnStateException", call="abort"), []),
    "its commit is refused for another reason": (fenced(error="InvalidPidMappingException"), []),
    "a fenced client of librdkafka": (fenced(error="_FENCED", client="librdkafka 2.11.0"), []),
    "a fenced client of which nothing is known": (fenced(client="by hand"), []),
    "a client that another one fenced": (
        ended(fenced(), 90, "unknown", initialised_ns=at_ns(STARTED_S - 0.1)),
        [],
    ),
    "a coordinator that lost what it had written": (losing_data(fenced()), []),
}
BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    """The verdict on each case."""
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_each_history_has_exactly_its_findings(name: str, judged: dict[str, Verdict]) -> None:
    assert reported(judged[name]) == CASES[name][1]
    assert not [doubt for doubt in judged[name].doubts if doubt.name.startswith("check_failed")]


def test_refusals_of_a_client_of_which_nothing_is_known_are_a_doubt(judged: dict[str, Verdict]) -> None:
    doubts = [doubt.text for doubt in judged["a client of which nothing is known"].doubts]
    assert [text for text in doubts if text.startswith("producer p called commit 6 times")]


def test_the_finding_says_which_calls_had_which_errors(judged: dict[str, Verdict]) -> None:
    (finding,) = judged["every commit is refused"].findings
    assert finding.detail == (
        "producer p called commit 6 times within 15 s by 6 clients, each of which its coordinator had initialised "
        f"before, no call succeeded, and nothing disturbed the cluster; the errors were {MAPPING} (6 times)"
    )
    assert (finding.first_ns, finding.last_ns) == (at_ns(STARTED_S), at_ns(STARTED_S + 15.1))
