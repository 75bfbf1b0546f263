"""Records that a power loss may destroy: in which partition, from which offset on, and acknowledged when.

Kafka acknowledges records that replicas have in memory, and flushes them by flush.messages and flush.ms; by default the
operating system decides. So a record survives as long as one replica that has it keeps its power. It may be lost only
if every in-sync replica lost its power, and none of them was back before the last one lost it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.model.documents.contract import TopicContract
from harness.model.documents.steps import PowerLost, Step
from harness.model.excuse import Evidence
from harness.verify.engine.case import Case
from harness.verify.excuse import Excuse, of_event
from harness.verify.excuses.clauses import Clause, clauses
from harness.verify.excuses.unclean_elections import MOVED, REPLACED

# Time that a due flush may take on a disk that others use, too.
_FLUSHING_NS: Final = 5 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Records from `from_offset` on, acknowledged between the two times (epoch ns), may be lost."""

    topic: str
    partition: int
    brokers: tuple[int, ...]
    from_offset: int
    since_ns: int
    until_ns: int
    evidence: Evidence


def outages(case: Case) -> Iterator[Outage]:
    """Power losses of partitions with a contract that permits replicas to have a record in memory only."""
    for (topic, partition), losses in _by_place(case).items():
        contract = case.contract.topics.get(topic)
        if contract is None or 0 <= contract.flush_messages <= 1:
            continue
        for event, step in losses:
            dead = _dead_at(event.at_ns, losses)
            holders = set(event.isr)
            # The acknowledgement means that this many replicas had the record: a power loss of fewer does not explain
            # its loss.
            if not holders or holders - dead.keys() or len(dead) < contract.min_insync_replicas:
                continue
            yield Outage(
                topic=topic,
                partition=partition,
                brokers=tuple(sorted(dead)),
                from_offset=_flushed(contract, [dead[broker] for broker in holders]),
                since_ns=_due_ns(contract, event.at_ns),
                until_ns=event.at_ns,
                evidence=of_event(event, step, event.at_ns),
            )


def _clauses(number: int, case: Case) -> Iterator[Clause]:
    """Records that no in-sync replica had on disk are lost, also if a reader received them."""
    for out in outages(case):
        why = (
            f"power loss of brokers {', '.join(map(str, out.brokers))}, all in-sync replicas of "
            f"{out.topic}/{out.partition}; its contract permits records in memory only (flush.messages, flush.ms): "
            f"the power loss may lose what was acknowledged before it at offset {out.from_offset} and above"
        )
        for kinds, offsets in ((REPLACED, (out.from_offset, None)), (MOVED, (0, None))):
            yield from clauses(
                number,
                kinds,
                why,
                evidence=out.evidence,
                topic=out.topic,
                partition=out.partition,
                offsets=offsets,
                acked_ns=(out.since_ns, out.until_ns),
            )


def _by_place(case: Case) -> dict[tuple[str, int], list[tuple[PowerLost, Step]]]:
    """Power losses of each partition's replicas, each with its step, oldest first.

    Disks that pretended to flush are left out: no setting of Kafka covers them.
    """
    out: dict[tuple[str, int], list[tuple[PowerLost, Step]]] = {}
    for event, step in sorted(case.events(PowerLost), key=lambda found: found[0].at_ns):
        if not event.pretended:
            out.setdefault((event.topic, event.partition), []).append((event, step))
    return out


def _dead_at(at_ns: int, losses: list[tuple[PowerLost, Step]]) -> dict[int, PowerLost]:
    """Brokers without power at that time, each with its event. A healed broker is up, in sync or not."""
    return {
        event.broker: event
        for event, step in losses
        if event.at_ns <= at_ns and (step.healed_ns is None or step.healed_ns > at_ns)
    }


def _due_ns(contract: TopicContract, at_ns: int) -> int:
    """Records acknowledged before this time had to be on every disk by flush.ms."""
    # flush.ms may reach beyond the epoch: 2**63 - 1 means never.
    return max(0, at_ns - contract.flush_ms * 1_000_000 - _FLUSHING_NS) if contract.flush_ms >= 0 else 0


def _flushed(contract: TopicContract, replicas: list[PowerLost]) -> int:
    """Records below this offset were on each of these disks: by the recovery points, by what the disks still had
    when the power returned, or by flush.messages. Any next leader has them."""
    noted = min(replica.recovery_point for replica in replicas)
    flushed = max(noted, min(replica.sound_end or 0 for replica in replicas))
    if contract.flush_messages > 1:
        flushed = max(flushed, min(replica.log_end for replica in replicas) - contract.flush_messages + 1)
    return flushed


EXCUSES: Final = (
    Excuse(
        name="power_lost",
        permits="All in-sync replicas lost their power, and the contract permits records in memory only.",
        kinds=(*REPLACED, *MOVED),
        clauses=_clauses,
    ),
)
