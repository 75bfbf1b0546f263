"""Writes a scenario as the text of a TOML file: the inverse of `toml.parse`. Defaults are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Final, cast

from harness.model.scenario.scenario import Admin, Producer, Reader, Scenario, Topic

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAMED: Final[Mapping[str, type]] = {"topics": Topic, "producers": Producer, "readers": Reader, "admin": Admin}
_TABLES: Final = ("shape", "allowed_anomalies", "floors", "negative_control", "regression", "matrix")


def text_of(scenario: Scenario) -> str:
    """The file of a scenario. It is read as the same scenario under the same name."""
    plain = cast("dict[str, object]", _changed(scenario))
    del plain["name"]
    lines = [f"{key} = {_value(value)}" for key, value in plain.items() if key not in (*_NAMED, *_TABLES, "steps")]
    lines.append("steps = [")
    lines += [f"  {_value({'do': step.do, 'name': step.name, **step.args})}," for step in scenario.steps]
    lines.append("]")
    for key in _TABLES:
        if table := cast("dict[str, object]", plain.get(key, {})):
            lines += ["", f"[{key}]", *(f"{_key(name)} = {_value(value)}" for name, value in table.items())]
    for key in _NAMED:
        if each := [cast("dict[str, object]", _changed(one)) for one in getattr(scenario, key)]:
            rows = (f"{one['name']} = {_value({k: v for k, v in one.items() if k != 'name'})}" for one in each)
            lines += ["", f"[{key}]", *rows]
    return "\n".join(lines) + "\n"


def _changed(value: object) -> object:
    """The fields of a dataclass that differ from their defaults, as TOML's plain types."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((entry, getattr(value, entry.name)) for entry in fields(value))
        return {
            entry.name: _changed(now)
            for entry, now in pairs
            if now is not None and now != _default(entry.default, entry.default_factory)
        }
    if isinstance(value, Mapping):
        return {key: _changed(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_changed(one) for one in value]
    return value


def _default(default: object, factory: object) -> object:
    if default is not MISSING:
        return default
    return factory() if callable(factory) else MISSING


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)
