"""Why a run proved too little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.model.verdict import Doubt
from harness.verify.case import Case, places_of
from harness.verify.counts import Counts
from harness.verify.rows import UNREAD

Runs = Sequence[Mapping[str, Any]]


def doubts_of(case: Case, counts: Counts, runs: Runs, failed: Mapping[str, str]) -> list[Doubt]:
    """Every reason, in a stable order, each once."""
    found = [
        *_checks(failed),
        *_of_the_run(case),
        *_unfinished(case),
        *(_of_reading(case, counts, runs) if case.complete else ()),
    ]
    return list(dict.fromkeys(found))


def _checks(failed: Mapping[str, str]) -> Iterator[Doubt]:
    for name, error in failed.items():
        yield Doubt(f"check_failed:{name}", f"the check {name} broke down and says nothing ({error})")


def _of_the_run(case: Case) -> Iterator[Doubt]:
    for row in case.run.get("doubts") or []:
        yield Doubt(row["name"], row["text"])


def _unfinished(case: Case) -> Iterator[Doubt]:
    if not case.complete:
        yield Doubt("unfinished", "the run ended half way: only what is there was judged, not what is absent")


def _of_reading(case: Case, counts: Counts, runs: Runs) -> Iterator[Doubt]:
    if not counts.total("acked"):
        yield Doubt("empty_ledger", "not one record was acknowledged")
    if not any(kind == "drain" for kind, _, _ in counts.read):
        yield Doubt("empty_drain", "the read after healing saw nothing at all")
    for run in runs:
        if run["kind"] == UNREAD:
            place = f"{run['topic']}/{run['partition']}"
            yield Doubt("unread", f"{run['count']} acknowledged records of {place} were not reached by any read")
    for facts in places_of(case):
        topic, _, partition = facts.place
        if not facts.committed_reached:
            yield Doubt("unread", f"the read of {topic}/{partition} stopped at {facts.committed}")
