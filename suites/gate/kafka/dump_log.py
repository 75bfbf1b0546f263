"""Reads metadata logs by the release's own tool, kafka-dump-log, and compares them with what the harness decodes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.kafka.release.java import find_java
from harness.kafka.release.release import Release
from harness.kafka.storage.message_schema import Field, definitions
from harness.model.history.log import Record, Value

TIMEOUT_S = 120
_LINE = re.compile(r"\| offset: (?P<offset>\d+) .*? payload: (?P<payload>\{.*\})\s*")
_CONTROL = re.compile(
    r"\| offset: (?P<offset>\d+) .*?"
    r"(?P<kind>LeaderChange|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters):? (?P<payload>\{.*\})\s*"
)
# Before 4.0 the tool prints no fields of these records.
_CONTROL_TYPE = re.compile(r"\| offset: (?P<offset>\d+) .*? controlType: (?P<kind>LEADER_CHANGE)\(\d\)\s*")
_CONTROL_NAMES = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "LeaderChange": "LeaderChangeMessage",
    "SnapshotHeader": "SnapshotHeaderRecord",
    "SnapshotFooter": "SnapshotFooterRecord",
    "KRaftVersion": "KRaftVersionRecord",
    "KRaftVoters": "VotersRecord",
}


@dataclass(frozen=True, slots=True)
class Dumped:
    """A record as the tool prints it. Fields with their default are left out of `fields` if they are tagged."""

    offset: int
    kind: str
    version: int | None  # not printed for control records
    fields: Mapping[str, Any] | None  # None: not printed


def dump(release: Release, path: Path) -> list[Dumped]:
    """The records of a segment or snapshot of a metadata log, in its order."""
    java, classpath = find_java(release.version).executable, ":".join(map(str, release.classpath))
    package = "kafka.tools" if release.version.startswith("3.") else "org.apache.kafka.tools"
    tool = [f"{package}.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path)]
    ran = subprocess.run([java, "-cp", classpath, *tool], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ran.returncode == 0, ran.stderr
    return list(_dumped(ran.stdout))


def _dumped(output: str) -> Iterator[Dumped]:
    for line in output.splitlines():
        if control := _CONTROL.fullmatch(line):
            kind = _CONTROL_NAMES[control["kind"]]
            yield Dumped(int(control["offset"]), kind, None, json.loads(control["payload"]))
        elif control := _CONTROL_TYPE.fullmatch(line):
            yield Dumped(int(control["offset"]), _CONTROL_NAMES[control["kind"]], None, None)
        elif found := _LINE.fullmatch(line):
            payload = json.loads(found["payload"])
            kind = "".join(word.capitalize() for word in payload["type"].split("_"))
            yield Dumped(int(found["offset"]), kind, payload["version"], payload["data"])
        else:
            assert not line.startswith("| offset:"), line


def differences(record: Record, dumped: Dumped) -> list[str]:
    """The fields that differ between a decoded record and the tool's."""
    kind = dumped.kind if dumped.kind.endswith(("Record", "Message")) else f"{dumped.kind}Record"
    if (record.offset, record.kind) != (dumped.offset, kind):
        return [f"{record.offset} {record.kind} is {dumped.offset} {kind}"]
    if dumped.version is not None and record.version != dumped.version:
        return [f"{record.offset} {record.kind} of version {record.version} is of version {dumped.version}"]
    if dumped.fields is None:
        return []
    every = (*definitions("metadata").values(), *definitions("control").values())
    (message,) = (message for message in every if message.name == record.kind)
    return list(_fields(f"{record.offset} {record.kind}", record.fields, dumped.fields, message.fields))


def _fields(
    where: str, ours: Mapping[str, Value], theirs: Mapping[str, Any], fields: tuple[Field, ...]
) -> Iterator[str]:
    defaults = {field.name: field.default for field in fields}
    nested = {field.name: field.fields for field in fields}
    names = {_camel(name): name for name in ours}
    yield from (f"{where}.{name} is only in the tool's output" for name in theirs.keys() - names.keys())
    for camel, name in names.items():
        if camel not in theirs:
            if ours[name] != defaults[name]:
                yield f"{where}.{name} is {ours[name]!r}, and the tool leaves it out"
        elif not nested[name]:
            value = ours[name]
            if (list(value) if isinstance(value, tuple) else value) != theirs[camel]:
                yield f"{where}.{name} is {value!r}, and {theirs[camel]!r} for the tool"
        else:
            value, other = ours[name], theirs[camel]
            rows, others = (value, other) if isinstance(value, tuple) else ((value,), [other])
            if len(rows) != len(others):
                yield f"{where}.{name} has {len(rows)} elements, and {len(others)} for the tool"
            for row, printed in zip(rows, others, strict=False):
                assert isinstance(row, Mapping)
                yield from _fields(f"{where}.{name}", row, printed, nested[name])


def _camel(name: str) -> str:
    return "kRaftVersion" + name[12:] if name.startswith("KRaftVersion") else name[0].lower() + name[1:]
