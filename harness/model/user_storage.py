"""A remote storage manager of the user's own (KIP-405), as a file describes it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from harness.model.errors import BadInput
from harness.model.scenario.scenario import Config
from harness.model.scenario.toml import build
from harness.model.user_files import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStorage:
    """The user's class. class_path: like Kafka's, files and folders with `/*`, separated by colons. config: the
    manager's settings, without Kafka's prefix.
    """

    class_name: str
    class_path: str
    config: Config = field(default_factory=dict, hash=False)


def read_user_storage(file: Path) -> UserStorage:
    """The storage that a TOML file describes. Paths are relative to its folder. BadInput, in one sentence, if it is
    wrong.
    """
    where = f"remote storage {file}"
    try:
        plain = tomllib.loads(read_text(file))
    except OSError as refused:
        raise BadInput(
            f"{where}: cannot be read ({refused.strerror}): give a TOML file with class_name and class_path"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from None
    storage = cast(UserStorage, build(UserStorage, plain, where))
    entries = [_entry(part, file, where) for part in storage.class_path.split(":") if part]
    if not storage.class_name or not entries:
        raise BadInput(f"{where}: class_name or class_path is empty; give the manager's class and its jars")
    return replace(storage, class_path=":".join(entries))


def _entry(part: str, file: Path, where: str) -> str:
    """The absolute path of an entry that exists. A broker would only report a missing class."""
    whole = (file.absolute().parent / part.removesuffix("/*")).resolve()
    if part.endswith("/*"):
        if not any(whole.glob("*.jar")):
            raise BadInput(
                f"{where}: class_path: there is no jar in {whole}; put the manager's jars there, or correct the path"
            )
        return f"{whole}/*"
    if not whole.exists():
        raise BadInput(f"{where}: class_path: {whole} does not exist; correct the path")
    return str(whole)
