"""Metrics answer in Prometheus' text format, and every alert rule is about a metric that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import harness.audit
from harness.audit.alarms.metrics import Metrics
from harness.model.errors import BadInput
from suites.unit.audit.service.vitals_examples import VITALS

ALERTS = Path(harness.audit.__file__).with_name("alerts.yml")
OF_PROMETHEUS = {"up"}


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics(0)
    yield made
    made.close()


def answer(metrics: Metrics) -> str:
    with urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=10) as response:
        return str(response.read().decode())


def test_before_the_first_vitals_there_are_only_those_of_the_process(metrics: Metrics) -> None:
    text = answer(metrics)
    assert "process_resident_memory_bytes" in text
    assert "durability_audit" not in text


def test_the_newest_vitals_are_served(metrics: Metrics) -> None:
    metrics.show(VITALS)
    rows = set(answer(metrics).splitlines())
    assert {
        'durability_audit_alarms_open{rule="unclean_leader",severity="loss"} 1.0',
        'durability_audit_detections_total{rule="blind"} 0.0',
        'durability_audit_detections_total{rule="unclean_leader"} 3.0',
        'durability_audit_not_covered{source="logs"} 1.0',
        'durability_audit_not_covered{source="metadata"} 0.0',
        'durability_audit_covers{source="offsets"} 0.0',
        'durability_audit_covers{source="tier"} 0.0',
        "durability_audit_unwatched_seconds_total 60.0",
        "durability_audit_metadata_offset 1234.0",
        "durability_audit_topics_forbidden 1.0",
        'durability_audit_undelivered_total{sink="webhook"} 2.0',
        'durability_audit_budget{of="cpu"} 0.05',
        'durability_audit_rule_failed{rule="blind"} 0.0',
        'durability_audit_rule_failed{rule="unclean_leader"} 1.0',
        'durability_audit_ordered_looks_total{reason="change"} 900.0',
        "durability_audit_suspicions_waiting 2.0",
        "durability_audit_put_off_looks_total 30.0",
        'durability_audit_probe_records_total{what="acked"} 10.0',
    } <= rows
    assert not any(row.startswith('durability_audit_covers{source="logs"}') for row in rows)  # they were not asked for


def test_a_port_in_use_is_refused(metrics: Metrics) -> None:
    with pytest.raises(BadInput, match=rf"--metrics {metrics.port}: nothing can listen at 127\.0\.0\.1"):
        Metrics(metrics.port)


def test_every_alert_is_about_a_metric_that_is_served(metrics: Metrics) -> None:
    metrics.show(VITALS)
    served = {re.split(r"[{ ]", row)[0] for row in answer(metrics).splitlines() if not row.startswith("#")}
    expressions = re.findall(r"^ +expr: (.*)$", ALERTS.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for text in expressions for name in re.findall(r"\b(?:durability|process)_\w+|\bup\b", text)}
    assert len(expressions) == 10
    assert named - served - OF_PROMETHEUS == set()
