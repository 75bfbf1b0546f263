"""Class files are read without a JVM: methods with their parameters and exceptions. The files are written by hand."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from harness.kafka.release.class_files import Method, methods_of, parameters_of


def short(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}H", *numbers)


def text(value: str) -> bytes:
    return b"\x01" + short(len(value)) + value.encode()


def class_file() -> bytes:
    """A class with the field `f`, and the methods `flush` (which throws IOException) and `close`."""
    pool = [
        text("f"),  # 1
        text("J"),  # 2
        text("ConstantValue"),  # 3
        b"\x05" + bytes(8),  # 4 and 5: a long takes two places
        text("flush"),  # 6
        text("(JLa/B;[[I)V"),  # 7
        text("Exceptions"),  # 8
        text("java/io/IOException"),  # 9
        b"\x07" + short(9),  # 10: the class of that name
        text("close"),  # 11
        text("()V"),  # 12
        b"\x08" + short(1),  # 13: a string
    ]
    field = short(0, 1, 2, 1) + short(3) + struct.pack(">I", 2) + short(4)
    flush = short(1, 6, 7, 1) + short(8) + struct.pack(">I", 4) + short(1, 10)
    close = short(1, 11, 12, 0)
    body = short(0, 10, 10, 0) + short(1) + field + short(2) + flush + close + short(0)
    return b"\xca\xfe\xba\xbe" + short(0, 61) + short(14) + b"".join(pool) + body


FOUND = [Method("flush", ("long", "a.B", "int[][]"), ("java.io.IOException",)), Method("close", (), ())]


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "log.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/Log$Part.class", class_file())
    return path


def test_the_methods_of_a_class_in_a_jar_or_a_folder(jar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "Log.class").write_bytes(class_file())
    assert methods_of([jar, folder], "a.Log$Part") == FOUND
    assert methods_of([tmp_path / "absent.jar", jar, folder], "a.Log") == FOUND
    assert FOUND[0].signature == "flush(long, a.B, int[][])"


def test_a_class_that_no_jar_has(jar: Path) -> None:
    assert methods_of([jar], "a.Other") is None


@pytest.mark.parametrize(
    ("descriptor", "types"),
    [
        ("()V", ()),
        ("(BCDFIJSZ)J", ("byte", "char", "double", "float", "int", "long", "short", "boolean")),
        (
            "(Lb/Map$Entry;[Lb/Text;I)Ljava/util/Optional;",
            ("b.Map$Entry", "b.Text[]", "int"),
        ),
    ],
)
def test_parameters_as_java_writes_them(descriptor: str, types: tuple[str, ...]) -> None:
    assert parameters_of(descriptor) == types
