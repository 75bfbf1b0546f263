"""Findings that documents alone show: hanging transactions, no recovery, a log that starts above what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from harness.model.finding import Finding, Kind
from harness.verify.case import Case
from harness.verify.checks.log_start import beyond_log
from harness.verify.detail import promise
from harness.verify.excuse import lost_marker

# Doubts of a run that say that a client of ours ended early, so that acks may have ceased for that.
_OF_CLIENTS: Final = ("producer", "client_hung")
# Steps that end brokers without a controlled shutdown, whatever their arguments.
_UNCLEAN: Final = frozenset(
    {"kill", "crash_loop", "disk_full", "disk_filled", "disk_failed", "disk_read_only", "disk_stalled", "power_loss"}
    | {"out_of_memory", "oom_killed", "kill_deleting", "lose_tail"}
)


def standing(case: Case) -> list[Finding]:
    """All of them; none for a run that died half way, which was not over."""
    if not case.complete:
        return []
    return [*_hanging(case), *_not_recovered(case), *_beyond(case), *_came_back(case)]


def settled(case: Case) -> bool | None:
    """Whether the transactions were waited for until the last stable offset reached the high watermark."""
    answer = (case.run.get("transactions_settled") or {}).get("ok")
    return answer if isinstance(answer, bool) else None


def excusable(case: Case) -> bool:
    """Whether something else kept the cluster from coming back: a node that does not run, or a client that died."""
    seen = str((case.run.get("recovered") or {}).get("last_seen", ""))
    clients = any(doubt["name"] in _OF_CLIENTS for doubt in case.run.get("doubts") or [])
    return "not running" in seen or ("no acks" in seen and clients)


def _hanging(case: Case) -> Iterator[Finding]:
    """Load and its transactions are over long ago, and read_committed is still held back."""
    last = case.last_snapshot
    for p in last["partitions"] if last and settled(case) is not True else ():
        stable, high = p["last_stable_offset"], p["high_watermark"]
        if stable is None or high is None or stable >= high:
            continue
        waited_s = (case.run.get("transactions_settled") or {}).get("waited_s", 0)
        yield Finding(
            kind=Kind.HANGING_TRANSACTION,
            topic=p["topic"],
            topic_id=p["topic_id"],
            partition=p["partition"],
            offset_first=stable,
            offset_last=high - 1,
            count=high - stable,
            detail=f"the last stable offset stands at {stable} of {high}, {waited_s:g} s after the last transaction",
            contract=promise(Kind.HANGING_TRANSACTION, None, None, case.contract),
            excused_by=lost_marker(case, p["topic"], p["partition"], stable),
        )


def _not_recovered(case: Case) -> Iterator[Finding]:
    recovered = case.run.get("recovered") or {}
    if recovered.get("ok") is False and not excusable(case):
        yield Finding(
            kind=Kind.NOT_RECOVERED,
            detail=f"with every node up: {recovered.get('last_seen')}",
            contract=promise(Kind.NOT_RECOVERED, None, None, case.contract),
        )


def _beyond(case: Case) -> Iterator[Finding]:
    for log in beyond_log(case):
        yield Finding(
            kind=Kind.LOG_START,
            topic=log["topic"],
            topic_id=log["topic_id"],
            partition=log["partition"],
            reader=f"broker {log['broker']}",
            detail=f"the log starts at {log['log_start']}, above the high watermark",
            contract=promise(Kind.LOG_START, log["topic"], None, case.contract),
        )


def _came_back(case: Case) -> Iterator[Finding]:
    """Records below an answered DeleteRecords that a replica in sync still has, or has again (KIP-107)."""
    for p, before, there in _below_deletion(case, killed=False):
        first = min(there.values())
        yield Finding(
            kind=Kind.LOG_START,
            topic=p["topic"],
            topic_id=p["topic_id"],
            partition=p["partition"],
            offset_first=first,
            offset_last=before - 1,
            count=before - first,
            reader=f"brokers {', '.join(map(str, sorted(there)))}",
            detail=f"DeleteRecords up to {before} was answered, and the log starts at {first}",
            contract="what DeleteRecords took stays away (KIP-107)",
        )


def back_after_kill(case: Case) -> list[str]:
    """Notes on what DeleteRecords took and a SIGKILL brought back: the new start of a log is written to disk now and
    then only (log.flush.start.offset.checkpoint.interval.ms, a minute)."""
    return [
        f"{p['topic']}/{p['partition']}: DeleteRecords up to {before} was answered, and after a SIGKILL the log of "
        f"brokers {', '.join(map(str, sorted(there)))} starts at {min(there.values())} again: by design, its start is "
        "written to disk once a minute"
        for p, before, there in _below_deletion(case, killed=True)
    ]


def _below_deletion(case: Case, *, killed: bool) -> Iterator[tuple[Mapping[str, Any], int, dict[int, int]]]:
    """Partitions with the offset up to which records were deleted, where a replica in sync starts below it, and where
    each does. `killed`: those that a broker was killed after."""
    last = case.last_snapshot
    killed_ns = [step["started_ns"] for step in case.steps if _unclean(step) and step["started_ns"] is not None]
    deleted: dict[bool, dict[tuple[str, int], int]] = {True: {}, False: {}}
    for event, _ in case.events("delete_records"):
        if last and event["at_ns"] <= last["at_ns"]:
            since = deleted[any(at_ns >= event["at_ns"] for at_ns in killed_ns)]
            place = (event["topic"], event["partition"])
            since[place] = max(since.get(place, 0), event["before_offset"])
    for p in last["partitions"] if last else ():
        before = deleted[killed].get((p["topic"], p["partition"]), 0)
        kept = {log["broker"]: log["log_start"] for log in p["logs"] if log["broker"] in p["isr"]}
        there = {broker: start for broker, start in kept.items() if start < before}
        if there:
            yield p, before, there


def _unclean(step: Mapping[str, Any]) -> bool:
    """Whether a step ends a broker without a controlled shutdown."""
    return step["do"] in _UNCLEAN or (step["do"] == "damage" and step["args"].get("how", "killed") == "killed")
