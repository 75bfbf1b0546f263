"""Reads metadata and settings of a user's cluster through librdkafka's admin client, which supports TLS and SASL.

That client cannot read finalized features. They are read on a connection of our own, without a login: brokers answer
ApiVersions before authentication (KIP-43).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from harness.kafka.admin.addresses import check_addresses
from harness.kafka.admin.security import Security, tls_of
from harness.kafka.admin.wire import ANSWER_S, BROKEN, Connection, Refused, finalized_levels, metadata_offset
from harness.model.errors import BadInput

ASK_S: Final = 5.0  # after which the client reports a timeout of a request for settings
# Errors that a retry cannot fix: the client's trusted certificates, or its login.
_REFUSALS: Final = frozenset({"_AUTHENTICATION", "_SSL"})


class Answer(Protocol):
    """The settings of one topic or broker by name, each with a `value`; KafkaException when they are refused."""

    def result(self, timeout: float | None = None) -> Mapping[str, ConfigEntry]: ...


class ClusterSource(Protocol):
    """The questions that `durability contract --bootstrap` asks a live cluster."""

    def metadata(self, timeout_s: float) -> ClusterMetadata:
        """Topics and brokers in confluent_kafka's form. KafkaException when no broker answers in time."""

    def refusal(self) -> str | None:
        """The error that will keep this client from ever connecting; None when there is none."""

    def settings(self, kind: ResourceType, names: Sequence[str]) -> Mapping[str, Answer]:
        """The settings of these topics, or of one broker."""

    def levels(self, brokers: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Finalized features from the broker with the newest metadata; empty when no broker answers."""


class OrdinaryClient:
    """The ClusterSource of a cluster at an address."""

    def __init__(self, bootstrap: str, config: Mapping[str, str]) -> None:
        check_addresses(bootstrap)
        self._config = config
        self._errors: list[KafkaError] = []
        settings: dict[str, object] = {
            "log_level": 0,
            **config,
            "bootstrap.servers": bootstrap,
            "error_cb": self._errors.append,
        }
        try:
            self._client = AdminClient(settings)  # type: ignore[arg-type]  # its types know no callbacks
        except KafkaException as refused:
            raise BadInput(
                f"no client can be created: {refused.args[0].str()}; correct --bootstrap or --command-config"
            ) from refused

    def metadata(self, timeout_s: float) -> ClusterMetadata:
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
        with suppress(BadInput):  # librdkafka supports more than our own connections
            # Without the login, which ApiVersions does not need.
            security = Security(tls_of(self._config))
            for broker in brokers:
                with suppress(Refused, *BROKEN):
                    connection = Connection(broker, time.monotonic() + ANSWER_S, security)
                    connection.close()
                    answers.append(connection.reported)
        if not answers:
            return {}
        newest = max(answers, key=metadata_offset)
        return finalized_levels(newest)
