"""The shape that a JSON value must have, as plain data, and one sentence about the first place that differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """An object with names from the evidence as keys. All its values have one shape."""

    shape: Shape


# "int", "number", "bool", "string", with a "?" if the value may be null; a tuple of words, one of which it must be;
# [shape] is a list; a mapping is an object, and a `key?` of it may be absent or null. Keys that a shape does
# not name are ignored, as FORMAT.md says.
Shape = str | Words | list[Any] | Mapping[str, Any] | Many

_SAID: Final = {"int": "a whole number", "number": "a number", "bool": "true or false", "string": "text"}
_SHOWN: Final = 40


def misfit(value: object, shape: Shape, at: str = "") -> str | None:
    """Where a value differs from its shape, and how; None if it fits."""
    if isinstance(shape, str):
        return _plain(value, shape, at)
    if isinstance(shape, tuple):
        return None if isinstance(value, str) and value in shape else _not(value, one_of(shape), at)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _not(value, "a list", at)
        return _first(misfit(item, shape[0], f"{at}[{n}]") for n, item in enumerate(value))
    if not isinstance(value, dict):
        return _not(value, "an object", at)
    if isinstance(shape, Many):
        return _first(misfit(item, shape.shape, _below(at, name)) for name, item in value.items())
    return _members(value, shape, at)


def one_of(words: Words) -> str:
    """ "a", "b" or "c", as JSON writes them."""
    *most, last = [json.dumps(word) for word in words]
    return f"{', '.join(most)} or {last}" if most else last


def shown(value: object) -> str:
    """A value as JSON writes it, cut short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "too deeply nested"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _members(value: Mapping[str, Any], shape: Mapping[str, Any], at: str) -> str | None:
    for name, of_member in shape.items():
        key = name.removesuffix("?")
        if key not in value:
            if name == key:
                return f"{at} has no {key!r}".lstrip()
        elif not (value[key] is None and name != key) and (wrong := misfit(value[key], of_member, _below(at, key))):
            return wrong
    return None


def _plain(value: object, kind: str, at: str) -> str | None:
    name = kind.removesuffix("?")
    if value is None and name != kind:
        return None
    kinds: Mapping[str, type | UnionType] = {"int": int, "number": int | float, "bool": bool, "string": str}
    # In Python, True is an int.
    fits = isinstance(value, kinds[name]) and (name == "bool" or not isinstance(value, bool))
    return None if fits else _not(value, _SAID[name], at)


def _not(value: object, wanted: str, at: str) -> str:
    return f"{at} is {shown(value)} and must be {wanted}".lstrip()


def _first(found: Any) -> str | None:
    return next((wrong for wrong in found if wrong), None)


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
