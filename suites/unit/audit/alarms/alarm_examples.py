"""Alarms that tests show."""

from __future__ import annotations

from harness.audit.alarms.alarm import Alarm
from harness.audit.rules.rule import Suspicion
from harness.model.severity import Severity

OPENED_NS = 1_795_879_254_654_000_000  # 2026-11-28T15:20:54.654Z
S = 1_000_000_000


def suspicion(partition: int = 0, *, first: int | None = 100, deleted_at_ns: int | None = None) -> Suspicion:
    """50 records of orders, from `first` on."""
    return Suspicion(
        rule="epoch_below_commit",
        cause="broker 3",
        what=f"Records of orders/{partition} are lost.",
        at_ns=OPENED_NS,
        topic="orders",
        topic_id="T",
        partition=partition,
        first_offset=first,
        end_offset=None if first is None else first + 50,
        deleted_at_ns=deleted_at_ns,
        leader_epoch=2,
        metadata_offset=1234,
    )


def alarm(*suspicions: Suspicion, severity: Severity = Severity.LOSS) -> Alarm:
    chosen = list(suspicions) or [suspicion()]
    texts = ("They are lost.", "Stop the producers.", "KIP-101")
    found = Alarm("epoch_below_commit", "broker 3", severity, *texts, OPENED_NS, OPENED_NS, chosen)
    found.partitions = len(chosen)
    return found
