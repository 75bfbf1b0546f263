"""Reads the headers of requests, the generations of groups in them, and the errors of answers on the wire.

On the wire each is its length (int32) followed by that many bytes. A request begins with api key (int16), api version
(int16), correlation id (int32) and client id (nullable string). The answer to it is the one on the same connection with
the same correlation id (request and response headers in Kafka's protocol guide).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest, OffsetCommitRequest
from kafka.protocol.producer import TxnOffsetCommitRequest  # the imports also register the answers

from harness.kafka.admin.wire import error_name
from harness.kafka.decoding import DECODING, answer_class

FRAME_BYTES_MAX: Final = 128 << 20
LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhih")
# The requests that a scenario may name.
APIS: Final[Mapping[str, int]] = MappingProxyType({key.name: key.value for key in ApiKey})
# Requests that name the generation of a classic group, with the field for it.
_OF_GENERATIONS: Final = {
    "Heartbeat": (HeartbeatRequest, "generation_id"),
    "OffsetCommit": (OffsetCommitRequest, "generation_id_or_member_epoch"),
    "TxnOffsetCommit": (TxnOffsetCommitRequest, "generation_id"),
}
# Everything that parsing bytes of another form raises.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, struct.error, AttributeError)
_NAMES: Final = {number: name for name, number in APIS.items()}


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a request."""

    api: str
    version: int
    correlation: int
    client: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a classic group, as a member names it."""

    group: str
    number: int


def head_of(request: bytes) -> Head | None:
    """The header of a request without its length; None when it is incomplete or its api is unknown."""
    if len(request) < _HEAD.size:
        return None
    key, version, correlation, length = _HEAD.unpack_from(request)
    if key not in _NAMES or _HEAD.size + max(0, length) > len(request):
        return None
    client = request[_HEAD.size : _HEAD.size + max(0, length)].decode("utf-8", "replace")
    return Head(_NAMES[key], version, correlation, client)


def correlation_of(answer: bytes) -> int | None:
    """The correlation id of an answer without its length; None when it is too short."""
    return LENGTH.unpack_from(answer)[0] if len(answer) >= LENGTH.size else None


def generation_of(head: Head, request: bytes) -> Generation | None:
    """The generation that a request names; None when it names none, or cannot be parsed."""
    if head.api not in _OF_GENERATIONS:
        return None
    form, field = _OF_GENERATIONS[head.api]
    try:
        with DECODING:
            asked = form.decode(request, version=head.version, header=True)
        number = int(getattr(asked, field))
    except _UNREADABLE:
        return None
    return Generation(str(asked.group_id), number) if number >= 0 else None


def errors_of(head: Head, answer: bytes) -> tuple[str, ...] | None:
    """Kafka's names of the errors in an answer, without repetition; None when the answer cannot be parsed.

    That is the case for an api or a version that kafka-python does not know. A request with acks=0 has no answer.
    """
    asked = RequestHeader(request_api_key=APIS[head.api], request_api_version=head.version)
    try:
        kind = answer_class(asked)
        if kind is None:
            return None
        with DECODING:
            reported = kind.decode(answer, version=head.version, header=True).to_dict()
    except _UNREADABLE:
        return None
    return tuple(dict.fromkeys(name for code in _codes(reported) if (name := error_name(code))))


def _codes(reported: object) -> Iterator[int]:
    if isinstance(reported, Mapping):
        for key, value in reported.items():
            if key == "error_code":
                yield int(value)
            else:
                yield from _codes(value)
    elif isinstance(reported, list | tuple):
        for value in reported:
            yield from _codes(value)
