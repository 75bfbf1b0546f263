"""unclean_election: a replica outside the ISR and the ELR became the leader where the contract does not permit that.

The history of the cluster shows each election with the sets that the controller knew before it, so this is a finding
whether or not a record was lost. When ISR and ELR are empty, the last known leader leads again (KIP-966): that is no
unclean election, and what it loses is judged as a loss. A history that is not whole shows nothing here, because a
change that it lacks may have brought the leader into the ISR; there are doubts about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.contract.contract import UNCLEAN
from harness.model.contract.internal_topics import OFFSETS, OWN, TIER_METADATA
from harness.model.finding import Finding, Kind
from harness.model.history.history import Election, History
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.elections import Clocks
from harness.verify.engine.known import Known
from harness.verify.engine.steps import step_at
from harness.verify.excuses.config_history import config_history, in_force
from harness.verify.promise import Check, Introduced
from harness.verify.sentences import promise

UNSEEN: Final = "elections of replicas that were not in sync: there is no whole history of the cluster (history.json)"


def _elections(known: Known) -> Addition:
    case = known.case
    if case.history is None or not case.history.whole:
        return Addition(not_covered=[UNSEEN])
    return Addition(findings=[*_findings(case, case.history)])


def _findings(case: Case, history: History) -> Iterator[Finding]:
    clocks = Clocks(case, history)
    of_run = {row.topic_id for snapshot in case.cluster.snapshots for row in snapshot.partitions}
    begins = _first_offset(case, history, clocks)
    for election in history.elections():
        after = election.after
        at_ns = after.time_ns if clocks.right(after) else None
        in_run = after.topic_id in of_run or after.offset >= begins
        if election.unclean and in_run and _forbidden(case, after.topic, at_ns):
            yield Finding(
                kind=Kind.UNCLEAN_ELECTION,
                topic=after.topic,
                topic_id=after.topic_id,
                partition=after.partition,
                first_ns=at_ns,
                last_ns=at_ns,
                step=step_at(case.steps, at_ns),
                detail=_seen(election),
                contract=promise(Kind.UNCLEAN_ELECTION, after.topic, None, case.contract),
            )


def _seen(election: Election) -> str:
    after, before = election.after, election.before
    sets = f"the ISR {list(before.isr)} nor in the ELR {list(before.elr)}" if before else "the ISR nor in the ELR"
    return f"broker {after.leader} became the leader in epoch {after.leader_epoch}, and was neither in {sets}"


def _first_offset(case: Case, history: History, clocks: Clocks) -> int:
    """Where the run begins in the metadata log: a shared cluster may have served runs with other contracts before."""
    began_ns = case.run.started_ns or 0
    known = (row.offset for row in history.changes if row.time_ns >= began_ns and clocks.right(row))
    return min(known, default=history.end)


def _forbidden(case: Case, topic: str, at_ns: int | None) -> bool:
    """Whether the contract is about a topic and does not permit its unclean elections at that time; None = unknown."""
    contract = case.contract
    if _set_by_step(case, topic, at_ns):
        return False
    if topic in contract.topics:
        return not contract.topics[topic].unclean_election
    if topic not in OWN:
        return False
    of_topic = {OFFSETS: contract.offsets, TIER_METADATA: contract.tier}.get(topic)
    if of_topic is not None:
        return not of_topic.unclean_election
    return contract.unclean_internal is not None and topic not in contract.unclean_internal


def _set_by_step(case: Case, topic: str, at_ns: int | None) -> bool:
    """Whether declared steps permitted it then, or at any time if the time is unknown."""
    if at_ns is not None:
        return in_force(case, topic, UNCLEAN, "true", at_ns)
    return any(period.value == "true" for period in config_history(case, topic, UNCLEAN))


CHECK: Final = Check(
    promise="Only a replica in the ISR or in the ELR becomes a leader, unless the contract permits unclean elections.",
    kinds={
        Kind.UNCLEAN_ELECTION: Introduced(
            promise="with unclean.leader.election.enable=false only a replica of the ISR or the ELR may lead (KIP-966)"
        )
    },
    adds=_elections,
    order=Order(findings=15, not_covered=25),
    planted=(
        "elected_out_of_sync",
        "elected_out_of_sync_on_an_internal_topic",
        "near_unclean_election_of_the_last_known_leader",
        "near_unclean_election_that_is_permitted",
    ),
)
