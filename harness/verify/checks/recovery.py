"""Findings that documents alone show: hanging transactions, no recovery, a log that starts above what it holds."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.finding import Finding, Kind
from harness.verify.checks.log_start import beyond_log
from harness.verify.checks.unavailable import OF_CLIENTS
from harness.verify.engine.case import Case
from harness.verify.excuses.delete_records import came_back
from harness.verify.excuses.excuses import lost_marker
from harness.verify.sentences import promise


def standing(case: Case) -> list[Finding]:
    """All of them; none for a run that died half way, which was not over."""
    if not case.complete:
        return []
    return [*_hanging(case), *_not_recovered(case), *_beyond(case), *came_back(case)]


def settled(case: Case) -> bool | None:
    """Whether the transactions were waited for until the last stable offset reached the high watermark."""
    answer = (case.run.get("transactions_settled") or {}).get("ok")
    return answer if isinstance(answer, bool) else None


def excusable(case: Case) -> bool:
    """Whether something else kept the cluster from coming back: a node that does not run, or a client that died."""
    seen = str((case.run.get("recovered") or {}).get("last_seen", ""))
    clients = any(doubt["name"] in OF_CLIENTS for doubt in case.run.get("doubts") or [])
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
