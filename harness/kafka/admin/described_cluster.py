"""Answers of one broker about its cluster and this client: id, brokers, permissions, and its own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeConfigsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.link import Address, Link
from harness.kafka.admin.wire import Unanswered, call, error_name

_BROKER: Final = 4  # ConfigResource.Type
# ConfigEntry.ConfigSource: the file of the broker, and Kafka's default.
_STATIC: Final = frozenset({4, 5})
# AclOperation: the operations on a cluster that this harness asks about (KIP-430).
_OPERATIONS: Final = {5: "CREATE", 7: "ALTER", 8: "DESCRIBE", 9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS"}
# Brokers keep a time in several settings; the smaller unit decides. Its own value may be null then.
_IN_LARGER_UNITS: Final = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}


class NotAllowed(Unanswered):
    """The broker refuses a request to this client for want of a permission. `operation` is the one it lacks."""

    def __init__(self, operation: str, text: str) -> None:
        super().__init__(text)
        self.operation = operation


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """operations: those on the cluster that this client may do, as far as this harness needs any."""

    cluster_id: str
    brokers: Mapping[int, Address]
    operations: frozenset[str]


def describe_cluster(link: Link, timeout_s: float) -> DescribedCluster:
    """The cluster as a broker describes it (KIP-700). Unanswered if there is no usable answer."""
    question = call(DescribeClusterRequest, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    answer = link.ask(question, timeout_s)
    if error := error_name(answer.error_code):
        raise Unanswered(f"{link.name}: {error}")
    allowed = frozenset(name for code, name in _OPERATIONS.items() if code in (answer.authorized_operations or ()))
    return DescribedCluster(
        answer.cluster_id, {broker.broker_id: (broker.host, broker.port) for broker in answer.brokers}, allowed
    )


def static_settings(link: Link, broker: int, timeout_s: float) -> dict[str, str]:
    """The settings in the file of a broker, and Kafka's defaults for those that are not there; not dynamic ones.

    NotAllowed without DESCRIBE_CONFIGS on the cluster.
    """
    kind = DescribeConfigsRequest.DescribeConfigsResource
    question = call(
        DescribeConfigsRequest,
        resources=[kind(resource_type=_BROKER, resource_name=str(broker), configuration_keys=None)],
        include_synonyms=True,
        include_documentation=False,
    )
    return _settings(link.name, link.ask(question, timeout_s))


def _settings(name: str, answer: ApiMessage) -> dict[str, str]:
    (result,) = answer.results
    error = error_name(result.error_code)
    if error == "CLUSTER_AUTHORIZATION_FAILED":
        raise NotAllowed("DESCRIBE_CONFIGS", f"{name} refuses its settings to this client")
    if error:
        raise Unanswered(f"{name}: {error} ({result.error_message})")
    found = {}
    for config in result.configs:
        static = [synonym for synonym in config.synonyms or () if synonym.source in _STATIC]
        value = static[0].value if static else config.value if config.config_source in _STATIC else None
        if value is not None and not config.is_sensitive:
            found[config.name] = value
    for key, larger in _IN_LARGER_UNITS.items():
        own = next((int(found[other]) * ms for other, ms in larger if other in found), None)
        if key not in found and own is not None:
            found[key] = str(own)
    return found
