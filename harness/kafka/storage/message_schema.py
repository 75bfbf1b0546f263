"""Decodes messages by definitions in Kafka's own format: fields by version, tagged fields, structures and lists.

kafka-python has such a reader too. It skips what it does not know, and a judge must see exactly that: here, bytes that
are left over, unknown tagged fields and a null where none is allowed are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.kafka.storage.message_reader import MessageReader
from harness.model.history.log import Value

_MESSAGES: Final = Path(__file__).parents[1] / "messages"
_DEFINITIONS: Final = ("metadata_records.json", "coordinator_records.json")
_ENTRIES_MAX: Final = 1_000_000  # a longer list is damage; without a limit it would fill the memory
_NUMBERS: Final[Mapping[str, str]] = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
_ZERO: Final[Mapping[str, Value]] = {
    "bool": False,
    "bytes": b"",
    "float64": 0.0,
    "string": "",
    "uuid": "AAAAAAAAAAAAAAAAAAAAAA",
    **dict.fromkeys(_NUMBERS, 0),
}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, written "2", "0-3" or "1+"; `NO_VERSIONS` holds none."""

    first: int
    last: int | None  # None: no end

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


NO_VERSIONS: Final = Versions(0, -1)
ALL_VERSIONS: Final = Versions(0, None)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str  # of an element, if it is a list
    is_list: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Value
    fields: tuple[Field, ...]  # of a structure


@dataclass(frozen=True, slots=True)
class Message:
    """The definition of one message in all of its versions."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]
    flexible: Versions = ALL_VERSIONS  # with compact lengths and tagged fields (KIP-482)

    def decode(self, reader: MessageReader, version: int) -> dict[str, Value]:
        """The fields of this version. Raises one of BROKEN if the bytes are not such a message."""
        if version not in self.versions:
            raise ValueError(f"{self.name} has no version {version} here")
        fields = _structure(reader, self.fields, version, version in self.flexible)
        if reader.left:
            raise ValueError(f"{reader.left} bytes after {self.name}")
        return fields


@cache
def definitions(kind: str) -> Mapping[int, Message]:
    """The definitions of one kind by their numbers in the log.

    Kinds of the metadata log are "metadata" and "control". Those of coordinators are keys and values, by their topic:
    "offsets_key", "transactions_value", "share_key" and so on.
    """
    files = ((_MESSAGES / name).read_bytes() for name in _DEFINITIONS)
    rows = [row for file in files for row in msgspec.json.decode(file, type=list[_MessageRow])]
    return {
        row.api_key: Message(
            row.name,
            Versions.parse(row.valid_versions),
            _fields(row.fields),
            NO_VERSIONS if row.flexible_versions == "none" else Versions.parse(row.flexible_versions),
        )
        for row in rows
        if row.type == kind
    }


class _FieldRow(msgspec.Struct, rename="camel"):
    """A field, with the keys of Kafka's own definitions."""

    name: str
    type: str
    versions: str
    nullable_versions: str | None = None
    tagged_versions: str | None = None
    tag: int = -1
    default: str | int | float | bool | msgspec.UnsetType | None = msgspec.UNSET
    fields: tuple[_FieldRow, ...] = ()


class _MessageRow(msgspec.Struct, rename="camel"):
    """A message, with the keys of Kafka's own definitions."""

    api_key: int
    name: str
    type: str
    valid_versions: str
    flexible_versions: str
    fields: tuple[_FieldRow, ...]


def _fields(rows: Iterable[_FieldRow]) -> tuple[Field, ...]:
    return tuple(_field(row) for row in rows)


def _field(row: _FieldRow) -> Field:
    element = row.type.removeprefix("[]")
    is_list = row.type != element
    zero: Value = () if is_list else _ZERO.get(element)
    return Field(
        name=row.name,
        type=element,
        is_list=is_list,
        versions=Versions.parse(row.versions),
        nullable=NO_VERSIONS if row.nullable_versions is None else Versions.parse(row.nullable_versions),
        tagged=NO_VERSIONS if row.tagged_versions is None else Versions.parse(row.tagged_versions),
        tag=row.tag,
        default=zero if row.default is msgspec.UNSET else row.default,
        fields=_fields(row.fields),
    )


def _structure(reader: MessageReader, fields: Iterable[Field], version: int, flexible: bool) -> dict[str, Value]:
    values: dict[str, Value] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if version not in field.versions:
            continue
        if version in field.tagged:
            tagged[field.tag] = field
            values[field.name] = field.default
        else:
            values[field.name] = _value(reader, field, version, flexible)
    for tag, data in (reader.tags() if flexible else {}).items():
        if tag not in tagged:
            raise ValueError(f"unknown tagged field {tag} of {len(data)} bytes")
        inner = MessageReader(data)
        values[tagged[tag].name] = _value(inner, tagged[tag], version, flexible)
        if inner.left:
            raise ValueError(f"{inner.left} bytes after the tagged field {tagged[tag].name}")
    return values


def _value(reader: MessageReader, field: Field, version: int, flexible: bool) -> Value:
    if not field.is_list:
        value = _element(reader, field, version, flexible)
    elif (count := reader.uvarint() - 1 if flexible else reader.number("i")) < 0:
        value = None
    elif count > _ENTRIES_MAX:
        raise ValueError(f"{count} elements of {field.name}")
    else:
        value = tuple(_element(reader, field, version, flexible) for _ in range(count))
    if value is None and version not in field.nullable:
        raise ValueError(f"{field.name} is null")
    return value


def _element(reader: MessageReader, field: Field, version: int, flexible: bool) -> Value:
    if field.fields:
        return _structure(reader, field.fields, version, flexible)
    if field.type in _NUMBERS:
        return reader.number(_NUMBERS[field.type])
    if field.type == "string":
        data = reader.compact() if flexible else reader.sized("h")
        return None if data is None else data.decode("utf-8")
    if field.type == "bytes":
        return reader.compact() if flexible else reader.sized("i")
    return _OTHERS[field.type](reader)


_OTHERS: Final[Mapping[str, Callable[[MessageReader], Value]]] = {
    "bool": lambda reader: bool(reader.number("b")),
    "float64": MessageReader.real,
    "uuid": MessageReader.uuid,
}
