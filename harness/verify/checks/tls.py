"""Whether all records went over TLS where the scenario requires it. Without proof, the run tested what any other run
tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.contract.contract import SENTINEL
from harness.model.doubt_names import DoubtName
from harness.model.secured import producer_name, reader_name, unproven
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.promise import Check

UNSECURED: Final = "TLS and passwords: brokers serve records over plaintext connections on another code path"


def _proof(known: Known) -> Addition:
    """A doubt for each reason why that is not proven, where it is wanted."""
    if not _wanted(known.case):
        return Addition(not_covered=[UNSECURED])
    doubts = [Doubt(DoubtName.NOT_SECURED, text) for text in _unproven(known.case)]
    return Addition(doubts=doubts, not_covered=[UNSECURED] if doubts else [])


def _wanted(case: Case) -> bool:
    return bool(case.scenario.shape and case.scenario.shape.secure)


def _unproven(case: Case) -> list[str]:
    scenario, reported = case.scenario, case.run.secured
    clients = [producer_name(producer.name) for producer in scenario.producers or ()]
    clients += [reader_name(reader.name) for reader in scenario.readers or ()]
    clients += sorted({read.reader for read in case.reads})
    brokers = range(1, ((scenario.shape.brokers if scenario.shape else None) or 0) + 1)
    found = unproven(reported, brokers, [*clients, *([producer_name(SENTINEL)] if case.reads else [])])
    return [*found, *(_between_brokers(case, brokers, reported.between_brokers) if reported else [])]


def _between_brokers(case: Case, brokers: range, wanted: str) -> Iterator[str]:
    """Brokers with a configuration at the end that does not use the wanted protocol between brokers."""
    configs = (case.last_snapshot.broker_configs if case.last_snapshot else None) or {}
    for broker in brokers:
        config = configs.get(str(broker)) or {}
        listeners = config.get("listener.security.protocol.map") or ":"
        protocols = dict(pair.split(":", 1) for pair in listeners.split(","))
        spoken = protocols.get(config.get("inter.broker.listener.name") or "")
        if spoken != wanted:
            yield f"broker {broker} connects to the others with {spoken or 'an unknown protocol'}, not with {wanted}"


CHECK: Final = Check(
    promise="All records of a run with secure listeners go over TLS and SASL, which the evidence proves.",
    adds=_proof,
    order=Order(doubts=85, not_covered=25),
    planted=(
        "unsecured_client",
        "unsecured_listener",
        "unsecured_between_brokers",
        "near_unsecured",
    ),
)
