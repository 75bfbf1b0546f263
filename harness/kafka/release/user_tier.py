"""A remote tier with the user's own storage manager: its jars stay in place, and its objects are read with it."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.java import find_java
from harness.kafka.release.java_compiler import SOURCES, compiled
from harness.kafka.release.release import Release
from harness.model.errors import BadInput, HarnessFailure

READER: Final = SOURCES.joinpath("StorageReader.java")
_READER_CLASS: Final = "durability.StorageReader"
# Besides the interface, these jars decode metadata of the tier. There is one of each, in any version.
_DECODERS: Final = ("kafka-storage-", "kafka-server-common-")
_OTHERS: Final = ("kafka-storage-api-",)
_MARK: Final = "storage-reader: "
_FETCH_S: Final = 300.0
_REASON_CHARS_MAX: Final = 300


def with_user_storage(release: Release, *, maven_repo: str | None, cache: Path, progress: Progress) -> Release:
    """The release with the class that reads the user's storage without the brokers.

    BadInput when no storage was named, or when it cannot be read.
    """
    if release.user_storage is None:
        raise BadInput('tier = "user" is a remote storage manager of your own: name it with --tier-storage FILE')
    if release.storage_reader is not None:
        return release
    progress(f"testing whether {release.user_storage.class_name} can be loaded and read")
    uses = [jar for jar in release.classpath if jar.name.startswith(_DECODERS) and not jar.name.startswith(_OTHERS)]
    jar = compiled(READER, release, uses, maven_repo=maven_repo, cache=cache, progress=progress)
    equipped = replace(release, storage_reader=jar)
    with Cache(cache).scratch() as scratch:
        try:
            fetch_all(equipped, [], scratch, scratch)
        except HarnessFailure as failure:
            raise BadInput(f"{failure}: fix the storage that --tier-storage names") from failure
    return equipped


def fetch_all(release: Release, metadata: Iterable[bytes], scratch: Path, folder: Path) -> None:
    """Fills `folder` with all objects of the segments that `metadata` describes, in the layout that `tier_store` reads.

    metadata: values of records of the tier's metadata topic. HarnessFailure when the storage cannot be read or takes
    too long.
    """
    storage, reader = release.user_storage, release.storage_reader
    assert storage is not None
    assert reader is not None
    properties = {"class": storage.class_name, "path": storage.class_path}
    properties |= {f"config.{key}": value for key, value in storage.config.items()}
    settings = scratch / "storage-reader.properties"
    settings.touch(mode=0o600)  # it may contain secrets
    settings.write_text("".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items()), "utf-8")
    classpath = ":".join(map(str, (reader, *release.classpath)))
    java = find_java(release.version).executable
    command = [str(java), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, _READER_CLASS]
    try:
        done = subprocess.run(
            [*command, str(settings), str(folder)],
            input=b"".join(base64.b64encode(value) + b"\n" for value in metadata),
            capture_output=True,
            timeout=_FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessFailure(f"{storage.class_name} was not read within {_FETCH_S:g} s") from None
    finally:
        settings.unlink()
    if done.returncode != 0:
        raise HarnessFailure(f"objects of {storage.class_name} cannot be read: {_why(done.stderr)}")


def _why(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").splitlines()
    reasons = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)] or lines[-1:]
    return "; ".join(reasons)[:_REASON_CHARS_MAX] or "it printed no reason"


def _escaped(text: str) -> str:
    """Escaped for java.util.Properties."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(f"\\{c}" if c in "=: #!" else c for c in text)
