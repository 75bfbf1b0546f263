"""transaction_refused: a coordinator that refuses every call of a transactional client which has a right to it.

Kafka promises no times, and a single refusal may have a cause that the evidence does not show. Refusals in a row
condemn: calls of one kind, by one producer, none of which succeeded, while nothing disturbed the cluster and nothing
that Kafka promises explains them. A call that begins sooner than SETTLE_S after a fault, an operation, the end of a
node or an election of a coordinator does not count, and ends the row.

- Counted are the errors in _REFUSALS, which say that the coordinator does not accept the producer or the state of its
  transaction. Errors about rights, settings and members of groups are not among them.
- The client of the call had been initialised for a shorter time than transaction.timeout.ms and
  transactional.id.expiration.ms. So no coordinator had a reason to abort its transaction, or to forget its id.
- No other client of the producer was initialised meanwhile, which would have fenced it (KIP-98).
- No call of another kind had failed before in the same client, which might only repeat the error of that call.

Refusals of a client of which nothing is known are a doubt, because its requests may be wrong.

A commit or an abort that was tried again until it timed out counts as well, once the cluster has recovered. Its client
was initialised just before, so the coordinator answers and can write, and does not end the transaction.

One refusal condemns, whatever disturbed the cluster, if it fences a client of the release, or says that the transaction
which it commits is over: no other client of its id was initialised, its transaction was younger than its timeout by
clocks that no step changed, and no coordinator can have lost what it had written. An answer that was lost is no reason:
the client asks again, with the epoch from before (KIP-360, KIP-890).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.model.clock import NS_PER_MS, NS_PER_S
from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.doubt_names import DoubtName
from harness.model.facts import OBSERVED, FactKind
from harness.model.finding import Finding, Kind
from harness.model.outcome import JAVA_CLIENTS, LIBRDKAFKA, Outcome, TxnOutcome
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.steps import facts_in, step_at
from harness.verify.engine.tables import BUNDLE
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

SETTLE_S: Final = 10.0
REFUSALS: Final = 5  # calls in a row
REFUSED_S: Final = 10.0  # from the first of them to the last
# The same for calls that were tried again until they timed out. An election and a client's retry take seconds each.
LATE_S: Final = 25.0
LATE_CLIENTS: Final = 2
_EXPIRATION: Final = "transactional.id.expiration.ms"
_EXPIRATION_MS_DEFAULT: Final = 604_800_000
_INIT: Final = "init"
_COMMIT: Final = "commit"
_OF_END: Final[Mapping[str, str]] = {TxnOutcome.COMMITTED.value: _COMMIT, TxnOutcome.ABORTED.value: "abort"}

# By the names of librdkafka, which has one of its own for both errors of a fenced producer, and of the Java client.
_FENCED: Final = frozenset(
    {
        "_FENCED",
        "PRODUCER_FENCED",
        "INVALID_PRODUCER_EPOCH",
        "ProducerFencedException",
        "InvalidProducerEpochException",
    }
)
_ENDED: Final = "InvalidTxnStateException"  # the Java client's: its coordinator has no such transaction open
_REFUSALS: Final = _FENCED | {
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
    "INVALID_REQUEST",
    "TRANSACTION_ABORTABLE",
    "UNKNOWN",  # librdkafka's name of UNKNOWN_SERVER_ERROR
    "UNKNOWN_PRODUCER_ID",
    "UNKNOWN_SERVER_ERROR",
    "InvalidPidMappingException",
    "InvalidRequestException",
    _ENDED,
    "TransactionAbortableException",
    "UnknownProducerIdException",
    "UnknownServerException",
}
# Errors with which a client gives up a call that it has tried again and again.
_LATE: Final = frozenset(
    {"_TIMED_OUT", "TimeoutException", "CONCURRENT_TRANSACTIONS", "ConcurrentTransactionsException"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A row of `failed_calls`."""

    error: str
    initialised_ns: int | None
    transaction_timeout_ms: int | None
    called_ns: int
    returned_ns: int


@dataclass(slots=True)
class Calls:
    """The calls of the transactional clients of one bundle, by producer.

    failed: by the kind of call, too. succeeded: when, by the kind of call, too. initialised: when clients were.
    lasted: when each transaction began and ended.
    """

    failed: dict[tuple[str, str], list[Failure]] = field(default_factory=lambda: defaultdict(list))
    succeeded: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    initialised: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    lasted: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


