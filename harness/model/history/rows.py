"""A history as plain rows for a JSON document, and back.

Each row has the fields of its class. `type` names the class of a change. Reading checks every field: an unknown type, a
missing field or a value of another type is a `WrongRowError`.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias, TypeVar, get_origin, get_type_hints

from msgspec import Struct, ValidationError, convert, defstruct, structs

from harness.model.history.changes import (
    AnyChange,
    BrokerChange,
    Change,
    ConfigChange,
    ControllerChange,
    Dropped,
    FeatureChange,
    OtherChange,
    PartitionChange,
    Problem,
    ProducerIdBlock,
    TopicChange,
    UnknownChange,
    Written,
)
from harness.model.history.history import History
from harness.model.history.log import Value
from harness.model.history.snapshots import ComparedSnapshot, SnapshotDifference

VERSION: Final = 1  # of the document
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
CHANGES: Final[Mapping[str, type[AnyChange]]] = {
    "topic": TopicChange,
    "partition": PartitionChange,
    "broker": BrokerChange,
    "controller": ControllerChange,
    "config": ConfigChange,
    "feature": FeatureChange,
    "other": OtherChange,
    "unknown": UnknownChange,
}
_TYPES: Final = {kind: name for name, kind in CHANGES.items()}
_HINTS: Final[Mapping[type, Mapping[str, object]]] = {
    # The definition of `Value` names itself; values are checked by `_value`.
    kind: get_type_hints(kind, localns={"Value": object, "Mapping": Mapping})
    for kind in (*CHANGES.values(), ProducerIdBlock, Written, Dropped, Problem, ComparedSnapshot, SnapshotDifference)
}
# The fields of each class with any content, and what its rows must look like.
_FREE: Final[Mapping[type, Sequence[str]]] = {
    kind: [name for name, hint in hints.items() if get_origin(hint) is abc.Mapping] for kind, hints in _HINTS.items()
}
_FORMS: Final[Mapping[type, type[Struct]]] = {
    kind: defstruct(
        kind.__name__,
        [(name, dict[str, object] if name in _FREE[kind] else hint) for name, hint in hints.items()],
        forbid_unknown_fields=True,
    )
    for kind, hints in _HINTS.items()
}
_Plain: TypeAlias = Change | Written | Dropped | Problem | ComparedSnapshot | SnapshotDifference
_Row = TypeVar("_Row", bound=_Plain)


class WrongRowError(ValueError):
    """A row of a stored history that this harness did not write."""


def document_of(history: History) -> dict[str, Json]:
    """The content of a document, of plain JSON types only."""
    return {
        "version": VERSION,
        "nodes": list(history.nodes),
        "voters": list(history.voters),
        "start": history.start,
        "end": history.end,
        "high_watermark": history.high_watermark,
        "changes": [{"type": _TYPES[type(change)], **_row(change)} for change in history.changes],
        "written": [_row(row) for row in history.written],
        "dropped": [_row(row) for row in history.dropped],
        "problems": [_row(row) for row in history.problems],
        "snapshots": [_row(row) for row in history.snapshots],
        "differences": [_row(row) for row in history.differences],
        "producer_ids": [_row(row) for row in history.producer_ids],
    }


def history_of(document: object) -> History:
    """The history in a document. WrongRowError if it is not one of this version."""
    content = _mapping(document, "the document")
    if content.get("version") != VERSION:
        raise WrongRowError(f"the history has version {content.get('version')!r}, and {VERSION} is read here")
    return History(
        nodes=_numbers(content, "nodes"),
        voters=_numbers(content, "voters"),
        start=_number(content.get("start"), "start"),
        end=_number(content.get("end"), "end"),
        high_watermark=None if content.get("high_watermark") is None else _number(content["high_watermark"], "mark"),
        changes=[_change(row) for row in _list(content.get("changes"), "changes")],
        written=[_parsed(Written, row) for row in _list(content.get("written"), "written")],
        dropped=[_parsed(Dropped, row) for row in _list(content.get("dropped"), "dropped")],
        problems=[_parsed(Problem, row) for row in _list(content.get("problems"), "problems")],
        snapshots=[_parsed(ComparedSnapshot, row) for row in _list(content.get("snapshots", []), "snapshots")],
        differences=[_parsed(SnapshotDifference, row) for row in _list(content.get("differences", []), "differences")],
        producer_ids=[_parsed(ProducerIdBlock, row) for row in _list(content.get("producer_ids", []), "producer_ids")],
    )


def _row(row: _Plain) -> dict[str, Json]:
    return {field.name: _json(getattr(row, field.name)) for field in dataclasses.fields(row)}


def _json(value: Value | Enum) -> Json:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [_json(element) for element in value]
    if isinstance(value, Mapping):
        return {name: _json(element) for name, element in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    return value


def _change(row: object) -> AnyChange:
    content = dict(_mapping(row, "a change"))
    name = content.pop("type", None)
    if not isinstance(name, str) or name not in CHANGES:
        raise WrongRowError(f"no change has the type {name!r}")
    kind: type[AnyChange] = CHANGES[name]
    return _parsed(kind, content)


def _parsed(kind: type[_Row], row: object) -> _Row:
    try:
        values = structs.asdict(convert(row, _FORMS[kind]))
    except ValidationError as wrong:
        raise WrongRowError(f"a row of {kind.__name__} is wrong: {wrong}") from None
    build: Callable[..., _Row] = kind
    fields = {name: _value(values[name]) for name in _FREE[kind]}
    return build(**values | fields)


def _value(value: object) -> Value:
    if isinstance(value, list):
        return tuple(_value(element) for element in value)
    if isinstance(value, dict):
        return {str(name): _value(element) for name, element in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise WrongRowError(f"{value!r} is no value of a record")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise WrongRowError(f"{where} is no object")
    return value


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise WrongRowError(f"{where} is no list")
    return value


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongRowError(f"{where} is {value!r}")
    return value


def _numbers(content: Mapping[str, object], name: str) -> list[int]:
    return [_number(value, name) for value in _list(content.get(name), name)]
