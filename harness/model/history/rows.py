"""A history as plain rows for a JSON document, and back.

Each row has the fields of its class. `type` names the class of a change. Reading checks every field: an unknown type, a
missing field or a value of another type is a `WrongRowError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

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
    TopicChange,
    UnknownChange,
    Written,
)
from harness.model.history.history import History
from harness.model.history.log import Value

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
    for kind in (*CHANGES.values(), Written, Dropped, Problem)
}
_Row = TypeVar("_Row", bound=Change | Written | Dropped | Problem)


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
    )


def _row(row: Change | Written | Dropped | Problem) -> dict[str, Json]:
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
    content = _mapping(row, f"a row of {kind.__name__}")
    hints = _HINTS[kind]
    if content.keys() != hints.keys():
        wrong = sorted(content.keys() ^ hints.keys())
        raise WrongRowError(f"a row of {kind.__name__} lacks or must not have: {', '.join(wrong)}")
    build: Callable[..., _Row] = kind
    return build(**{name: _typed(hints[name], value, f"{kind.__name__}.{name}") for name, value in content.items()})


def _typed(hint: object, value: object, where: str) -> object:
    """A value of a row as its annotation wants it."""
    if get_origin(hint) is Mapping:
        return _value(_mapping(value, where))
    if get_origin(hint) in (Union, UnionType):
        options = get_args(hint)
        if value is None and NoneType in options:
            return None
        (hint,) = (option for option in options if option is not NoneType)
    if get_origin(hint) is tuple:
        return tuple(_typed(get_args(hint)[0], element, where) for element in _list(value, where))
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise WrongRowError(f"{where} is {value!r}") from None
    # A bool is an int for Python, but not for a row.
    if not isinstance(hint, type) or type(value) is not hint:
        raise WrongRowError(f"{where} is {value!r}")
    return value


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