def calls(given: Prepared) -> list[Calls]:
    """The calls of each bundle. Of producers without a failed call there are none."""
    found = [Calls() for _ in given.cases]
    for row in given.failed_calls.collect():
        mine = found[row[BUNDLE]]
        failure = Failure(**{name: row[name] for name in Failure.__slots__})
        mine.failed[row["producer"], row["call"]].append(failure)
        if failure.initialised_ns is not None:
            mine.initialised[row["producer"]].add(failure.initialised_ns)
    if not any(of.failed for of in found):
        return found
    for row in _transactions(given).collect():
        mine, producer = found[row[BUNDLE]], row["producer"]
        if row["initialised_ns"] is not None:
            mine.initialised[producer].add(row["initialised_ns"])
        mine.lasted[producer].append((row["called_ns"], row["ended_ns"]))
        if row["outcome"] in _OF_END:
            mine.succeeded[producer, _OF_END[row["outcome"]]].append(row["ended_ns"])
        if row["offsets_ns"] is not None:
            mine.succeeded[producer, "offsets"].append(row["offsets_ns"])
    for mine in found:
        for producer, times in mine.initialised.items():
            mine.succeeded[producer, _INIT].extend(times)
    return found


def _transactions(given: Prepared) -> DataFrame:
    """The transactions of producers with failed calls. offsets_ns: when a coordinator accepted the offsets of one."""
    accepted = given.offset_commits.where(F.col("outcome") == Outcome.ACKED.value).where("txn_id IS NOT NULL")
    offsets = accepted.groupBy(BUNDLE, "txn_id").agg(F.max("returned_ns").alias("offsets_ns"))
    failing = given.failed_calls.select(BUNDLE, "producer").distinct()
    mine = given.transactions.join(F.broadcast(failing), [BUNDLE, "producer"], "left_semi")
    return mine.join(offsets, [BUNDLE, "txn_id"], "left").select(
        BUNDLE, "producer", "outcome", "called_ns", "ended_ns", "initialised_ns", "offsets_ns"
    )


def _refused(known: Known) -> Addition:
    """Nothing for a run in which a node was not running when the cluster should have recovered."""
    case, mine = known.case, known.of(CALLS)
    if not mine.failed or not case.nodes_were_up:
        return Addition()
    found = list(_findings(case, mine))
    named = {producer for producer, _ in found}
    found += [one for one in _refused_once(known, mine) if one[0] not in named]
    own = {producer: _is_known(known, producer) for producer, _ in found}
    return Addition(
        findings=[finding for producer, finding in found if own[producer]],
        doubts=[_doubt(finding) for producer, finding in found if not own[producer]],
    )


def _is_known(known: Known, producer: str) -> bool:
    """Whether a client of which nothing is known may not have caused the refusals itself. A producer of the harness
    that was never initialised has sent nothing that names its client."""
    clients = _clients(known, producer)
    return clients <= {JAVA_CLIENTS, LIBRDKAFKA} and (bool(clients) or known.case.of_harness)


def _clients(known: Known, producer: str) -> set[str]:
    """The names of its clients, without their versions."""
    return {client.partition(" ")[0] for client in known.counts.clients.get(producer, ())}


def _doubt(finding: Finding) -> Doubt:
    why = "the evidence does not show whether the release or the client caused it"
    return Doubt(DoubtName.UNATTRIBUTED, f"{finding.detail}; {why}")


def _findings(case: Case, mine: Calls) -> Iterator[tuple[str, Finding]]:
    """The findings, each with the name of the producer."""
    disturbed, expiration_ms, recovered_ns = _disturbed(case), id_expiration_ms(case), _recovered_ns(case)
    for (producer, call), failures in sorted(mine.failed.items()):
        inits, failed_first = mine.initialised[producer], _first_calls(mine, producer)
        counted = [
            one
            for one in failures
            if failed_first.get(one.initialised_ns, call) == call
            if _is_refusal(one, call, inits, expiration_ms) or _is_late(one, call, inits, expiration_ms, recovered_ns)
        ]
        rows = _rows(sorted(counted, key=lambda one: one.called_ns), mine.succeeded[producer, call], disturbed)
        long = [row for row in rows if _condemns(row)]
        if long:
            yield producer, _finding(case, producer, call, max(long, key=len))


