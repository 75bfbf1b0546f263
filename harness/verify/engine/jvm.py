"""The parts of Spark that exist only in Java, and fewer messages between Python and Java.

PySpark describes each query to Java piece by piece, in one message each. Planning costs more than comparing the records
of most runs, and messages are a quarter of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayClient,
    JavaClass,
    JavaMember,
    JavaObject,
    JavaPackage,
    JVMView,
)
from py4j.protocol import INPUT_CONVERTER, STATIC_PREFIX, register_input_converter  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_COLUMN: Final = "col"  # the static method of `functions` that makes a column of a name: a constant, too
_OF_MAX: Final = 10  # List.of has a method of its own for each number of elements up to this one


def jvm_of(spark: SparkSession) -> JVMView:
    """The classes in the Java process of a session."""
    found = spark._jvm
    assert found is not None  # PySpark sets it to None only in `stop`
    return found


def send_fewer_messages(spark: SparkSession) -> None:
    """From now on each name of a Java class or static method is looked up once in the session, a column of a name is
    made once, and a list takes one message in place of one for each element.

    py4j asks Java for a name each time, and Java looks for it in all jars: for `org` and each package within it, too,
    since they might be classes. That was a third of 33,000 messages for a bundle.
    """
    jvm_of(spark).__class__ = _View
    if not any(isinstance(converter, _Lists) for converter in INPUT_CONVERTER):  # those of all sessions of a process
        register_input_converter(_Lists(), prepend=True)


class _Remembering:
    """Keeps what a name stands for if it is a package, a class or a static method: these never change."""

    def __getattr__(self, name: str) -> object:
        found = super().__getattr__(name)  # type: ignore[misc]  # of the class of py4j beside which it stands
        kind = type(found)
        if kind in _KINDS:
            found.__class__ = _KINDS[kind]
            remembered = _once(found) if name == _COLUMN else found
            self.__dict__[name] = remembered  # not by setattr: it would set a static field of Java
            return remembered
        return found


class _View(_Remembering, JVMView):  # type: ignore[misc]
    pass


class _Package(_Remembering, JavaPackage):  # type: ignore[misc]
    pass


class _Class(_Remembering, JavaClass):  # type: ignore[misc]
    pass


_KINDS: Final = {JavaPackage: _Package, JavaClass: _Class, JavaMember: JavaMember}
_ELEMENT: Final = (JavaObject, str)


def _once(column_of: Callable[[str], JavaObject]) -> Callable[[str], JavaObject]:
    @cache
    def column(name: str) -> JavaObject:  # a function, because `cache` asks Java for a help text of its methods
        return column_of(name)

    return column


class _Lists:
    """Makes lists of Java objects or texts in Java. py4j asks it first, and its own converter for other lists."""

    def can_convert(self, given: object) -> bool:
        return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(one, _ELEMENT) for one in given)

    def convert(self, given: Sequence[JavaObject | str], client: GatewayClient) -> JavaObject:
        list_of = JavaMember("of", None, f"{STATIC_PREFIX}java.util.List", client)
        parts = [list_of(*given[first : first + _OF_MAX]) for first in range(0, len(given), _OF_MAX)]
        if len(parts) == 1:
            return parts[0]
        every = JavaClass("java.util.ArrayList", client)(parts[0])
        for part in parts[1:]:
            every.addAll(part)
        return every
