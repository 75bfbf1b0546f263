"""The state of an admin's entities in each node's metadata: topics, settings, ACLs, users and replicas.

Controllers are asked too, for the entities that they report (KIP-919): settings, topics by their settings, and ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import (
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeUserScramCredentialsRequest,
)
from kafka.protocol.admin.acl import ACLOperation, ACLPermissionType, ACLResourcePatternType, ACLResourceType
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

from harness.kafka.admin.operations import BROKER, TOPIC
from harness.kafka.admin.wire import Call, Wire, call, error_name, metadata_call
from harness.model.clock import now_ns
from harness.model.entities import ALLOWED, MARK, MetadataEntity, Sort, entities_of, standing_topics
from harness.model.place import Place
from harness.model.scenario.scenario import Admin

ANSWER_S: Final = 5.0
UNMARKED: Final = "unmarked"  # a topic without the setting that admins give to every topic
_LISTED: Final = (Sort.ACL, Sort.USER)  # reported as a list: what is not in it does not exist
_OF_A_TOPIC: Final = 1  # ConfigEntry.ConfigSource: set on the topic itself
_OF_BROKERS: Final = 3  # set for all brokers while they run


@dataclass(frozen=True, slots=True)
class Seen:
    """One node's answer about one entity. value None: the node reports that it does not exist."""

    node: int
    metadata_entity: MetadataEntity
    value: str | None
    asked_ns: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class _Answer:
    reported: ApiMessage
    asked_ns: int
    at_ns: int

    def seen(self, node: int, values: Mapping[MetadataEntity, str | None]) -> Iterator[Seen]:
        return (
            Seen(node, metadata_entity, value, self.asked_ns, self.at_ns) for metadata_entity, value in values.items()
        )


def seen_by_nodes(wire: Wire, admin: Admin, moving: Mapping[Place, Iterable[int]] | None) -> list[Seen]:
    """All entities of an admin, and others with its prefix. A node that does not answer has no row.

    moving: the replicas that reassignments in progress will remove; the others are those that a partition moves to.
    None: the reassignments are unknown, so replicas are left out.
    """
    wanted = entities_of(admin)
    names = {topic.name for topic in standing_topics(admin)} | {t.name for t in wanted.get("topics", ())}
    found: list[Seen] = []
    for broker, answer in _ask(wire, wire.brokers, metadata_call(None)).items():
        listed = [topic for topic in answer.reported.topics if topic.name.startswith(f"{admin.name}-")]
        names |= {topic.name for topic in listed}
        if moving is not None:
            replicas = {place: _without(on, moving.get(place, ())) for place, on in _partitions(listed)}
            values = {t: replicas.get((t.name, int(t.key))) for t in wanted.get("reassignments", ())}
            found += answer.seen(broker, values)
    if {"topics", "configs"} & wanted.keys():
        asked = _ask(wire, _all(wire), _configs(sorted(names)))
        found += _together(asked, {n: _of_configs(a.reported, admin, wanted) for n, a in asked.items()})
    if "acls" in wanted:
        asked = _reported(_ask(wire, _all(wire), _acls()))
        listing = {n: dict.fromkeys(wanted["acls"]) | _of_acls(a.reported, admin.name) for n, a in asked.items()}
        found += _together(asked, listing)
    if "users" in wanted:
        asked = _reported(_ask(wire, wire.brokers, call(DescribeUserScramCredentialsRequest, users=None)))
        listing = {n: dict.fromkeys(wanted["users"]) | _of_users(a.reported, admin.name) for n, a in asked.items()}
        found += _together(asked, listing)
    return found


def _together(
    asked: Mapping[int, _Answer], values: Mapping[int, Mapping[MetadataEntity, str | None]]
) -> Iterator[Seen]:
    """Each node's rows. An entity in only some of the lists gets a row without value from the other nodes."""
    surplus = {
        metadata_entity for of_node in values.values() for metadata_entity in of_node if metadata_entity.sort in _LISTED
    }
    for node, answer in asked.items():
        yield from answer.seen(node, dict.fromkeys(surplus) | dict(values[node]))


def _reported(asked: Mapping[int, _Answer]) -> dict[int, _Answer]:
    return {node: answer for node, answer in asked.items() if error_name(answer.reported.error_code) is None}