def _refused_once(known: Known, mine: Calls) -> Iterator[tuple[str, Finding]]:
    """A finding for each producer of the release's own client, and kind of call, that lost its transaction without a
    reason."""
    case, expiration_ms = known.case, id_expiration_ms(known.case)
    if may_have_forgotten(case, TRANSACTIONS) or any(facts_in(case.steps, FactKind.CLOCK_CHANGED)):
        return
    for (producer, call), failures in sorted(mine.failed.items()):
        for one in failures if _clients(known, producer) == {JAVA_CLIENTS} and call != _INIT else ():
            began_ns = max((b for b, e in mine.lasted[producer] if b <= one.called_ns <= e), default=one.initialised_ns)
            ended = one.error in _FENCED or (call == _COMMIT and one.error == _ENDED)
            alone = not _was_fenced(one, one.initialised_ns, mine.initialised[producer])
            if ended and alone and _is_younger(one, began_ns, expiration_ms):
                yield producer, _of_one(case, producer, call, one)
                break


def _of_one(case: Case, producer: str, call: str, one: Failure) -> Finding:
    return Finding(
        kind=Kind.TRANSACTION_REFUSED,
        first_ns=one.called_ns,
        last_ns=one.returned_ns,
        step=step_at(case.steps, one.called_ns),
        detail=(
            f"the call {call} of producer {producer} failed with {one.error}, although no other client of its id had "
            f"been initialised, and its transaction was younger than {one.transaction_timeout_ms} ms"
        ),
        contract=promise(Kind.TRANSACTION_REFUSED, None, None, case.contract),
    )


def _first_calls(mine: Calls, producer: str) -> dict[int | None, str]:
    """The kind of the first call that failed, by the time when its client was initialised."""
    of_producer = [
        (one.called_ns, call, one.initialised_ns)
        for (name, call), failures in mine.failed.items()
        if name == producer
        for one in failures
        if one.initialised_ns is not None
    ]
    return {initialised_ns: call for _, call, initialised_ns in sorted(of_producer, reverse=True)}


def _is_refusal(one: Failure, call: str, inits: Iterable[int], expiration_ms: int) -> bool:
    if one.error not in _REFUSALS:
        return False
    from_ns = one.called_ns if call == _INIT else one.initialised_ns
    if one.error in _FENCED and _was_fenced(one, from_ns, inits):
        return False
    return call == _INIT or _is_young(one, expiration_ms)


def _is_late(one: Failure, call: str, inits: Iterable[int], expiration_ms: int, recovered_ns: int | None) -> bool:
    if one.error not in _LATE or call not in _OF_END.values():
        return False
    if recovered_ns is None or one.called_ns < recovered_ns:
        return False
    return not _was_fenced(one, one.initialised_ns, inits) and _is_young(one, expiration_ms)


def _was_fenced(one: Failure, from_ns: int | None, inits: Iterable[int]) -> bool:
    """Whether a client of the producer was initialised after this time, and before the call returned."""
    return from_ns is not None and any(from_ns < at <= one.returned_ns for at in inits)


def _recovered_ns(case: Case) -> int | None:
    """When the cluster had recovered, at the latest; None if nothing says that it did."""
    recovered = case.run.recovered
    if recovered is None or not recovered.ok:
        return None
    ends = [at_ns for step in case.steps for at_ns in (step.started_ns, step.ended_ns, step.healed_ns) if at_ns]
    return max(ends, default=case.run.started_ns or 0) + int((recovered.waited_s or 0) * NS_PER_S)


def _is_young(one: Failure, expiration_ms: int) -> bool:
    """Whether the client was initialised so shortly before that neither its transaction nor its id can have expired."""
    return _is_younger(one, one.initialised_ns, expiration_ms)


def _is_younger(one: Failure, since_ns: int | None, expiration_ms: int) -> bool:
    """Whether what began at a time had not expired when the call returned; False if the time is not known."""
    if since_ns is None or one.initialised_ns is None or one.transaction_timeout_ms is None:
        return False
    return one.returned_ns - since_ns < min(one.transaction_timeout_ms, expiration_ms) * NS_PER_MS


def id_expiration_ms(case: Case) -> int:
    """The smallest transactional.id.expiration.ms that a broker reports."""
    reported = [settings for of in case.cluster.snapshots for settings in (of.broker_configs or {}).values()]
    known = [settings.get(_EXPIRATION) for settings in reported]
    return min((int(value) for value in known if value and value.isdecimal()), default=_EXPIRATION_MS_DEFAULT)


