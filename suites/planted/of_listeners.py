"""Plants in the proof that a run with secure listeners used TLS, with the whole proof as their near miss."""

from __future__ import annotations

from typing import Any, Final

from harness.model.contract.contract import SENTINEL
from harness.model.secured import REFUSED, SECURE, producer_name, reader_name
from suites.planted.copies import Copy
from suites.planted.expected import Expected, doubtful, passes
from suites.planted.plants import plant

BROKERS: Final = (1, 2, 3)
_LISTENER: Final = {
    "tls": "TLSv1.3",
    "cipher": "TLS_AES_256",
    "plaintext": REFUSED,
    "wrong_password": REFUSED,
}


@plant
def near_unsecured(copy: Copy) -> Expected:
    """Every listener, client and broker has its proof."""
    _secured(copy)
    return passes()


@plant
def unsecured_client(copy: Copy) -> Expected:
    """A live reader moved some bytes without TLS."""
    _secured(copy)["clients"][reader_name("grouped")]["plaintext"] = 1
    return doubtful("not_secured")


@plant
def unsecured_listener(copy: Copy) -> Expected:
    """A broker answered a request without TLS."""
    _secured(copy)["listeners"][1]["plaintext"] = "answered"
    return doubtful("not_secured")


@plant
def unsecured_between_brokers(copy: Copy) -> Expected:
    """Brokers replicate in plaintext."""
    _secured(copy, between="PLAINTEXT")
    return doubtful("not_secured")


def _secured(copy: Copy, between: str = "SSL") -> dict[str, Any]:
    """The scenario has secure listeners, with a proof, which is returned. between: how brokers say they connect."""
    scenario = copy.original.documents["scenario"]
    clients = [producer_name(one["name"]) for one in scenario["producers"]]
    clients += [reader_name(one["name"]) for one in scenario["readers"]]
    clients += [read["reader"] for read in copy.original.documents["reads"]] + [producer_name(SENTINEL)]
    proof: dict[str, Any] = {
        "protocol": "SASL_SSL",
        "between_brokers": "SSL",
        "listeners": [{"broker": broker, "address": f"127.0.0.1:{broker}", **_LISTENER} for broker in BROKERS],
        "clients": {client: {SECURE: 1000} for client in clients},
    }
    with copy.document("scenario") as played:
        played["shape"]["secure"] = True
    with copy.document("cluster") as cluster:
        for config in cluster["snapshots"][-1]["broker_configs"].values():
            listeners = dict(one.split(":") for one in config["listener.security.protocol.map"].split(","))
            listeners[config["inter.broker.listener.name"]] = between
            config["listener.security.protocol.map"] = ",".join(f"{name}:{how}" for name, how in listeners.items())
    with copy.document("run") as run:
        run["secured"] = proof
    return proof