def _all(wire: Wire) -> tuple[int, ...]:
    return (*wire.brokers, *wire.controllers)


def _ask(wire: Wire, nodes: Iterable[int], question: Call) -> dict[int, _Answer]:
    asked_ns = now_ns()
    answers = wire.gather(dict.fromkeys(nodes, (question,)), ANSWER_S)
    at_ns = now_ns()
    return {node: _Answer(reported[0], asked_ns, at_ns) for node, reported in answers.items()}


def _configs(topics: Sequence[str]) -> Call:
    kind = DescribeConfigsRequest.DescribeConfigsResource
    resources = [(TOPIC, name) for name in topics] + [(BROKER, "")]
    return call(
        DescribeConfigsRequest,
        resources=[kind(resource_type=of, resource_name=name, configuration_keys=None) for of, name in resources],
        include_synonyms=False,
        include_documentation=False,
    )


def _acls() -> Call:
    return call(
        DescribeAclsRequest,
        resource_type_filter=ACLResourceType.TOPIC,
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
    )


def _partitions(topics: Iterable[DataContainer]) -> Iterator[tuple[Place, Sequence[int]]]:
    for topic in topics:
        if error_name(topic.error_code) is None:
            for partition in topic.partitions:
                yield (topic.name, partition.partition_index), partition.replica_nodes


def _without(replicas: Sequence[int], leaving: Iterable[int]) -> str:
    removed = set(leaving)
    return ",".join(str(replica) for replica in replicas if replica not in removed)


def _of_configs(
    reported: ApiMessage, admin: Admin, wanted: Mapping[str, Sequence[MetadataEntity]]
) -> dict[MetadataEntity, str | None]:
    """Settings of topics and brokers, and topics by the setting that they were created with.

    A resource with an error is left out, unless the error is that the node does not know it.
    """
    own: dict[str, dict[str, str] | None] = {}
    for result in reported.results:
        error, of_a_topic = error_name(result.error_code), result.resource_type == TOPIC
        source = _OF_A_TOPIC if of_a_topic else _OF_BROKERS
        if error is None:
            own[result.resource_name] = {c.name: c.value for c in result.configs if c.config_source == source}
        elif error == "UNKNOWN_TOPIC_OR_PARTITION":
            own[result.resource_name] = None
    standing = {topic.name for topic in standing_topics(admin)}
    values: dict[MetadataEntity, str | None] = {}
    if "configs" in wanted:
        values |= {t: (own[t.name] or {}).get(t.key) for t in wanted["configs"] if t.name in own}
        for name in standing & own.keys():
            values |= {MetadataEntity(Sort.TOPIC_CONFIG, name, key): value for key, value in (own[name] or {}).items()}
    if "topics" in wanted:
        made = [(name, known) for name, known in own.items() if name and name not in standing]
        values |= {
            MetadataEntity(Sort.TOPIC, n): None if known is None else known.get(MARK, UNMARKED) for n, known in made
        }
    return values


def _of_acls(reported: ApiMessage, prefix: str) -> dict[MetadataEntity, str | None]:
    """ACLs on topics with the admin's prefix.

    One that differs from those that admins create is an entity of its own.
    """
    found: dict[MetadataEntity, str | None] = {}
    for resource in reported.resources:
        for acl in resource.acls if resource.resource_name.startswith(f"{prefix}-") else ():
            name = resource.resource_name
            usual = (
                acl.principal == f"User:{name}"
                and acl.host == "*"
                and resource.pattern_type == ACLResourcePatternType.LITERAL
                and acl.operation == ACLOperation.READ
                and acl.permission_type == ACLPermissionType.ALLOW
            )
            details = f"{acl.principal}, {acl.host}, {resource.pattern_type}, {acl.operation}, {acl.permission_type}"
            found[MetadataEntity(Sort.ACL, name if usual else f"{name} ({details})")] = ALLOWED
    return found


def _of_users(reported: ApiMessage, prefix: str) -> dict[MetadataEntity, str | None]:
    return {
        MetadataEntity(Sort.USER, result.user): ",".join(str(info.iterations) for info in result.credential_infos)
        for result in reported.results
        if result.user.startswith(f"{prefix}-") and result.credential_infos
    }
