"""The vitals survive the database, and patterns choose topics."""

from __future__ import annotations

from harness.audit.service.vitals import memory_bytes, vitals_from
from harness.audit.service.watch_list import watched
from suites.unit.audit.service.vitals_examples import VITALS


def test_vitals_are_read_as_they_were_written() -> None:
    assert vitals_from(VITALS.text()) == VITALS
    assert VITALS.sources == ["logs", "metadata", "offsets", "tier"]


def test_the_memory_is_that_of_this_process() -> None:
    assert 5 << 20 < memory_bytes() < 4 << 30


def test_without_patterns_every_topic_is_watched() -> None:
    assert watched(())("anything")


def test_patterns_are_those_of_a_shell() -> None:
    chosen = watched(("orders-*", "bills"))
    assert [chosen(topic) for topic in ("orders-eu", "bills", "orders", "bills-2", "Orders-eu")] == [
        True,
        True,
        False,
        False,
        False,
    ]
