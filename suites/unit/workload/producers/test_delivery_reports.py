"""Timestamps in delivery reports, and their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from harness.workload.producers import delivery_reports
from harness.workload.producers.delivery_reports import Times


class Report:
    def __init__(self, kind: int, at_ms: int) -> None:
        self.reported = kind, at_ms

    def timestamp(self) -> tuple[int, int]:
        return self.reported


def times(monkeypatch: pytest.MonkeyPatch, *reported: tuple[int, int]) -> Times:
    monkeypatch.setattr(delivery_reports, "Message", Report)
    reports: list[Any] = [Report(*one) for one in reported]
    return Times.of(reports)


def test_timestamps_of_one_type_store_the_type_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(monkeypatch, (TIMESTAMP_CREATE_TIME, 5), (TIMESTAMP_CREATE_TIME, 6))
    assert (found.types, found.at_ms.tolist()) == ("create", [5, 6])
    assert times(monkeypatch, (TIMESTAMP_NOT_AVAILABLE, -1)).types is None


def test_timestamps_of_two_types_store_the_type_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(monkeypatch, (TIMESTAMP_CREATE_TIME, 5), (TIMESTAMP_LOG_APPEND_TIME, 6), (TIMESTAMP_CREATE_TIME, 7))
    assert found.types == ["create", "append", "create"]
    some = found.among(np.array([False, True, True]))
    assert (some.types, some.at_ms.tolist()) == (["append", "create"], [6, 7])
