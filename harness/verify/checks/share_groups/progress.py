"""How far a share group had come, by two questions to its coordinator and by the log of the partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.model.contract.internal_topics import SHARE_STATE
from harness.model.documents.coordinators import state_name
from harness.model.documents.steps import GroupDeleted
from harness.model.finding import Finding, Kind
from harness.verify.engine.case import Case, Place, places_of
from harness.verify.excuses.unclean_elections import may_have_forgotten
from harness.verify.sentences import promise


def forgetful(case: Case) -> Collection[str]:
    """Share groups that may have lost what they know of their records."""
    deleted = {event.group for event, _ in case.events(GroupDeleted)}
    lost = may_have_forgotten(case, SHARE_STATE)
    return {share.group for share in case.contract.shares.values() if lost or share.group in deleted}


def wrong_starts(case: Case) -> Iterator[Finding]:
    """Partitions of which a share group is done with more than there is, or later with less than before."""
    if not case.complete:
        return
    ends = {facts.place: facts.log_end for facts in places_of(case)}
    ids = {(topic, partition): topic_id for topic, topic_id, partition in ends}
    logged = _logged_starts(case)
    lost = forgetful(case)
    for row in case.cluster.share_groups or ():
        topic_id = ids.get((row.topic, row.partition))
        if row.start is None or topic_id is None:
            continue
        place = (row.topic, topic_id, row.partition)
        log_end, later = ends[place], logged.get(state_name(row.group, topic_id, row.partition))
        done = f"share group {row.group} was done with all offsets of {row.topic}/{row.partition} below {row.start}"
        if log_end is not None and row.start > log_end and not case.contract.topics[row.topic].unclean_election:
            yield _finding(case, place, f"{done}, and the log ends at {log_end}")
        elif later is not None and later < row.start and row.group not in lost:
            text = f"{done}, and by the log of its coordinator later with those below {later}"
            yield _finding(case, place, text)


def _logged_starts(case: Case) -> dict[str, int]:
    """By the name of the state: where it starts by the log of its coordinator, at the look after all reads."""
    look = case.cluster.coordinators
    asked_ns = max((row.at_ns for row in case.cluster.share_groups or ()), default=0)
    if look is None or look.asked_ns < asked_ns:
        return {}
    starts = ((state.name, state.logged) for state in look.states if state.kind == "share_state" and state.steady)
    return {name: start for name, logged in starts if logged and isinstance(start := logged.get("start"), int)}


def _finding(case: Case, place: Place, detail: str) -> Finding:
    topic, topic_id, partition = place
    return Finding(
        kind=Kind.WRONG_COORDINATOR_STATE,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        count=1,
        detail=detail,
        contract=promise(Kind.WRONG_COORDINATOR_STATE, None, None, case.contract),
    )
