"""Single operations of an admin: their requests, and the errors in their answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.admin.acl import ACLOperation, ACLPermissionType, ACLResourcePatternType, ACLResourceType
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.quorum import PASSING, to_controller
from harness.kafka.admin.wire import Call, Wire, call, error_name
from harness.model.entities import MARK, REPLICAS, MetadataEntity, Sort
from harness.model.errors import HarnessFailure
from harness.model.outcome import Did

TOPIC: Final = 2  # ConfigResource.Type
BROKER: Final = 4
SET, UNSET = 0, 1  # AlterConfigOp.OpType
_SCRAM_SHA_256: Final = 1
_TRY_S: Final = 5.0
_DONE_BEFORE: Final = frozenset({"TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION", "RESOURCE_NOT_FOUND"})

# Each request is one operation on one entity, so each answer has one error.
_Errors = Callable[[ApiMessage], list[int]]


def request(did: Did, metadata_entity: MetadataEntity, value: str | None, timeout_s: float) -> Call:
    """The request for one operation. Where its format has a timeout, brokers give up after `timeout_s`."""
    timeout_ms = int(timeout_s * 1000)
    if did is Did.CREATE_TOPIC:
        return _create_topic(metadata_entity, value, timeout_ms)
    if did is Did.DELETE_TOPIC:
        state = DeleteTopicsRequest.DeleteTopicState
        return call(DeleteTopicsRequest, topics=[state(name=metadata_entity.name)], timeout_ms=timeout_ms)
    if did in (Did.SET_CONFIG, Did.UNSET_CONFIG):
        return _alter_config(metadata_entity, value)
    if did in (Did.CREATE_ACL, Did.DELETE_ACL):
        return _acl(did, metadata_entity)
    if did is Did.REASSIGN:
        return _reassign(metadata_entity, value, timeout_ms)
    return _user(metadata_entity, value)


def refusal(did: Did, answer: ApiMessage) -> str | None:
    """Kafka's name of the error in an answer to `request`; None when it was done, "_NO_ANSWER" in an empty answer."""
    codes = _CODES[did](answer)
    return next((name for code in codes if (name := error_name(code))), None) if codes else "_NO_ANSWER"


_CODES: Final[dict[Did, _Errors]] = {
    Did.CREATE_TOPIC: lambda reported: [topic.error_code for topic in reported.topics],
    Did.DELETE_TOPIC: lambda reported: [topic.error_code for topic in reported.responses],
    Did.SET_CONFIG: lambda reported: [resource.error_code for resource in reported.responses],
    Did.UNSET_CONFIG: lambda reported: [resource.error_code for resource in reported.responses],
    Did.CREATE_ACL: lambda reported: [result.error_code for result in reported.results],
    Did.DELETE_ACL: lambda reported: [
        code for r in reported.filter_results for code in (r.error_code, *(acl.error_code for acl in r.matching_acls))
    ],
    Did.SET_USER: lambda reported: [result.error_code for result in reported.results],
    Did.DELETE_USER: lambda reported: [result.error_code for result in reported.results],
    Did.REASSIGN: lambda reported: [
        reported.error_code,
        *(partition.error_code for topic in reported.responses for partition in topic.partitions),
    ],
}


def carry_out(wire: Wire, did: Did, metadata_entity: MetadataEntity, value: str | None, deadline_s: float) -> None:
    """Repeats one operation at the active controller until it is done. HarnessFailure when Kafka refuses it."""

    def reported(answer: ApiMessage) -> str | None:
        error = refusal(did, answer)
        if error and error not in PASSING | _DONE_BEFORE:
            raise HarnessFailure(f"Kafka refuses {did.value} of {metadata_entity.text}: {error}")
        return None if error in _DONE_BEFORE else error

    question = request(did, metadata_entity, value, _TRY_S)
    to_controller(wire, question, reported, deadline_s=deadline_s, what=f"{did.value} of {metadata_entity.text}")


def _create_topic(metadata_entity: MetadataEntity, value: str | None, timeout_ms: int) -> Call:
    kind = CreateTopicsRequest.CreatableTopic
    config = [kind.CreatableTopicConfig(name=MARK, value=value)]
    topic = kind(
        name=metadata_entity.name, num_partitions=1, replication_factor=REPLICAS, assignments=[], configs=config
    )
    return call(CreateTopicsRequest, topics=[topic], timeout_ms=timeout_ms, validate_only=False)


def _alter_config(metadata_entity: MetadataEntity, value: str | None) -> Call:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = kind.AlterableConfig(
        name=metadata_entity.key, config_operation=UNSET if value is None else SET, value=value
    )
    of = TOPIC if metadata_entity.sort is Sort.TOPIC_CONFIG else BROKER
    resource = kind(resource_type=of, resource_name=metadata_entity.name, configs=[change])
    return call(IncrementalAlterConfigsRequest, resources=[resource], validate_only=False)


def _acl(did: Did, metadata_entity: MetadataEntity) -> Call:
    common = {
        "principal": f"User:{metadata_entity.name}",
        "host": "*",
        "operation": ACLOperation.READ,
        "permission_type": ACLPermissionType.ALLOW,
    }
    if did is Did.CREATE_ACL:
        made = CreateAclsRequest.AclCreation(
            resource_type=ACLResourceType.TOPIC,
            resource_name=metadata_entity.name,
            resource_pattern_type=ACLResourcePatternType.LITERAL,
            **common,
        )
        return call(CreateAclsRequest, creations=[made])
    deleted = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ACLResourceType.TOPIC,
        resource_name_filter=metadata_entity.name,
        pattern_type_filter=ACLResourcePatternType.LITERAL,
        principal_filter=common["principal"],
        host_filter=common["host"],
        operation=common["operation"],
        permission_type=common["permission_type"],
    )
    return call(DeleteAclsRequest, filters=[deleted])


def _user(metadata_entity: MetadataEntity, value: str | None) -> Call:
    kind = AlterUserScramCredentialsRequest
    if value is None:
        deleted = kind.ScramCredentialDeletion(name=metadata_entity.name, mechanism=_SCRAM_SHA_256)
        return call(kind, deletions=[deleted], upsertions=[])
    salt = metadata_entity.name.encode()
    made = kind.ScramCredentialUpsertion(
        name=metadata_entity.name,
        mechanism=_SCRAM_SHA_256,
        iterations=int(value),
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac("sha256", metadata_entity.name.encode(), salt, 1),  # not used to log in
    )
    return call(kind, deletions=[], upsertions=[made])


def _reassign(metadata_entity: MetadataEntity, value: str | None, timeout_ms: int) -> Call:
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    replicas = [int(broker) for broker in (value or "").split(",")]
    partition = kind.ReassignablePartition(partition_index=int(metadata_entity.key), replicas=replicas)
    topic = kind(name=metadata_entity.name, partitions=[partition])
    return call(AlterPartitionReassignmentsRequest, 0, timeout_ms=timeout_ms, topics=[topic])
