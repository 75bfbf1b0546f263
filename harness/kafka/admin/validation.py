"""Requests that are to be validated only: the active controller answers as if it did them, and changes nothing."""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin import features
from harness.kafka.admin.operations import SET, TOPIC
from harness.kafka.admin.quorum import PASSING, to_controller
from harness.kafka.admin.wire import Call, Wire, call, error_name

_TIMEOUT_MS: Final = 5000
_SETTING: Final = {"name": "segment.jitter.ms", "value": "1000"}  # no scenario sets it


def validate_only(wire: Wire, topic: str, partitions: int, deadline_s: float) -> dict[str, str | None]:
    """Asks for a new topic, for one more partition of a topic that has so many, for a setting of it, and for the next
    lower level of a feature. Returns Kafka's error by API; None = the controller would do it."""
    asked = {
        "CreateTopics": _create_topic(f"{topic}-validated"),
        "CreatePartitions": _create_partitions(topic, partitions + 1),
        "IncrementalAlterConfigs": _alter_config(topic),
    }
    answers = {
        api: _refusal(to_controller(wire, question, _passing, deadline_s=deadline_s, what=f"an answer to {api}"))
        for api, question in asked.items()
    }
    return answers | {"UpdateFeatures": _lower_feature(wire, deadline_s)}


def _create_topic(name: str) -> Call:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return call(CreateTopicsRequest, topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=True)


def _create_partitions(name: str, count: int) -> Call:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return call(CreatePartitionsRequest, topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=True)


def _alter_config(name: str) -> Call:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    resource = kind(
        resource_type=TOPIC, resource_name=name, configs=[kind.AlterableConfig(config_operation=SET, **_SETTING)]
    )
    return call(IncrementalAlterConfigsRequest, resources=[resource], validate_only=True)


def _lower_feature(wire: Wire, deadline_s: float) -> str | None:
    """Of the first feature that only some clusters have; a cluster without one is not asked."""
    levels = {name: level for name, level in features.features(wire).items() if name not in features.OF_THE_QUORUM}
    lower = {name: level - 1 for name, level in sorted(levels.items())[:1]}
    return features.update_features(wire, lower, "down", deadline_s, validate_only=True) if lower else None


def _passing(answer: ApiMessage) -> str | None:
    error = _refusal(answer)
    return error if error in PASSING else None


def _refusal(answer: ApiMessage) -> str | None:
    """The first error of an answer."""
    parts = [*getattr(answer, "topics", ()), *getattr(answer, "results", ()), *getattr(answer, "responses", ())]
    return next((name for part in parts if (name := error_name(part.error_code))), None)
