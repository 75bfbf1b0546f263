"""Metrics for Prometheus on a port of this machine. alerts.yml has alert rules for them.

Each answer shows the newest vitals, which the engine leaves here once a second: the thread that answers never touches
the engine's state. This module is imported only with --metrics, because its library takes 4 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from harness.audit.service.vitals import Vitals
from harness.model.errors import BadInput

LOOPBACK: Final = "127.0.0.1"
_PREFIX: Final = "durability_audit"


class Metrics(Collector):
    """Serves /metrics until it is closed."""

    def __init__(self, port: int, address: str = LOOPBACK) -> None:
        """BadInput if nothing can listen there."""
        self._vitals: Vitals | None = None
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        try:
            served = start_http_server(port, address, registry)
        except OSError as refused:
            raise BadInput(f"--metrics {port}: nothing can listen at {address}:{port} ({refused.strerror})") from None
        self._server: WSGIServer = served[0]
        self._thread = served[1]

    @property
    def port(self) -> int:
        return self._server.server_port

    def show(self, vitals: Vitals) -> None:
        """From now on answers show this."""
        self._vitals = vitals

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def collect(self) -> Iterator[Metric]:
        vitals = self._vitals
        if vitals is not None:
            yield from _alarms(vitals)
            yield from _coverage(vitals)
            yield from _work(vitals)
            yield from _costs(vitals)


def _alarms(of: Vitals) -> Iterator[Metric]:
    opened = GaugeMetricFamily(f"{_PREFIX}_alarms_open", "Open alarms.", labels=("rule", "severity"))
    counts = {(rule, severity): count for rule, severity, count in of.alarms}
    for (rule, severity), count in counts.items():
        opened.add_metric((rule, severity), count)
    yield opened
    by_rule = CounterMetricFamily(f"{_PREFIX}_detections", "Confirmed suspicions since the start.", labels=("rule",))
    for rule in of.watch.rules:
        by_rule.add_metric((rule,), of.alarms_by_rule.get(rule, 0))
    yield by_rule
    yield CounterMetricFamily(f"{_PREFIX}_suspicions", "Suspicions of rules since the start.", of.suspicions)
    yield CounterMetricFamily(f"{_PREFIX}_dismissed", "Suspicions that a second look did not confirm.", of.dismissed)
    yield GaugeMetricFamily(f"{_PREFIX}_suspicions_waiting", "Suspicions that no look has decided yet.", of.waiting)
    put_off = "Looks at suspicions that were put off: too early to decide, or too soon after the last one."
    yield CounterMetricFamily(f"{_PREFIX}_put_off_looks", put_off, of.put_off)
    failed = GaugeMetricFamily(
        f"{_PREFIX}_rule_failed", "1 = this rule failed and is off until a restart.", labels=("rule",)
    )
    for rule in of.watch.rules:
        failed.add_metric((rule,), rule in of.failed_rules)
    yield failed
    dropped = CounterMetricFamily(f"{_PREFIX}_undelivered", "Messages that were dropped.", labels=("sink",))
    waiting = GaugeMetricFamily(f"{_PREFIX}_undelivered_waiting", "Messages that wait.", labels=("sink",))
    for sink, delivered in of.undelivered.items():
        dropped.add_metric((sink,), delivered.dropped)
        waiting.add_metric((sink,), delivered.waiting)
    yield from (dropped, waiting)


def _coverage(of: Vitals) -> Iterator[Metric]:
    missing = GaugeMetricFamily(
        f"{_PREFIX}_not_covered", "1 = this source is not there, or does not answer now.", labels=("source",)
    )
    for source in of.sources:
        missing.add_metric((source,), source not in of.covered_now)
    covers = GaugeMetricFamily(
        f"{_PREFIX}_covers", "1 = this source was asked for, and answers now.", labels=("source",)
    )
    for source in sorted({*of.sources} - of.watch.not_covered.keys()):
        covers.add_metric((source,), source in of.covered_now)
    yield from (missing, covers)
    hidden = "Topics that this client may not describe, so they are not looked at."
    yield GaugeMetricFamily(f"{_PREFIX}_topics_forbidden", hidden, len(of.forbidden))
    name = f"{_PREFIX}_unwatched_seconds"
    yield CounterMetricFamily(name, "Time without a watch that the database knows of.", of.unwatched_s)
    yield CounterMetricFamily(f"{_PREFIX}_blind_seconds", "Time without news of the metadata log.", of.blind_s)
    yield GaugeMetricFamily(f"{_PREFIX}_metadata_silent_seconds", "Since the last news of it.", of.silent_s)
    yield GaugeMetricFamily(f"{_PREFIX}_metadata_behind_records", "Committed records that are not read yet.", of.behind)
    yield GaugeMetricFamily(
        f"{_PREFIX}_look_overdue_seconds", "Age of the oldest look beyond its due time.", of.overdue_s
    )


def _work(of: Vitals) -> Iterator[Metric]:
    yield GaugeMetricFamily(f"{_PREFIX}_partitions", "Partitions of the cluster.", of.partitions)
    yield CounterMetricFamily(f"{_PREFIX}_metadata_records", "Records read from the metadata log.", of.records)
    yield GaugeMetricFamily(
        f"{_PREFIX}_metadata_offset", "Offset of the last record that was read.", of.metadata_offset
    )
    yield CounterMetricFamily(f"{_PREFIX}_looks", "Looks at partitions.", of.looks)
    ordered = CounterMetricFamily(
        f"{_PREFIX}_ordered_looks", "Looks by their reason; only rounds wait for the budget.", labels=("reason",)
    )
    for reason, count in of.ordered_looks.items():
        ordered.add_metric((reason,), count)
    yield ordered
    yield CounterMetricFamily(f"{_PREFIX}_refused_looks", "Looks that no broker answered.", of.refused_looks)
    if of.round_s is not None:
        yield GaugeMetricFamily(f"{_PREFIX}_round_seconds", "How long the last round of looks took.", of.round_s)
    probe = CounterMetricFamily(f"{_PREFIX}_probe_records", "Records of the probe.", labels=("what",))
    for what, count in of.probe.items():
        probe.add_metric((what,), count)
    yield probe


def _costs(of: Vitals) -> Iterator[Metric]:
    budget = GaugeMetricFamily(f"{_PREFIX}_budget", "The budget: a share, bytes, bytes a second.", labels=("of",))
    budget.add_metric(("cpu",), of.budget.cpu)
    budget.add_metric(("memory",), of.budget.memory_bytes)
    if of.budget.bytes_s is not None:
        budget.add_metric(("bytes_s",), of.budget.bytes_s)
    yield budget
    yield GaugeMetricFamily(f"{_PREFIX}_vitals_seconds", "When the engine wrote these, as a Unix time.", of.at_ns / 1e9)
    yield GaugeMetricFamily(f"{_PREFIX}_started_seconds", "When it was started, as a Unix time.", of.started_ns / 1e9)
