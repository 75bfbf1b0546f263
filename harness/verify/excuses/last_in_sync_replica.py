"""Losses when the last in-sync replica returns without the end of its log, on a cluster without ELR.

Brokers trust an ISR member whatever happened to its disk, so a replica that was alone in the ISR leads again by a clean
election, and the others truncate their logs to its log: by design until ELR (KIP-966, "Motivation"). Only this is
excused: the leader was alone in the ISR when it died, its log ended there when it was started again, ELR was finalized
at level 0, it is the next leader, and no other broker led in between. Anything that the harness does not know excuses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.model.documents import steps
from harness.model.documents.steps import OnlyDiskLost, UncleanElection
from harness.model.excuse import Evidence
from harness.verify.engine.case import Case
from harness.verify.engine.elections import leader_changes, topic_id_at
from harness.verify.excuse import Excuse, of_event
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.unclean_elections import MOVED, REPLACED

# From one leader to none, and from none to the next: the leader epoch rises by one each time.
_EPOCHS_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class LostTail:
    """Records acknowledged before `until_ns` at `log_end` or above, lost by design."""

    topic: str
    partition: int
    broker: int
    log_end: int
    until_ns: int
    evidence: Evidence


def lost_tails(case: Case) -> Iterator[LostTail]:
    """Every log end that the last in-sync replica lost while no other replica could have been elected."""
    for event, step in case.events(steps.LostTail):
        contract = case.contract.topics.get(event.topic)
        if contract is None or not contract.last_replica:
            continue
        if event.elr_level == 0 and event.isr == (event.broker,) and _led_next(case, event, event.leader_epoch):
            evidence = of_event(event, step, event.at_ns)
            yield LostTail(event.topic, event.partition, event.broker, event.log_end, event.at_ns, evidence)


def leads_empty(case: Case, lost: OnlyDiskLost) -> bool:
    """Whether a broker that was alone in the ISR leads again without its disk (`only_disk_lost`).

    With ELR, an unclean shutdown removes it from the ISR; it is elected all the same as the last known leader, and that
    election need not be called clean (KIP-966, "Unclean recovery"; `PartitionChangeBuilder.canElectLastKnownLeader`).
    """
    if lost.isr != (lost.broker,) or lost.leader_epoch is None:
        return False
    return _led_next(case, lost, lost.leader_epoch, unclean=True)


def _led_next(case: Case, lost: steps.LostTail | OnlyDiskLost, epoch: int, *, unclean: bool = False) -> bool:
    place = (lost.topic, lost.partition)
    if any((e.topic, e.partition) == place for e, _ in case.events(UncleanElection)):
        return False  # it is unknown which of the two caused the loss
    topic_id = topic_id_at(case, lost.topic, lost.at_ns)
    after = [
        change
        for change in leader_changes(case)
        if change.elected and change.concerns(*place, topic_id) and change.leader_epoch > epoch
    ]
    led = min(after, key=lambda change: change.leader_epoch, default=None)
    return (
        led is not None
        and led.new_leader == lost.broker
        and (unclean or led.clean is not False)
        and led.leader_epoch <= epoch + _EPOCHS_BETWEEN
    )


def _of_tails(number: int, case: Case) -> Iterator[Clause]:
    """The last in-sync replica replaces the end of every log with its own."""
    for lost in lost_tails(case):
        why = (
            f"broker {lost.broker}, the last in-sync replica of {lost.topic}/{lost.partition}, returned with a log "
            f"that ends at {lost.log_end}, and leads by design without ELR (KIP-966): it may lose what was "
            f"acknowledged before at offset {lost.log_end} and above"
        )
        for kinds, offsets in ((REPLACED, (lost.log_end, None)), (MOVED, (0, None))):
            yield from clauses(
                number,
                kinds,
                why,
                evidence=lost.evidence,
                topic=lost.topic,
                partition=lost.partition,
                offsets=offsets,
                acked_ns=(0, lost.until_ns),
            )


def _of_only_disks(number: int, case: Case) -> Iterator[Clause]:
    """A partition is lost with the only disk that has it, or with the disk of the last in-sync replica: where one
    in-sync replica was enough, it leads again when it returns, and the others truncate their logs to its empty one."""
    for event, step in case.events(OnlyDiskLost):
        contract = case.contract.topics.get(event.topic)
        if contract is None:
            continue
        place, disk = f"{event.topic}/{event.partition}", f"the disk of broker {event.broker}, which was lost"
        if contract.replicas == 1:
            why = f"replication factor 1: the only copy of {place} was on {disk}"
        elif contract.min_insync_replicas == 1 and leads_empty(case, event):
            why = f"min.insync.replicas=1: the only in-sync copy of {place} was on {disk}; it leads by design (KIP-966)"
        else:
            continue
        yield from clauses(
            number,
            REPLACED,
            why,
            evidence=of_event(event, step, event.at_ns),
            topic=event.topic,
            partition=event.partition,
            acked_ns=(0, event.at_ns),
        )


EXCUSES: Final = (
    Excuse(
        name="last_in_sync_replica",
        permits="The last in-sync replica returned without the end of its log, and leads by design without ELR.",
        kinds=(*REPLACED, *MOVED),
        clauses=_of_tails,
    ),
    Excuse(
        name="only_disk_lost",
        permits="The contract permits records on one disk only, and a step destroyed that disk.",
        kinds=REPLACED,
        clauses=_of_only_disks,
    ),
)
