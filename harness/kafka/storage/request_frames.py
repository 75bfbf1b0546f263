"""Reads the headers of requests and the errors of answers on the wire, without parsing everything else.

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

import kafka.protocol.consumer
import kafka.protocol.producer  # noqa: F401 - registers its answers, as the import above does
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_key import ApiKey

from harness.kafka.admin.wire import error_name

FRAME_BYTES_MAX: Final = 128 << 20
LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhih")
# The requests that a scenario may name.
APIS: Final[Mapping[str, int]] = MappingProxyType({key.name: key.value for key in ApiKey})
_NAMES: Final = {number: name for name, number in APIS.items()}


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a request."""

    api: str
    version: int
    correlation: int
    client: str


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


def errors_of(head: Head, answer: bytes) -> tuple[str, ...] | None:
    """Kafka's names of the errors in an answer, without repetition; None when the answer cannot be parsed.

    That is the case for an api or a version that kafka-python does not know. A request with acks=0 has no answer.
    """
    asked = RequestHeader(request_api_key=APIS[head.api], request_api_version=head.version)
    try:
        kind = asked.get_response_class()
        if kind is None:
            return None
        reported = kind.decode(answer, version=head.version, header=True).to_dict()
    except (ValueError, TypeError, KeyError, IndexError, struct.error, AttributeError):
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
