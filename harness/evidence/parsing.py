"""The edge of the evidence: JSON becomes the records of harness.model.documents here, or is refused in one sentence.

msgspec decides what is accepted. Its own message does not name keys of the evidence, such as topics, so the sentence is
made from the same types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from harness.model.errors import BadEvidence
from harness.model.schemas import INT64_LIMIT

_T = TypeVar("_T")
_SHOWN: Final = 40


Hook = Callable[[type, object], object]  # makes a value of a type that msgspec does not know, or raises ValueError


class MisfitError(ValueError):
    """A value is not of its type: a sentence about the first place that differs, without the file and the remedy."""


def parse(file: Path, content: object, kind: type[_T]) -> _T:
    """A document as its record. BadEvidence that names the file and the field if it is not as FORMAT.md says."""
    try:
        return converted(content, kind)
    except MisfitError as wrong:
        verb = " " if str(wrong).startswith(("has ", "is ")) else ": "
        raise BadEvidence(f"{file}{verb}{wrong}; write it as FORMAT.md says and seal again") from None


def converted(content: object, kind: type[_T], hook: Hook | None = None) -> _T:
    """A value as its record, or MisfitError."""
    try:
        return msgspec.convert(content, kind, dec_hook=hook)
    except msgspec.ValidationError:
        of_kind = inspect.type_info(kind)
    try:
        return msgspec.convert(without_nulls(content, of_kind), kind, dec_hook=hook)
    except msgspec.ValidationError as refusal:
        raise MisfitError(mismatch(content, of_kind) or _of_rule(refusal)) from None


def without_nulls(value: object, kind: inspect.Type) -> object:
    """A value without the keys that are null and may be left out: null says the same as no key."""
    match kind:
        case inspect.Metadata():
            return without_nulls(value, kind.type)
        case inspect.UnionType():
            member = _member(value, kind)
            return value if member is None else without_nulls(value, member)
        case inspect.StructType() if isinstance(value, dict):
            optional = {field.encode_name: field.type for field in kind.fields if not field.required}
            kept = {key: item for key, item in value.items() if item is not None or key not in optional}
            types = {field.encode_name: field.type for field in kind.fields}
            return {key: without_nulls(item, types[key]) if key in types else item for key, item in kept.items()}
        case inspect.DictType() if isinstance(value, dict):
            return {key: without_nulls(item, kind.value_type) for key, item in value.items()}
        case inspect.VarTupleType() if isinstance(value, list | tuple):
            return [without_nulls(item, kind.item_type) for item in value]
    return value


def _member(value: object, kind: inspect.UnionType) -> inspect.Type | None:
    """The member of a union that a value is meant to be; None if no tag says it."""
    records = [member for member in kind.types if isinstance(member, inspect.StructType)]
    if len(records) < 2:
        return next((member for member in kind.types if not isinstance(member, inspect.NoneType)), None)
    tag = value.get(records[0].tag_field or "") if isinstance(value, dict) else None
    return next((member for member in records if member.tag == tag), None)


def check_numbers(file: Path, content: object) -> None:
    """BadEvidence for a number that does not fit into 64 bits, also in keys that are for people."""
    for where, number in too_large(content, file.stem):
        raise BadEvidence(
            f"{file}: {where} is {number}, which does not fit into 64 bits; "
            "correct the number and seal the bundle again"
        )


def too_large(document: object, where: str) -> Iterator[tuple[str, int]]:
    """Integers beyond 64 bits in a document, each with its path. Kafka has none, so they are errors of the writer."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from too_large(value, f"{where}.{key}")
    elif isinstance(document, Sequence) and not isinstance(document, str):
        for index, value in enumerate(document):
            yield from too_large(value, f"{where}[{index}]")
    elif isinstance(document, int) and abs(document) >= INT64_LIMIT:
        yield where, document


