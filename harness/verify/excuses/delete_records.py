"""What DeleteRecords took (KIP-107): it stays away, but where nobody is left who knows at which offset the log began.

DeleteRecords is answered when every replica that is alive knows the new start of the log. A broker writes the starts of
its logs to disk every log.flush.start.offset.checkpoint.interval.ms, and when it ends in good order. Who is killed
before that comes back with the old start, and has the new one again as soon as it follows anybody who knows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.finding import Finding, Kind
from harness.verify.engine.case import Case

# Steps that end brokers without a controlled shutdown, whatever their arguments.
_UNCLEAN: Final = frozenset(
    {"kill", "crash_loop", "disk_full", "disk_filled", "disk_failed", "disk_read_only", "disk_stalled", "power_loss"}
    | {"out_of_memory", "oom_killed", "kill_cleaning", "kill_deleting", "lose_tail"}
)
# Those of them that have ended who they end when the step is through, and not only when it is healed.
_AT_ONCE: Final = frozenset({"kill", "kill_cleaning", "kill_deleting"})
# How late a broker on a starved machine may be to write what it is to write at regular intervals.
_LATE_NS: Final = 30 * 10**9
_LATER_NS: Final = 2**62
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class _Back:
    """Brokers of a place in sync whose logs start below an offset up to which records were deleted, and where."""

    place: Mapping[str, Any]
    before: int
    starts: Mapping[int, int]

    @property
    def brokers(self) -> str:
        return f"brokers {', '.join(map(str, sorted(self.starts)))}"


@dataclass(frozen=True, slots=True)
class _End:
    """A broker's, without a controlled shutdown: at some time between these."""

    from_ns: int
    to_ns: int


def came_back(case: Case) -> Iterator[Finding]:
    """Records below an answered DeleteRecords that a replica in sync still has, or has again."""
    for back in _back(case, by_design=False):
        first, place = min(back.starts.values()), back.place
        yield Finding(
            kind=Kind.LOG_START,
            topic=place["topic"],
            topic_id=place["topic_id"],
            partition=place["partition"],
            offset_first=first,
            offset_last=back.before - 1,
            count=back.before - first,
            reader=back.brokers,
            detail=f"DeleteRecords up to {back.before} was answered, and the log starts at {first}",
            contract="what DeleteRecords took stays away (KIP-107)",
        )


def back_after_kill(case: Case) -> list[str]:
    """Notes on what DeleteRecords took and the death of all who knew it brought back."""
    every_s = case.contract.start_checkpoint_ms / 1000
    return [
        f"{back.place['topic']}/{back.place['partition']}: DeleteRecords up to {back.before} was answered, and after a "
        f"SIGKILL the log of {back.brokers} starts at {min(back.starts.values())} again: by design, its start is "
        f"written to disk every {every_s:g} s"
        for back in _back(case, by_design=True)
    ]


def returned(case: Case) -> dict[str, int]:
    """By "topic/partition", how many deleted offsets are in the log again by design."""
    return {
        f"{back.place['topic']}/{back.place['partition']}": back.before - min(back.starts.values())
        for back in _back(case, by_design=True)
    }


def _back(case: Case, *, by_design: bool) -> Iterator[_Back]:
    last = case.last_snapshot
    for place in last["partitions"] if last else ():
        kept = {log["broker"]: log["log_start"] for log in place["logs"] if log["broker"] in place["isr"]}
        found = []
        for event, _ in case.events("delete_records"):
            here = (event["topic"], event["partition"]) == (place["topic"], place["partition"])
            if last and here and event["at_ns"] <= last["at_ns"]:
                before = event["before_offset"]
                below = {broker: start for broker, start in kept.items() if start < before}
                starts = {b: s for b, s in below.items() if _may_forget(case, event, place, b) is by_design}
                found += [_Back(place, before, starts)] if starts else []
        yield from sorted(found, key=lambda back: -back.before)[:1]


def _may_forget(case: Case, deletion: Mapping[str, Any], place: Mapping[str, Any], broker: int) -> bool:
    """Whether a broker may have come back without knowing of a deletion, and followed nobody since who did."""
    at_ns = deletion["at_ns"]
    until_ns = at_ns + case.contract.start_checkpoint_ms * 10**6 + _LATE_NS
    ends = {b: [end for end in _ends(case, b) if end.to_ns >= at_ns] for b in place["replicas"]}
    if not any(end.from_ns <= until_ns for end in ends.get(broker, [])):
        return False
    contract = case.contract.topics.get(place["topic"])
    if contract is None or contract.unclean_election:  # then it may lead without having followed
        return True
    over_ns = max(end.to_ns for of_one in ends.values() for end in of_one)
    return all(ends.get(leader, [None]) for leader in _leaders_since(case, place, over_ns))


def _leaders_since(case: Case, place: Mapping[str, Any], since_ns: int) -> set[int]:
    """Who led a partition then and later, as far as anybody saw: whoever is in sync has heard of each where the log
    begins, with every fetch."""
    here = (place["topic"], place["partition"])
    seen = [event for event, _ in case.events("leader_change") if (event["topic"], event["partition"]) == here]
    changes = sorted(seen, key=lambda change: change["at_ns"])
    later = [change for change in changes if change["at_ns"] > since_ns]
    led = [change["new_leader"] for change in changes if change["at_ns"] <= since_ns][-1:]
    if not led:
        led = [later[0].get("old_leader", _NOBODY) if later else place.get("leader", _NOBODY)]
    return {leader for leader in (*led, *(change["new_leader"] for change in later)) if leader != _NOBODY}


def _ends(case: Case, broker: int) -> Iterator[_End]:
    for step in case.steps:
        nodes = (step.get("resolved") or {}).get("nodes")
        if _unclean(step) and step["started_ns"] is not None and (nodes is None or broker in nodes):
            over_ns = step.get("ended_ns") if step["do"] in _AT_ONCE else step.get("healed_ns")
            yield _End(step["started_ns"], over_ns or _LATER_NS)


def _unclean(step: Mapping[str, Any]) -> bool:
    """Whether a step ends a broker without a controlled shutdown."""
    return step["do"] in _UNCLEAN or (step["do"] == "damage" and step["args"].get("how", "killed") == "killed")
