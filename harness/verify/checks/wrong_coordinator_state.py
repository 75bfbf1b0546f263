"""wrong_coordinator_state: a coordinator answers something other than is in the log from which it loads its state, that
log contradicts acknowledgements, or a broker still coordinates what another one does by now (KAFKA-16118)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from harness.model.contract.internal_topics import TRANSACTIONS
from harness.model.documents.coordinators import CoordinatorState, Elsewhere, StateValue, differing
from harness.model.doubt_names import DoubtName
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind
from harness.model.outcome import LIBRDKAFKA, TxnOutcome
from harness.model.scenario.scenario import STREAMS
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.excuses.unclean_elections import internal_elections
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

_WORDS: Final = {
    "offset": "committed offset",
    "transaction": "transactional id",
    "group": "group",
    "share_state": "progress of share group",
}
# A producer that stops may commit one transaction without any record, which no coordinator writes down.
_EMPTY: Final = 1
# After these, records of Kafka's own topics may be lost without an unclean election.
_LOSING: Final = frozenset({FactKind.DATA_LOST, FactKind.DISK_DAMAGED, FactKind.DISK_FAILED})


def _at_the_end(known: Known) -> Addition:
    """Nothing for a run that ended early, or in which coordinators were not compared."""
    case, look = known.case, known.case.cluster.coordinators
    if not case.complete or look is None:
        return Addition()
    doubts = [Doubt(DoubtName.COORDINATOR_UNKNOWN, text) for text in look.unknown]
    if known.counts.commits and not look.states:
        text = "groups committed offsets, and no state of any coordinator was compared with its log"
        doubts.append(Doubt(DoubtName.COORDINATOR_UNKNOWN, text))
    findings = [one for state in look.states for one in _wrong_commits(known, state)]
    findings += [_still(case, row) for row in look.elsewhere]
    under_load = case.cluster.coordinators_under_load
    compared = list(_steady([*look.states, *(under_load.states if under_load else ())]))
    for state in compared:
        findings += [*_wrong_answer(case, state), *_wrong_copies(case, state)]
        if _left(state):
            doubts.append(Doubt(DoubtName.UNATTRIBUTED, f"{_differs(state)}; a write that failed may have left it so"))
    return Addition(findings=findings, doubts=doubts, counts={"states of coordinators": len(compared)})


def _steady(states: Iterable[CoordinatorState]) -> Iterator[CoordinatorState]:
    """The steady ones. Of several looks that found the same state wrong, the first counts."""
    wrong = set()
    for state in states:
        if state.steady and (state.kind, state.name) not in wrong:
            yield state
            if differing(state.logged, state.answered) or any(copy.logged != state.logged for copy in state.copies):
                wrong.add((state.kind, state.name))


def _wrong_answer(case: Case, state: CoordinatorState) -> Iterator[Finding]:
    if differing(state.logged, state.answered) and not _left(state):
        yield _finding(case, Kind.WRONG_COORDINATOR_STATE, _differs(state))


def _still(case: Case, row: Elsewhere) -> Finding:
    text = (
        f"broker {row.broker} still lists the {_WORDS[row.kind]} {row.name}, of which broker {row.coordinator} led the "
        f"log {row.topic}/{row.partition} in epoch {row.leader_epoch}"
    )
    return _finding(case, Kind.WRONG_COORDINATOR_STATE, text)


def _left(state: CoordinatorState) -> bool:
    """Whether it has another state because a write failed: it wrote the last record itself, and its answer was right
    before that. A coordinator that loaded the record has no such excuse."""
    wrote = state.written_epoch == state.leader_epoch
    return state.was and wrote and bool(differing(state.logged, state.answered))


def _wrong_copies(case: Case, state: CoordinatorState) -> Iterator[Finding]:
    for copy in state.copies:
        if copy.logged != state.logged:
            text = (
                f"by the log of {_log(state)} on broker {copy.broker}, which is in sync, the {_what(state)} is "
                f"{_text(copy.logged)}, and by that of its leader, broker {state.coordinator}, {_text(state.logged)}"
            )
            yield _finding(case, Kind.WRONG_COORDINATOR_STATE, text)


def _wrong_commits(known: Known, state: CoordinatorState) -> Iterator[Finding]:
    """The number of committed transactions in the log is at least that of acknowledged commits, and at most those and
    the commits without an answer together. A Java client that was killed may have recorded less than it did. The table
    of transactions may lack rows, which is a doubt; then the load counted more. The transactions of a Kafka Streams
    application are under ids that it makes itself, whatever the log has under its name."""
    if state.name in {p.name for p in known.case.scenario.producers or () if p.client == STREAMS}:
        return
    ends = known.counts.ends.get(state.name) if state.kind == "transaction" else None
    if ends is None:
        return
    sure = ends[TxnOutcome.COMMITTED]
    possible = max(_possible(ends), _possible(known.case.counted_by_load("transactions").get(state.name)))
    of = f"the log of {_log(state)} commits"
    clients = known.counts.clients.get(state.name, ())
    recorded = bool(clients) and all(client.startswith(LIBRDKAFKA) for client in clients)
    if recorded and state.commits is not None and state.commits > possible:
        text = f"{of} {state.commits} transactions of {state.name}, of which its producer ended {possible} at most"
        yield _finding(known.case, Kind.WRONG_COORDINATOR_STATE, text)
    if (records := state.commit_records) is not None and records + _EMPTY < sure and not _may_lose(known.case):
        text = f"{of} {records} transactions of {state.name}, and {sure} commits were acknowledged"
        yield _finding(known.case, Kind.WRONG_COORDINATOR_STATE, text)


def _possible(ends: object) -> int:
    """How many transactions the log may commit, from those that ended, by outcome."""
    by_outcome = ends if isinstance(ends, Mapping) else {}
    counted = (by_outcome.get(outcome.value) for outcome in (TxnOutcome.COMMITTED, TxnOutcome.UNKNOWN))
    return sum(count for count in counted if isinstance(count, int))


def _may_lose(case: Case) -> bool:
    """Whether a fault may have destroyed records of the log on all of its replicas."""
    facts = [fact for step in case.steps for fact in step.facts or ()]
    lost = any(fact.kind in _LOSING or fact.how is Stop.POWER for fact in facts)
    return lost or any(True for _ in internal_elections(case, TRANSACTIONS))


def _finding(case: Case, kind: Kind, detail: str) -> Finding:
    return Finding(kind=kind, detail=detail, contract=promise(kind, None, None, case.contract))


def _differs(state: CoordinatorState) -> str:
    where = (
        f"record {state.offset} of {_log(state)}" if state.offset is not None else f"{_log(state)}, without a record,"
    )
    return (
        f"the coordinator, broker {state.coordinator} in leader epoch {state.leader_epoch}, answers that the "
        f"{_what(state)} is {_text(state.answered)}, and by {where} it is {_text(state.logged)}"
    )


def _what(state: CoordinatorState) -> str:
    return f"{_WORDS[state.kind]} of {state.name}" if state.kind == "offset" else f"{_WORDS[state.kind]} {state.name}"


def _log(state: CoordinatorState) -> str:
    return f"{state.topic}/{state.partition}"


def _text(value: StateValue | None) -> str:
    if value is None:
        return "absent"
    return ", ".join(f"{name.replace('_', ' ')} {'none' if field == '' else field}" for name, field in value.items())


CHECK: Final = Check(
    promise="A coordinator has the state that is in its log, and its log has all that it acknowledged.",
    kinds={
        Kind.WRONG_COORDINATOR_STATE: Introduced(
            promise="a coordinator has the state that is in its log, and writes each decision there before it answers "
            "(KIP-98, KIP-848, KIP-932)"
        )
    },
    adds=_at_the_end,
    order=Order(findings=13, doubts=58),
    planted=(
        "coordinator_offset_older_than_its_log",
        "coordinator_offset_with_another_leader_epoch",
        "coordinator_offset_with_another_text",
        "coordinator_without_an_offset",
        "coordinator_transaction_with_an_older_epoch",
        "coordinator_transaction_open_in_fewer_partitions",
        "coordinator_group_with_another_epoch",
        "coordinator_group_without_its_members",
        "coordinator_group_with_members_that_have_nothing",
        "coordinator_share_state_behind_its_log",
        "wrong_coordinator_that_stays",
        "coordinator_log_without_acknowledged_commits",
        "coordinator_log_with_commits_that_were_aborted",
        "coordinator_copy_with_another_offset",
        "near_wrong_coordinator_state_open_transaction",
        "near_wrong_coordinator_state_written_meanwhile",
        "near_wrong_coordinator_state_expired",
        "near_wrong_coordinator_state_without_a_leader_epoch",
        "near_wrong_coordinator_state_of_partitions_that_are_not_reported",
        "near_wrong_coordinator_state_repeated_commit",
        "near_wrong_coordinator_state_one_empty_transaction",
        "doubt_coordinator_failed_write",
        "doubt_coordinator_unknown",
    ),
)
