"""What can be told of one request or answer on its way, without understanding all of it.

On the wire each is its length (int32) and so many bytes. A request begins with api key (int16), api version (int16),
correlation id (int32) and client id (nullable string); the answer of one connection that has the same correlation id
belongs to it (the protocol guide's request and response headers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import kafka.protocol.consumer
import kafka.protocol.producer  # noqa: F401 - registers its answers, as the import above does
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_key import ApiKey

from harness.kafka.admin.wire import error_name

FRAME_BYTES_MAX: Final = 128 << 20
LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhih")
# What clients ask of brokers and a scenario may name.
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
    """The header of a request without its length; None where there is none, or one of an api that nobody knows."""
    if len(request) < _HEAD.size:
        return None
    key, version, correlation, length = _HEAD.unpack_from(request)
    if key not in _NAMES or _HEAD.size + max(0, length) > len(request):
        return None
    client = request[_HEAD.size : _HEAD.size + max(0, length)].decode("utf-8", "replace")
    return Head(_NAMES[key], version, correlation, client)


def correlation_of(answer: bytes) -> int | None:
    """To which request an answer without its length belongs; None where it is too short to say."""
    return LENGTH.unpack_from(answer)[0] if len(answer) >= LENGTH.size else None


def errors_of(head: Head, answer: bytes) -> tuple[str, ...] | None:
    """The errors an answer tells, by Kafka's names and without repetition; None where it cannot be read.

    acks=0 is answered by nobody, and an api or a version that kafka-python does not know by nothing readable.
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


def _codes(reported: Any) -> Iterator[int]:
    if isinstance(reported, Mapping):
        for key, value in reported.items():
            if key == "error_code":
                yield int(value)
            else:
                yield from _codes(value)
    elif isinstance(reported, list | tuple):
        for value in reported:
            yield from _codes(value)
