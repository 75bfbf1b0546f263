"""Whether the listeners by which records come and go are secure: seen on each of them before the load begins."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from harness.clusters import Cluster
from harness.kafka.admin.wire import Connection
from harness.kafka.settings.tls import BETWEEN_BROKERS, MECHANISM, PROTOCOL
from harness.model.secured import ANSWERED, REFUSED, UNANSWERED
from harness.workload.access import Ways

_ANSWER_S: Final = 10.0
_POLL_S: Final = 0.1

Answer = tuple[str, str]  # REFUSED, ANSWERED or UNANSWERED, and what was told


def look(cluster: Cluster) -> list[dict[str, Any]]:
    """A row a listener: what it speaks, and what it says to who speaks plainly and to who has a wrong password."""
    settings = cluster.client_settings()
    ways = [cluster.bootstrap(), cluster.bootstrap_isolated()]
    listeners = [pair for way in ways if way for pair in zip(cluster.brokers, way.split(","), strict=True)]
    with ThreadPoolExecutor(len(listeners), thread_name_prefix="secured") as pool:
        return list(pool.map(lambda at: _listener(at[0], at[1], settings), listeners))


def evidence(listeners: list[dict[str, Any]], ways: Ways) -> dict[str, Any]:
    """The `secured` of run.json."""
    return {
        "protocol": PROTOCOL,
        "mechanism": MECHANISM,
        "between_brokers": BETWEEN_BROKERS,
        "listeners": listeners,
        "clients": ways.seen(),
    }


def _listener(broker: int, address: str, settings: Mapping[str, str]) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    tls, cipher = spoken((host, int(port)), settings["ssl.ca.location"])
    plaintext, to_plaintext = answer_to_plaintext((host, int(port)))
    password, to_password = answer_to_password(address, {**settings, "sasl.password": "wrong"})
    return {
        "broker": broker,
        "address": address,
        "tls": tls,
        "cipher": cipher,
        "plaintext": plaintext,
        "wrong_password": password,
        "said": [to_plaintext, to_password],
    }


def spoken(address: tuple[str, int], authority: str) -> tuple[str | None, str]:
    """Version of TLS and cipher, of who shows a certificate of the authority for that very address; None, and why."""
    context = ssl.create_default_context(cafile=authority)
    try:
        with (
            socket.create_connection(address, timeout=_ANSWER_S) as plain,
            context.wrap_socket(plain, server_hostname=address[0]) as secure,
        ):
            return secure.version(), (secure.cipher() or ("unknown",))[0]
    except OSError as refused:  # of which errors of TLS are some
        return None, str(refused)


def answer_to_plaintext(address: tuple[str, int]) -> Answer:
    """What a listener does to a request without TLS. Silence is no refusal."""
    try:
        Connection(address, time.monotonic() + _ANSWER_S).close()
    except TimeoutError as silent:
        return UNANSWERED, str(silent)
    except (OSError, ValueError, IndexError) as refused:  # closed, or answered with an alert of TLS
        return REFUSED, str(refused)
    return ANSWERED, "it told its versions"


def answer_to_password(address: str, settings: Mapping[str, str]) -> Answer:
    """What a listener does to who logs in with these settings."""
    errors: list[KafkaError] = []
    client = Producer({**settings, "bootstrap.servers": address, "log_level": 0, "error_cb": errors.append})
    give_up_at = time.monotonic() + _ANSWER_S
    while time.monotonic() < give_up_at:
        client.poll(_POLL_S)
        if refusals := [error.str() for error in errors if error.name() == "_AUTHENTICATION"]:
            return REFUSED, refusals[0]
    return UNANSWERED, errors[-1].str() if errors else "nothing"
