"""Figures of the reads after healing: copies that were read to the end."""

from __future__ import annotations

from harness.model.documents.verdict_facts import ReadBack
from harness.verify.engine.case import Case, Place
from harness.verify.engine.counts import Counts
from harness.verify.excuses.topics_deleted import deleted


def copies_read(case: Case, counts: Counts) -> ReadBack:
    """How many copies of partitions with acknowledged records were read to the end."""
    topics = deleted(case)
    places = {place for place, of in counts.sent.items() if of.acked and place[:2] not in topics}
    there = {row.place: set(row.replicas) for row in case.last_partitions}
    read: dict[Place, set[int]] = {}
    for one in case.reads:
        place = one.place
        if place in places and one.reached and one.position >= one.target:
            served = set(one.served_by or ())
            # A read that several brokers served is a read of no copy in particular.
            of_copy = served & there.get(place, served) if len(served) == 1 else set()
            read.setdefault(place, set()).update(of_copy)
    return ReadBack(
        partitions=len(places),
        copies_read=sum(max(len(brokers), 1) for brokers in read.values()),
        copies=sum(len(there[place]) for place in places) if places <= there.keys() else None,
    )
