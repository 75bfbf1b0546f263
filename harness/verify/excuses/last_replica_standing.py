"""What goes when the last replica in sync returns without the end of its log, on a cluster without ELR.

A replica of the ISR is believed whatever became of its disk, so one that was alone in it leads again by a clean
election, and the others cut off what it lacks: by design until ELR (KIP-966, "Motivation"). That is all that is
excused: the leader was alone when it died, its log ended there when it was started again, ELR was finalized at level 0,
it is the next leader, and nobody led between the two. Whatever the harness does not know of these excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.verify.engine.case import Case

# From one leader to none, and from none to the next: the leader epoch rises by one each time.
_EPOCHS_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class LostTail:
    """Acked before `until_ns` at `log_end` or above: gone, by design."""

    topic: str
    partition: int
    broker: int
    log_end: int
    until_ns: int


def lost_tails(case: Case) -> Iterator[LostTail]:
    """Every end of a log that the last replica in sync lost, and nobody else could have been elected with."""
    for event, _ in case.events("lost_tail"):
        contract = case.contract.topics.get(event["topic"])
        if contract is None or not contract.last_replica:
            continue
        if event["elr_level"] == 0 and event["isr"] == [event["broker"]] and _led_next(case, event):
            yield LostTail(event["topic"], event["partition"], event["broker"], event["log_end"], event["at_ns"])


def leads_empty(case: Case, lost: Mapping[str, Any]) -> bool:
    """Whether a broker that was alone in sync leads again without the disk that it had (`only_disk_lost`).

    With ELR an unclean shutdown takes it out of the ISR; as the last known leader it is elected all the same, and no
    election is to be called clean then (KIP-966, "Unclean recovery"; `PartitionChangeBuilder.canElectLastKnownLeader`).
    """
    known = lost.get("isr") == [lost["broker"]] and lost.get("leader_epoch") is not None
    return known and _led_next(case, lost, unclean=True)


def _led_next(case: Case, lost: Mapping[str, Any], *, unclean: bool = False) -> bool:
    place = (lost["topic"], lost["partition"])
    if any((e["topic"], e["partition"]) == place for e, _ in case.events("unclean_election")):
        return False  # which of the two took what is not told apart
    after = [
        change
        for change, _ in case.events("leader_change")
        if (change["topic"], change["partition"]) == place and change["leader_epoch"] > lost["leader_epoch"]
    ]
    led = min((c for c in after if c["new_leader"] >= 0), key=lambda c: c["leader_epoch"], default=None)
    return (
        led is not None
        and led["new_leader"] == lost["broker"]
        and (unclean or led.get("clean") is not False)
        and led["leader_epoch"] <= lost["leader_epoch"] + _EPOCHS_BETWEEN
    )
