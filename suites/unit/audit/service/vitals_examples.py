"""The vitals of an auditor that tests show."""

from __future__ import annotations

from dataclasses import replace

from harness.audit.alarms.outbox import Delivered
from harness.audit.service.budget_option import BudgetOption
from harness.audit.service.vitals import Vitals, Watch

AT_NS = 1_795_879_254_654_000_000
WATCH = Watch(
    cluster_id="C",
    bootstrap="h:9092",
    feed="controllers h:9093",
    groups=("g",),
    rules=("blind", "unclean_leader"),
    covered=("metadata", "offsets"),
    asked=("tier",),
    not_covered={"logs": "no --logs were given"},
)
VITALS = Vitals(
    watch=WATCH,
    pid=7,
    started_ns=AT_NS - 3_600_000_000_000,
    at_ns=AT_NS,
    topics=2,
    partitions=1043,
    covered_now=("metadata",),
    alarms=(("unclean_leader", "loss", 1),),
    alarms_by_rule={"unclean_leader": 3},
    records=100,
    metadata_offset=1234,
    behind=0,
    silent_s=0.2,
    blind_s=4.0,
    unwatched_s=60.0,
    looks=5000,
    refused_looks=3,
    suspicions=9,
    dismissed=6,
    round_s=1.5,
    round_ended_ns=AT_NS,
    overdue_s=0.0,
    cpu_s=12.5,
    memory_bytes=45 << 20,
    budget=BudgetOption(),
    undelivered={"webhook": Delivered(sent=1, dropped=2, waiting=3, failure="it answered 500")},
    refusals={"tier": "TOPIC_AUTHORIZATION_FAILED"},
    failed_rules={"unclean_leader": "ZeroDivisionError at on_change:7: a defect"},
    forbidden=("secret",),
    probe={"acked": 10},
    ordered_looks={"round": 4000, "change": 900, "suspicion": 80, "again": 20},
    waiting=2,
    put_off=30,
)


def vitals(**changed: object) -> Vitals:
    return replace(VITALS, **changed)  # type: ignore[arg-type]
