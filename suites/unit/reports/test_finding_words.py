"""The words of the summary for findings that concern no record."""

from __future__ import annotations

import pytest

from harness.model.finding import Finding, Kind
from reports.summary import amount_of, time_of

AT_NS = 1_795_265_533_567_153_459


@pytest.mark.parametrize(
    ("kind", "count", "words", "when"),
    [
        (Kind.LOST, 2, "2 records", "sent"),
        (Kind.ADMIN_LOST, 1, "1 operation", "asked"),
        (Kind.CRASHED, 1, "1 node", "ended"),
        (Kind.STALE_METADATA, 3, "3 differences", "seen"),
        (Kind.WRONG_SNAPSHOT, 1, "1 difference", "seen"),
        (Kind.NOT_IN_SYNC, 2, "2 records", "seen"),
        (Kind.UNCLEAN_ELECTION, 1, "1 election", "seen"),
    ],
)
def test_what_a_finding_counts_and_what_its_time_is(kind: Kind, count: int, words: str, when: str) -> None:
    finding = Finding(kind=kind, count=count, first_ns=AT_NS)
    assert amount_of(finding) == words
    assert time_of(finding) == f", {when} 12:52:13.567 UTC"
