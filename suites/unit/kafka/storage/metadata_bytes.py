"""Metadata logs as bytes: messages by their definitions, records, batches and snapshots."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.kafka.storage.log_directory import METADATA_LOG
from harness.kafka.storage.message_schema import Field, Message, definitions
from harness.kafka.storage.uuids import uuid_of
from harness.model.history.log import Value
from suites.unit.kafka.storage.test_record_batch import batch_bytes

CONTROL = 0x20
NUMBERS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "b"}


def uvarint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(kind: str, name: str) -> tuple[int, Message]:
    (found,) = ((number, each) for number, each in definitions(kind).items() if each.name == name)
    return found


def encoded(fields: Iterable[Field], version: int, given: Mapping[str, Value]) -> bytes:
    """A structure. Tagged fields that are not given are left out, as Kafka does with their default."""
    out, tagged = b"", {}
    for field in fields:
        if version not in field.versions:
            continue
        if version not in field.tagged:
            out += value(field, version, given.get(field.name, field.default))
        elif field.name in given:
            tagged[field.tag] = value(field, version, given[field.name])
    return out + tags(tagged)


def tags(tagged: Mapping[int, bytes]) -> bytes:
    return uvarint(len(tagged)) + b"".join(uvarint(t) + uvarint(len(d)) + d for t, d in sorted(tagged.items()))


def value(field: Field, version: int, given: Value) -> bytes:
    if field.is_list:
        if given is None:
            return b"\0"
        assert isinstance(given, tuple)
        return uvarint(len(given) + 1) + b"".join(element(field, version, each) for each in given)
    return element(field, version, given)


def element(field: Field, version: int, given: Value) -> bytes:
    if field.fields:
        assert isinstance(given, Mapping)
        return encoded(field.fields, version, given)
    if field.type in NUMBERS:
        return struct.pack(f">{NUMBERS[field.type]}", given)
    if field.type == "uuid":
        assert isinstance(given, str)
        return uuid_of(given).bytes
    if given is None:
        return b"\0"
    data = given.encode() if isinstance(given, str) else given
    assert isinstance(data, bytes)
    return uvarint(len(data) + 1) + data


def record_value(name: str, version: int = 0, **given: Value) -> bytes:
    """The value of a metadata record."""
    number, found = message("metadata", name)
    return b"\1" + uvarint(number) + uvarint(version) + encoded(found.fields, version, given)


def control_batch(offset: int, name: str, epoch: int = 1, **given: Value) -> bytes:
    number, found = message("control", name)
    key, version = struct.pack(">hh", 0, number), given.get("Version", 0)
    assert isinstance(version, int)
    data = encoded(found.fields, version, given)
    return batch_bytes(offset, [data], leader_epoch=epoch, attributes=CONTROL, key=key)


def data_batch(offset: int, *values: bytes, epoch: int = 1, codec: int = 0) -> bytes:
    return batch_bytes(offset, list(values), leader_epoch=epoch, codec=codec)


def log_folder(directory: Path, segments: Mapping[int, bytes], snapshots: Mapping[str, bytes] | None = None) -> Path:
    """A metadata log in a log directory of a node."""
    folder = directory / METADATA_LOG
    folder.mkdir(parents=True)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    for name, data in (snapshots or {}).items():
        (folder / f"{name}.checkpoint").write_bytes(data)
    return folder
