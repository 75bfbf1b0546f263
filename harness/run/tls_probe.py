"""Checks that the listeners of clients are secure: on each of them, before the load begins."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import KafkaError, Producer

from harness.clusters import Cluster
from harness.kafka.admin.wire import Connection
from harness.kafka.settings.tls import BETWEEN_BROKERS, MECHANISM, PROTOCOL
from harness.model.documents.run import Listener, Secured
from harness.model.secured import ANSWERED, REFUSED, UNANSWERED
from harness.workload.access import TrafficByProtocol

_ANSWER_S: Final = 10.0
_POLL_S: Final = 0.1

Answer = tuple[str, str]  # REFUSED, ANSWERED or UNANSWERED, and the text of the answer or error


def look(cluster: Cluster) -> list[Listener]:
    """A row for each listener: its protocol, and its answers to a plaintext client and to a wrong password."""
    settings = cluster.client_settings()
    addresses = [cluster.bootstrap(), cluster.bootstrap_isolated()]
    listeners = [pair for each in addresses if each for pair in zip(cluster.brokers, each.split(","), strict=True)]
    with ThreadPoolExecutor(len(listeners), thread_name_prefix="secured") as pool:
        return list(pool.map(lambda at: _listener(at[0], at[1], settings), listeners))


def evidence(listeners: Sequence[Listener], traffic: TrafficByProtocol) -> Secured:
    """The `secured` of run.json."""
    return Secured(
        protocol=PROTOCOL,
        mechanism=MECHANISM,
        between_brokers=BETWEEN_BROKERS,
        listeners=tuple(listeners),
        clients=traffic.seen(),
    )


def _listener(broker: int, address: str, settings: Mapping[str, str]) -> Listener:
    host, _, port = address.rpartition(":")
    tls, cipher = spoken((host, int(port)), settings["ssl.ca.location"])
    plaintext, to_plaintext = answer_to_plaintext((host, int(port)))
    password, to_password = answer_to_password(address, {**settings, "sasl.password": "wrong"})
    return Listener(
        broker=broker,
        address=address,
        tls=tls,
        cipher=cipher,
        plaintext=plaintext,
        wrong_password=password,
        said=(to_plaintext, to_password),
    )


def spoken(address: tuple[str, int], authority: str) -> tuple[str | None, str]:
    """TLS version and cipher of a listener with a certificate of the authority for its address.

    None and the reason where there is no such listener.
    """
    context = ssl.create_default_context(cafile=authority)
    try:
        with (
            socket.create_connection(address, timeout=_ANSWER_S) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secure,
        ):
            return secure.version(), (secure.cipher() or ("unknown",))[0]
    except OSError as refused:  # ssl.SSLError is one
        return None, str(refused)


def answer_to_plaintext(address: tuple[str, int]) -> Answer:
    """The answer of a listener to a request without TLS. No answer is not a refusal."""
    try:
        Connection(address, time.monotonic() + _ANSWER_S).close()
    except TimeoutError as silent:
        return UNANSWERED, str(silent)
    except (OSError, ValueError, IndexError) as refused:  # closed, or answered with an alert of TLS
        return REFUSED, str(refused)
    return ANSWERED, "it answered with its API versions"


def answer_to_password(address: str, settings: Mapping[str, str]) -> Answer:
    """The answer of a listener to a client that logs in with these settings."""
    errors: list[KafkaError] = []
    client = Producer({**settings, "bootstrap.servers": address, "log_level": 0, "error_cb": errors.append})
    give_up_at = time.monotonic() + _ANSWER_S
    while time.monotonic() < give_up_at:
        client.poll(_POLL_S)
        if refusals := [error.str() for error in errors if error.name() == "_AUTHENTICATION"]:
            return REFUSED, refusals[0]
    return UNANSWERED, errors[-1].str() if errors else "nothing"
