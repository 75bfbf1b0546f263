"""A cluster that somebody runs, as it tells of itself: by the ordinary client, which takes every way in (TLS, SASL).

What that cannot ask, which features are finalized, is asked past it, before anybody logs in: brokers tell that to
whoever may not come in yet, too (KIP-43).
"""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from harness.kafka.admin.addresses import check_addresses
from harness.kafka.admin.wire import ANSWER_S, Connection, metadata_offset
from harness.model.errors import BadInput

ASK_S: Final = 5.0  # so long the client waits for settings before it says that nobody answered
# What another try does not mend: whom the client trusts, or who it says it is.
_REFUSALS: Final = frozenset({"_AUTHENTICATION", "_SSL"})


class Answer(Protocol):
    """Of one topic or broker: its settings by name, each with a `value`; KafkaException where they are refused."""

    def result(self, timeout: float | None = None) -> Mapping[str, Any]: ...


class Teller(Protocol):
    """Who is asked about a cluster."""

    def metadata(self, timeout_s: float) -> Any:
        """Its topics and brokers, as confluent_kafka puts it. KafkaException when nobody told in time."""

    def refusal(self) -> str | None:
        """Why nobody will ever let this client in."""

    def settings(self, kind: ResourceType, names: Sequence[str]) -> Mapping[str, Answer]:
        """Of these topics, or of one broker."""

    def levels(self, brokers: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Finalized features, by the broker with the newest metadata; empty where nobody tells."""


class OrdinaryClient:
    """Teller of a cluster at an address."""

    def __init__(self, bootstrap: str, config: Mapping[str, str]) -> None:
        check_addresses(bootstrap)
        self._config = config
        self._errors: list[KafkaError] = []
        settings: dict[str, Any] = {
            "log_level": 0,
            **config,
            "bootstrap.servers": bootstrap,
            "error_cb": self._errors.append,
        }
        try:
            self._client = AdminClient(settings)
        except KafkaException as refused:
            raise BadInput(
                f"no client can be made: {refused.args[0].str()}; mend --bootstrap or --command-config"
            ) from refused

    def metadata(self, timeout_s: float) -> Any:
        return self._client.list_topics(timeout=timeout_s)

    def refusal(self) -> str | None:
        self._client.poll(0)
        refusals = [error.str() for error in self._errors if error.name() in _REFUSALS]
        return refusals[-1] if refusals else None

    def settings(self, kind: ResourceType, names: Sequence[str]) -> Mapping[str, Answer]:
        asked = self._client.describe_configs([ConfigResource(kind, name) for name in names], request_timeout=ASK_S)
        return {resource.name: answer for resource, answer in asked.items()}

    def levels(self, brokers: Iterable[tuple[str, int]]) -> dict[str, int]:
        answers = []
        with suppress(OSError):  # stores that this cannot open, which the ordinary client could
            tls = _tls(self._config)
            for broker in brokers:
                with suppress(OSError, ValueError, IndexError, struct.error):
                    connection = Connection(broker, time.monotonic() + ANSWER_S, tls)
                    connection.close()
                    answers.append(connection.reported)
        if not answers:
            return {}
        newest = max(answers, key=metadata_offset)
        return {feature.name: feature.max_version_level for feature in newest.finalized_features or ()}


def _tls(config: Mapping[str, str]) -> ssl.SSLContext | None:
    """As the ordinary client goes about it; None where that speaks plainly."""
    if "SSL" not in config.get("security.protocol", "").upper():
        return None
    context = ssl.create_default_context(cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem"))
    context.check_hostname = config.get("ssl.endpoint.identification.algorithm") != "none"
    if config.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown := config.get("ssl.certificate.location"):
        context.load_cert_chain(shown, config.get("ssl.key.location"), config.get("ssl.key.password"))
    return context
