"""What power that failed may have taken: of which partition, from which offset, acknowledged when.

Kafka acknowledges what its replicas have in memory, and writes it to disk by flush.messages and flush.ms, which by
default leave that to the operating system. So a record survives as long as one replica that has it keeps its power. It
may go only when every replica that was in sync has lost its power, with none of them back before the last one went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.contract.contract import TopicContract
from harness.verify.engine.case import Case

Row = Mapping[str, Any]
# From when a flush is due until it is done, on a disk that others use, too.
_FLUSHING_NS: Final = 5 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Acked records from `from_offset` on, acked between the two times (epoch nanoseconds), may be gone."""

    topic: str
    partition: int
    brokers: tuple[int, ...]
    from_offset: int
    since_ns: int
    until_ns: int


def outages(case: Case) -> Iterator[Outage]:
    """Of each partition whose contract lets replicas have a record in memory alone."""
    for (topic, partition), losses in _by_place(case).items():
        contract = case.contract.topics.get(topic)
        if contract is None or 0 <= contract.flush_messages <= 1:
            continue
        for event, _ in losses:
            dead = _dead_at(event["at_ns"], losses)
            holders = set(event["isr"])
            # An answer told that so many replicas had the record: fewer that lose power do not explain its loss.
            if not holders or holders - dead.keys() or len(dead) < contract.min_insync_replicas:
                continue
            yield Outage(
                topic=topic,
                partition=partition,
                brokers=tuple(sorted(dead)),
                from_offset=_flushed(contract, [dead[broker] for broker in holders]),
                since_ns=_due_ns(contract, event["at_ns"]),
                until_ns=event["at_ns"],
            )


def _by_place(case: Case) -> dict[tuple[str, int], list[tuple[Row, Row]]]:
    """The losses of power of each partition's replicas, each with its step, oldest first.

    A disk that pretended to have flushed is none of them: no setting of Kafka's has anything to do with that.
    """
    out: dict[tuple[str, int], list[tuple[Row, Row]]] = {}
    for event, step in sorted(case.events("power_loss"), key=lambda reported: reported[0]["at_ns"]):
        if not event.get("pretended"):
            out.setdefault((event["topic"], event["partition"]), []).append((event, step))
    return out


def _dead_at(at_ns: int, losses: list[tuple[Row, Row]]) -> dict[int, Row]:
    """Brokers without power at that time, with reason each lost it; healed, a broker is up, in sync or out of it."""
    return {
        event["broker"]: event
        for event, step in losses
        if event["at_ns"] <= at_ns and (step["healed_ns"] is None or step["healed_ns"] > at_ns)
    }


def _due_ns(contract: TopicContract, at_ns: int) -> int:
    """What was acked before had to be on every disk by then, as far as time goes."""
    return at_ns - contract.flush_ms * 1_000_000 - _FLUSHING_NS if contract.flush_ms >= 0 else 0


def _flushed(contract: TopicContract, replicas: list[Row]) -> int:
    """What lies below was on every one of these disks: by what they noted, what they still had when the power was back,
    or what the contract promises. Whoever leads next has it."""
    noted = min(replica["recovery_point"] for replica in replicas)
    flushed: int = max(noted, min(replica.get("sound_end", 0) for replica in replicas))
    if contract.flush_messages > 1:
        flushed = max(flushed, min(replica["log_end"] for replica in replicas) - contract.flush_messages + 1)
    return flushed
