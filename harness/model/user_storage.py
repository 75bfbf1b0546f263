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
    """class_path: as Kafka takes one, files and folders' `/*`, separated by colons. config: what the manager is
    configured with, without Kafka's prefix."""

    class_name: str
    class_path: str
    config: Config = field(default_factory=dict, hash=False)


def read_user_storage(file: Path) -> UserStorage:
    """What stands in a TOML file; paths begin where that lies. BadInput, in one sentence, on anything else."""
    where = f"remote storage {file}"
    try:
        plain = tomllib.loads(read_text(file))
    except OSError as refused:
        raise BadInput(f"{where}: cannot be read ({refused.strerror}): name a file that says class_name") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from None
    storage = cast(UserStorage, build(UserStorage, plain, where))
    entries = [_entry(part, file, where) for part in storage.class_path.split(":") if part]
    if not storage.class_name or not entries:
        raise BadInput(f"{where}: class_name and class_path name nothing; give the manager's class, and its jars")
    return replace(storage, class_path=":".join(entries))


def _entry(part: str, file: Path, where: str) -> str:
    """Absolute, and there: a broker would only say that it finds no class."""
    whole = (file.absolute().parent / part.removesuffix("/*")).resolve()
    if part.endswith("/*"):
        if not any(whole.glob("*.jar")):
            raise BadInput(f"{where}: class_path: there is no jar in {whole}")
        return f"{whole}/*"
    if not whole.exists():
        raise BadInput(f"{where}: class_path: there is no {whole}")
    return str(whole)
