"""Runs with secure listeners: missing proof is a doubt, and TLS counts as covered only without such a doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.model.verdict import Status, Verdict
from harness.verify.checks.tls import UNSECURED
from suites.verify.history import BROKERS, Built, History
from suites.verify.judging import HistoryBatch

MAP = "REPL:SSL,CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL,DIRECT:PLAINTEXT"


def secure(edit: Callable[[Built], Any] = lambda _: None) -> Built:
    built = History("AAAA").build()
    built.scenario["shape"] = {"brokers": 3, "secure": True}
    refused = {"tls": "TLSv1.3", "cipher": "c", "plaintext": "refused", "wrong_password": "refused"}
    scenario = built.scenario
    clients = [f"{kind} {c['name']}" for kind in ("producer", "reader") for c in scenario.get(f"{kind}s", [])]
    clients += [*{read["reader"] for read in built.reads}, "producer sentinel"]
    built.run["secured"] = {
        "protocol": "SASL_SSL",
        "between_brokers": "SSL",
        "listeners": [{"broker": b, "address": f"h:{b}", **refused} for b in BROKERS],
        "clients": {name: {"sasl_ssl": 100} for name in clients},
    }
    reported = {"inter.broker.listener.name": "REPL", "listener.security.protocol.map": MAP}
    for snapshot in built.cluster["snapshots"]:
        snapshot["broker_configs"] = {str(b): dict(reported) for b in BROKERS}
    edit(built)
    return built


def last(built: Built) -> dict[str, Any]:
    return dict(next(s for s in built.cluster["snapshots"] if s["phase"] == "drained")["broker_configs"])


CASES: dict[str, tuple[Built, list[str]]] = {
    "plain": (History("AAAA").build(), []),
    "proven": (secure(), []),
    "no report": (secure(lambda b: b.run.pop("secured")), ["the bundle has no proof that records used TLS"]),
    "a copy read in plaintext": (
        secure(lambda b: b.run["secured"]["clients"]["replica-2-committed"].update(plaintext=1)),
        ["client replica-2-committed also used plaintext"],
    ),
    "a drain without statistics": (
        secure(lambda b: b.run["secured"]["clients"].pop("leader-committed")),
        ["the statistics of client leader-committed show no sasl_ssl"],
    ),
    "sentinels without statistics": (
        secure(lambda b: b.run["secured"]["clients"].pop("producer sentinel")),
        ["the statistics of client producer sentinel show no sasl_ssl"],
    ),
    "a live reader without statistics, and a producer of its name with them": (
        secure(
            lambda b: b.run["secured"]["clients"].update(
                {"producer grouped": b.run["secured"]["clients"].pop("reader grouped")}
            )
        ),
        ["the statistics of client reader grouped show no sasl_ssl"],
    ),
    "another client used plaintext": (
        secure(lambda b: b.run["secured"]["clients"].update(replay={"plaintext": 7})),
        ["client replay also used plaintext"],
    ),
    "a listener that answers without TLS": (
        secure(lambda b: b.run["secured"]["listeners"][1].update(plaintext="answered")),
        ["the listener h:2 of broker 2 did not refuse a request without TLS: answered"],
    ),
    "brokers that replicate in plaintext": (
        secure(lambda b: last(b)["3"].update({"listener.security.protocol.map": MAP.replace("SSL", "PLAINTEXT", 1)})),
        ["broker 3 connects to the others with PLAINTEXT, not with SSL"],
    ),
    "a broker that did not report its protocol": (
        secure(lambda b: last(b)["3"].clear()),
        ["broker 3 connects to the others with an unknown protocol, not with SSL"],
    ),
}

BATCH = HistoryBatch(history for history, _ in CASES.values())


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Verdict]:
    return dict(zip(CASES, BATCH.verdicts(spark), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_missing_proof_of_tls_is_a_doubt(name: str, judged: dict[str, Verdict]) -> None:
    verdict, said = judged[name], CASES[name][1]
    assert [(doubt.name, doubt.text) for doubt in verdict.doubts] == [("not_secured", text) for text in said]
    assert verdict.status is (Status.INCONCLUSIVE if said else Status.PASS)
    assert (UNSECURED in verdict.not_covered) == (name != "proven")
