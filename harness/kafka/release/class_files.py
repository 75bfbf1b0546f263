"""The methods of a class, read from its class file (JVM specification, chapter 4). No JVM is needed for it."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The sizes of the entries of a constant pool by their tags, except for text (1), whose size is in the entry.
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_TEXT, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_PRIMITIVE: Final = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
}
_PARAMETER: Final = re.compile(r"(\[*)(?:L([^;]+);|([BCDFIJSZ]))")


@dataclass(frozen=True, slots=True)
class Method:
    """A method: its name, the types of its parameters as Java writes them, and the exceptions that it declares."""

    name: str
    parameters: tuple[str, ...]
    declares: tuple[str, ...]

    @property
    def signature(self) -> str:
        """Its name with its parameters, as the rules of Byteman have it."""
        return f"{self.name}({', '.join(self.parameters)})"


def methods_of(classpath: Sequence[Path], name: str) -> list[Method] | None:
    """The methods that a class itself declares; None if the jars and folders have no class of this name."""
    content = _content(classpath, f"{name.replace('.', '/')}.class")
    return None if content is None else list(_methods(content))


def _content(classpath: Sequence[Path], entry: str) -> bytes | None:
    for place in classpath:
        if place.is_dir():
            if (place / entry).is_file():
                return (place / entry).read_bytes()
        elif zipfile.is_zipfile(place):
            with zipfile.ZipFile(place) as jar:
                if entry in jar.NameToInfo:
                    return jar.read(entry)
    return None


class _Reader:
    """Reads numbers in the order of the file."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take(self, size: int) -> bytes:
        self.position += size
        return self._content[self.position - size : self.position]


def _methods(content: bytes) -> Iterator[Method]:
    reader = _Reader(content)
    reader.take(8)  # magic number and version
    texts, classes = _constants(reader)
    reader.take(6)  # access flags, this class, its super class
    reader.take(2 * reader.number(2))  # interfaces
    for _ in range(reader.number(2)):  # fields
        reader.take(6)
        _skip_attributes(reader)
    for _ in range(reader.number(2)):
        _, name, descriptor = struct.unpack(">HHH", reader.take(6))
        declares: tuple[str, ...] = ()
        for _ in range(reader.number(2)):
            attribute, size = texts[reader.number(2)], reader.number(4)
            value = _Reader(reader.take(size))
            if attribute == "Exceptions":
                found = [texts[classes[value.number(2)]] for _ in range(value.number(2))]
                declares = tuple(one.replace("/", ".") for one in found)
        yield Method(texts[name], parameters_of(texts[descriptor]), declares)


def _constants(reader: _Reader) -> tuple[dict[int, str], dict[int, int]]:
    """The texts of the constant pool, and for each class in it the text of its name."""
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    index, count = 1, reader.number(2)
    while index < count:
        tag = reader.number(1)
        if tag == _TEXT:
            texts[index] = reader.take(reader.number(2)).decode("utf-8", "replace")
        elif tag == _CLASS:
            classes[index] = reader.number(2)
        else:
            reader.take(_SIZES[tag])
        index += 2 if tag in (_LONG, _DOUBLE) else 1
    return texts, classes


def _skip_attributes(reader: _Reader) -> None:
    for _ in range(reader.number(2)):
        reader.take(2)
        reader.take(reader.number(4))


def parameters_of(descriptor: str) -> tuple[str, ...]:
    """The types of the parameters of a descriptor such as `(JLjava/util/Optional;)V`, as Java writes them."""
    inside = descriptor[1 : descriptor.index(")")]
    found = _PARAMETER.findall(inside)
    return tuple(
        (name.replace("/", ".") if name else _PRIMITIVE[letter]) + "[]" * len(arrays) for arrays, name, letter in found
    )
