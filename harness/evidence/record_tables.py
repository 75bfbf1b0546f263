"""The keys of typed documents for FORMAT.md, and their JSON Schemas; both follow from harness.model.documents."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import inspect

from harness.evidence.gate import GateDocument
from harness.evidence.matrix import PlayedMatrix
from harness.model.documents.cluster import ClusterReports
from harness.model.documents.contract import Contract
from harness.model.documents.manifest import Manifest, UsedPlugin
from harness.model.documents.reads import Reads
from harness.model.documents.run import Run
from harness.model.documents.scenario import PlayedScenario
from harness.model.documents.steps import Steps
from harness.model.finding import FindingKind
from harness.model.verdict import Verdict

RECORDS: Final[Mapping[str, object]] = {
    "scenario.json": PlayedScenario,
    "run.json": Run,
    "cluster.json": ClusterReports,
    "reads.json": Reads,
    "steps.json": Steps,
    "manifest.json": Manifest,
    "verdict.json": Verdict,
    "gate.json": GateDocument,
    "contracts.json": PlayedMatrix,
}
# Records within documents that have a table of their own.
APART: Final[Mapping[str, type]] = {"the contract": Contract, "a plugin": UsedPlugin}
_UNITS: Final = {"_ns": "ns", "_ms": "ms", "_s": "s", "_minutes": "minutes", "_bytes": "bytes"}
_PLAIN: Final[Mapping[type[inspect.Type], str]] = {
    inspect.IntType: "int",
    inspect.FloatType: "number",
    inspect.BoolType: "bool",
    inspect.StrType: "string",
}


def keys_of_records(kind: inspect.Type, at: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Each key below a type: where it is, its type, whether it is required, and its meaning. "[]" = each member of a
    list, "*" = each value of an object with names from the evidence as keys."""
    match kind:
        case inspect.Metadata():
            yield from keys_of_records(kind.type, at)
        case inspect.UnionType() if tagged(kind):
            return  # they have a table of their own
        case inspect.StructType() if at and kind.cls in APART.values():
            return
        case inspect.UnionType():
            for member in kind.types:
                yield from keys_of_records(member, at)
        case inspect.VarTupleType():
            yield from keys_of_records(kind.item_type, f"{at}[]")
        case inspect.DictType():
            yield from keys_of_records(kind.value_type, f"{at}.*" if at else "*")
        case inspect.StructType():
            for field in kind.fields:
                key = f"{at}.{field.encode_name}" if at else field.encode_name
                yield f"`{key}`", type_of(field), _required(field), meaning_of(field)
                yield from keys_of_records(field.type, key)


def _required(field: inspect.Field) -> str:
    """Whether a key is required; if not, what is assumed without it."""
    assumed = f" = {json.dumps(field.default)}" if isinstance(field.default, str | int) else ""
    return "yes" if field.required else f"no, or null{assumed}"


def tagged(kind: inspect.UnionType) -> list[inspect.StructType]:
    """The members of a union of records, of which a tag names one; none if the union is another one."""
    return [member for member in kind.types if isinstance(member, inspect.StructType) and member.tag is not None]


def kinds_of_records(kind: inspect.Type) -> Iterator[tuple[str, str, str]]:
    """Each record of a tagged union: its tag, its keys, and what it says."""
    for member in tagged(kind) if isinstance(kind, inspect.UnionType) else ():
        keys = "; ".join(map(_key_in_words, member.fields))
        yield f"`{member.tag}`", keys, " ".join((member.cls.__doc__ or "").split())


def _key_in_words(field: inspect.Field) -> str:
    optional = "" if field.required else ", optional"
    return f"`{field.encode_name}` ({type_of(field)}{optional}): {meaning_of(field)}"


def meaning_of(field: inspect.Field) -> str:
    """The meaning of a field."""
    described = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
    return str((described or {})["description"])


def type_of(field: inspect.Field) -> str:
    """The type of a field in words, with the unit that its name has."""
    name = _named(field.type, field.required)
    unit = next((unit for suffix, unit in _UNITS.items() if field.encode_name.endswith(suffix)), None)
    return f"{name}, {unit}" if unit and name.startswith(("int", "number")) else name


def _named(kind: inspect.Type, required: bool = True) -> str:
    match kind:
        case inspect.Metadata():
            return _named(kind.type, required)
        case inspect.UnionType():
            members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
            null = "?" if required and len(members) < len(kind.types) else ""
            fractions = [member for member in members if isinstance(member, inspect.FloatType)]
            return _named((fractions or members)[0]) + null
        case inspect.LiteralType():
            return ", ".join(f"`{word}`" for word in kind.values)
        case inspect.EnumType():
            return ", ".join(f"`{word.value}`" for word in kind.cls)
        case inspect.VarTupleType():
            return f"list of {_named(kind.item_type)}"
        case inspect.TupleType():
            return f"[{', '.join(_named(member) for member in kind.item_types)}]"
        case inspect.DictType():
            return f"{{name: {_named(kind.value_type)}}}"
        case inspect.CustomType() if kind.cls is FindingKind:
            return "string"
    return _PLAIN.get(type(kind), "object")


def json_schema(document: str) -> str:
    """The JSON Schema of a document, as the text of a file."""
    schema = msgspec.json.schema(RECORDS[document], schema_hook=_schema_of)
    for record in schema["$defs"].values():
        _permit_nulls(record.get("properties", {}), record.get("required", ()))
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": document, **schema}
    return json.dumps(named, indent=1) + "\n"


def _schema_of(kind: type) -> dict[str, str]:
    """The schema of a type that msgspec does not know; `object` is a value that is not judged."""
    return {"type": "string"} if kind is FindingKind else {}


def _permit_nulls(properties: dict[str, dict[str, object]], required: Collection[str]) -> None:
    """Each key that may be left out may be null too."""
    for key, value in properties.items():
        if key not in required and value.get("default") is not None:
            said: dict[str, object] = {word: value.pop(word) for word in ("description", "default") if word in value}
            properties[key] = {"anyOf": [value, {"type": "null"}], **said}