def _disturbed(case: Case) -> list[tuple[int, int | None]]:
    """When something disturbed the cluster or its clients, and for SETTLE_S after that; None = for ever."""
    spans = [
        (step.started_ns, step.healed_ns or step.ended_ns)
        for step in case.steps
        if step.started_ns is not None
        if step.is_fault or any(fact.kind not in OBSERVED for fact in step.facts)
    ]
    moments = [one.at_ns for one in case.run.exits or ()]
    if case.history is not None:
        moments += [e.after.time_ns for e in case.history.elections() if e.after.topic == TRANSACTIONS]
    spans += [(at_ns, at_ns) for at_ns in moments]
    return [(start, None if end is None else end + int(SETTLE_S * NS_PER_S)) for start, end in spans]


def _rows(
    failures: Sequence[Failure], succeeded: Sequence[int], disturbed: Sequence[tuple[int, int | None]]
) -> list[list[Failure]]:
    """Failures in a row: without a success and without a disturbance between them."""
    rows: list[list[Failure]] = []
    for one in failures:
        from_ns = rows[-1][-1].called_ns if rows and rows[-1] else one.called_ns
        succeeds = any(from_ns <= at <= one.returned_ns for at in succeeded)
        if not rows or succeeds or _any_in(disturbed, from_ns, one.returned_ns):
            rows.append([])
        if not _any_in(disturbed, one.called_ns, one.returned_ns):
            rows[-1].append(one)
    return rows


def _any_in(spans: Iterable[tuple[int, int | None]], from_ns: int, to_ns: int) -> bool:
    return any(start <= to_ns and (end is None or from_ns <= end) for start, end in spans)


def _condemns(row: Sequence[Failure]) -> bool:
    if len(row) < REFUSALS:
        return False
    took_s = (row[-1].returned_ns - row[0].called_ns) / NS_PER_S
    if all(one.error in _REFUSALS for one in row):
        return took_s >= REFUSED_S
    return took_s >= LATE_S and len({one.initialised_ns for one in row}) >= LATE_CLIENTS


def _finding(case: Case, producer: str, call: str, row: Sequence[Failure]) -> Finding:
    seconds = (row[-1].returned_ns - row[0].called_ns) / NS_PER_S
    errors = ", ".join(f"{error} ({count} times)" for error, count in Counter(one.error for one in row).most_common())
    clients = len({one.initialised_ns for one in row})
    initialised = (
        "" if call == _INIT else f" by {clients} clients, each of which its coordinator had initialised before"
    )
    return Finding(
        kind=Kind.TRANSACTION_REFUSED,
        first_ns=row[0].called_ns,
        last_ns=row[-1].returned_ns,
        detail=(
            f"producer {producer} called {call} {len(row)} times within {seconds:.0f} s{initialised}, no call "
            f"succeeded, and nothing disturbed the cluster; the errors were {errors}"
        ),
        contract=promise(Kind.TRANSACTION_REFUSED, None, None, case.contract),
    )


CALLS: Final[OnDriver[Calls]] = OnDriver(name="failed_calls", read=calls, none=Calls)
CHECK: Final = Check(
    promise="A coordinator initialises a transactional client, takes its offsets, and commits or aborts as it asks.",
    kinds={
        Kind.TRANSACTION_REFUSED: Introduced(
            promise="the last client that was initialised with a transactional.id can end its transactions (KIP-98)"
        )
    },
    on_driver=(CALLS,),
    adds=_refused,
    order=Order(findings=14, doubts=58),
    planted=(
        "transaction_refused",
        "transaction_refused_abort",
        "transaction_refused_offsets",
        "transaction_refused_init",
        "transaction_refused_late",
        "transaction_refused_once_fenced",
        "near_transaction_refused_fenced_by_another_client",
        "near_transaction_refused_fenced_after_its_timeout",
        "near_transaction_refused_once_to_librdkafka",
        "near_transaction_refused_by_another_client",
        "near_transaction_refused_after_its_timeout",
        "near_transaction_refused_of_an_expired_id",
        "near_transaction_refused_while_it_moves",
        "near_transaction_refused_without_the_right",
        "near_transaction_refused_and_then_committed",
        "near_transaction_refused_with_a_node_down",
        "doubt_transaction_refused_to_an_unknown_client",
    ),
)