def mismatch(value: object, kind: inspect.Type, at: str = "") -> str | None:
    """Where a value differs from a type, and how; None if it fits."""
    match kind:
        case inspect.Metadata():
            return mismatch(value, kind.type, at)
        case inspect.UnionType():
            return _of_union(value, kind, at)
        case inspect.StructType():
            return _of_record(value, kind, at)
        case inspect.DictType():
            if not isinstance(value, dict):
                return _not(value, "an object", at)
            return _first(mismatch(item, kind.value_type, _below(at, name)) for name, item in value.items())
        case inspect.VarTupleType():
            if not isinstance(value, list | tuple):
                return _not(value, "a list", at)
            return _first(mismatch(item, kind.item_type, f"{at}[{n}]") for n, item in enumerate(value))
        case inspect.TupleType():
            if not (isinstance(value, list | tuple) and len(value) == len(kind.item_types)):
                return _not(value, f"a list of {len(kind.item_types)} values", at)
            members = enumerate(zip(value, kind.item_types, strict=True))
            return _first(mismatch(item, of_item, f"{at}[{n}]") for n, (item, of_item) in members)
        case _:
            return _of_scalar(value, kind, at)


def _of_scalar(value: object, kind: inspect.Type, at: str) -> str | None:
    match kind:
        case inspect.LiteralType():
            words = tuple(str(word) for word in kind.values)
        case inspect.EnumType():
            words = tuple(str(word.value) for word in kind.cls)
        case inspect.StrType():
            return None if isinstance(value, str) else _not(value, "text", at)
        case inspect.BoolType():
            return None if isinstance(value, bool) else _not(value, "true or false", at)
        case inspect.FloatType():
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return None if fits else _not(value, "a number", at)
        case inspect.IntType():
            # In Python, True is an int.
            fits = isinstance(value, int) and not isinstance(value, bool)
            return _of_range(value, kind, at) if fits else _not(value, "a whole number", at)
        case _:
            return None
    return None if isinstance(value, str) and value in words else _not(value, one_of(words), at)


def _of_union(value: object, kind: inspect.UnionType, at: str) -> str | None:
    """A value that may be null, or is a number of any kind, or one of several records with a tag."""
    members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
    if value is None and len(members) < len(kind.types):
        return None
    if fractions := [member for member in members if isinstance(member, inspect.FloatType)]:
        return _of_scalar(value, fractions[0], at)
    if len(members) == 1:
        return mismatch(value, members[0], at)
    tagged = {member.tag: member for member in members if isinstance(member, inspect.StructType)}
    return _of_tagged(value, tagged, at)


def _of_tagged(value: object, kinds: Mapping[str | int | None, inspect.StructType], at: str) -> str | None:
    key = next(iter(kinds.values())).tag_field or ""
    if not isinstance(value, dict):
        return _not(value, "an object", at)
    if key not in value:
        return f"{at} has no {key!r}".lstrip()
    if not isinstance(value[key], str) or value[key] not in kinds:
        return _not(value[key], one_of(tuple(str(tag) for tag in kinds)), _below(at, key))
    return _of_record(value, kinds[value[key]], at)


def _of_record(value: object, kind: inspect.StructType, at: str) -> str | None:
    if not isinstance(value, dict):
        return _not(value, "an object", at)
    for field in kind.fields:
        key = field.encode_name
        if field.required and key not in value:
            return f"{at} has no {key!r}".lstrip()
        if not field.required and value.get(key) is None:
            continue
        if wrong := mismatch(value[key], field.type, _below(at, key)):
            return wrong
    foreign = value.keys() - {field.encode_name for field in kind.fields} if kind.forbid_unknown_fields else ()
    return next((f"{at} has an unknown column {key!r}".lstrip() for key in value if key in foreign), None)


def _of_range(value: object, kind: inspect.IntType, at: str) -> str | None:
    """A number that has to fit into a column, or to count from 0."""
    if not isinstance(value, int) or kind.ge is None or kind.le is None or kind.ge <= value <= kind.le:
        return None
    if kind.ge == 0 and value < 0:
        return f"{at} is {value} and cannot be below 0"
    return _not(value, f"an int{kind.le.bit_length() + 1}", at)


def _of_rule(refusal: msgspec.ValidationError) -> str:
    """A rule between fields, which a record checks itself: its words, behind the path that msgspec adds to them."""
    said, _, at = str(refusal).partition(" - at `$")
    return f"{at.strip('.`')} {said}".lstrip()


def one_of(words: Sequence[str]) -> str:
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


def _not(value: object, wanted: str, at: str) -> str:
    return f"{at} is {shown(value)} and must be {wanted}".lstrip()


def _first(found: Iterable[str | None]) -> str | None:
    return next((wrong for wrong in found if wrong), None)


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
