"""Settings of topics and brokers as a broker reports them (DescribeConfigs), in requests of limited size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Call, call, error_name

SETTINGS_S: Final = 5.0
BATCH: Final = 100  # topics in one request; with all of their settings, an answer has about 250 KB


class SettingSource(IntEnum):
    """Where a value comes from, as Kafka numbers it (ConfigSource). Later releases may add some: those are UNKNOWN."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Setting(NamedTuple):
    """value None: it is secret, or there is none."""

    value: str | None
    source: SettingSource


@dataclass(frozen=True, slots=True)
class SettingsSeen:
    """The settings of one topic, or of one broker by its id. `error` is Kafka's name with its text, and then there are
    none."""

    name: str
    settings: Mapping[str, Setting]
    error: str | None = None


def topic_settings(
    brokers: Brokers, topics: Collection[str], keys: Sequence[str] | None = None, timeout_s: float = SETTINGS_S
) -> Iterator[SettingsSeen]:
    """The settings with these keys (None: all) of each topic. Needs DESCRIBE_CONFIGS on it.

    Unanswered, at any row, when no broker answers within timeout_s, which counts for each request.
    """
    left = iter(topics)
    while batch := list(islice(left, BATCH)):
        answer = brokers.ask_any(_question(_TOPIC, batch, keys), timeout_s)
        for result in answer.results:
            yield _seen(result)


def broker_settings(
    brokers: Brokers, broker: int, keys: Sequence[str] | None = None, timeout_s: float = SETTINGS_S
) -> SettingsSeen:
    """The settings of a broker, from itself. Needs DESCRIBE_CONFIGS on the cluster. Unanswered when it is silent."""
    answer = brokers.ask(broker, _question(_BROKER, [str(broker)], keys), timeout_s)
    return _seen(answer.results[0])


_TOPIC: Final = 2  # ConfigResource.Type
_BROKER: Final = 4


def _question(kind: int, names: Sequence[str], keys: Sequence[str] | None) -> Call:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return call(
        DescribeConfigsRequest,
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys))
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def _seen(result: DataContainer) -> SettingsSeen:
    if error := error_name(result.error_code):
        text = f"{error}: {result.error_message}" if result.error_message else error
        return SettingsSeen(result.resource_name, {}, text)
    found = {one.name: Setting(one.value, _source(one.config_source)) for one in result.configs}
    return SettingsSeen(result.resource_name, found)


def _source(code: int) -> SettingSource:
    try:
        return SettingSource(code)
    except ValueError:
        return SettingSource.UNKNOWN
