"""contracts.json: which configuration came to what at which event. It lies in OUT, beside gate.json and the bundles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

from harness.evidence.documents import read_json, write_json
from harness.evidence.parsing import MisfitError, converted
from harness.model.contract.effects import Effect
from harness.model.documents.record import Record, meaning
from harness.model.errors import BadInput
from harness.model.verdict import Status

MATRIX: Final = "contracts.json"
MATRIX_VERSION: Final = 2  # 1 had other words for effects, and `mend` for `fix`


class MatrixCell(Record, frozen=True, kw_only=True):
    """One configuration at one event."""

    scenario: Annotated[str, meaning("the scenario that plays it")]
    event: Annotated[str, meaning("name of the event")]
    happens: Annotated[str | None, meaning("the event in words, after `when`")] = None
    topic: Annotated[str, meaning("the topic with this configuration")]
    configuration: Annotated[str, meaning("the configuration in words")]
    settings: Annotated[object, meaning("{`topic`, `client`}: the configuration as `durability contract` takes it")] = (
        None
    )
    promised: Annotated[tuple[Effect, ...], meaning("the effects that Kafka permits, the worst first")]
    exactly: Annotated[
        int | None, meaning("the number of records with the worst effect; null = the steps do not determine it")
    ] = None
    seen: Annotated[
        Mapping[Effect, int | float],
        meaning("the effects that the run showed, each with its number of records, or of seconds; empty = kept"),
    ]
    without_acks_s: Annotated[int | float, meaning("the longest time without acks during the fault")]
    status: Annotated[Status | None, meaning("verdict of the scenario; null = it has none")]
    holds: Annotated[bool, meaning("whether the scenario passed and showed exactly what was promised")]
    text: Annotated[str | None, meaning("the result in words")] = None
    which: Annotated[str, meaning("which records the promise is about")]
    why: Annotated[str, meaning("its reason, after `because`")]
    source: Annotated[str, meaning("the KIP, the issue or the documentation that says so")]
    fix: Annotated[tuple[str, ...], meaning("settings that promise more")]
    evidence: Annotated[str | None, meaning("folder of the bundle that showed it; null = none")] = None


class MatrixRun(Record, frozen=True, kw_only=True):
    """The run that played cells of a matrix, and how to repeat it."""

    if_said: ClassVar[Collection[str]] = ("only", "records")

    release: Annotated[str, meaning("version of the tested release")]
    day: Annotated[str, meaning("the day on which it ended")]
    seed: Annotated[int | None, meaning("from which all random choices follow")]
    backends: Annotated[tuple[str, ...], meaning("on which it ran")] = ()
    took_s: Annotated[int | float | None, meaning("how long it took")] = None
    only: Annotated[tuple[str, ...], meaning("the scenarios that it was asked for; empty = all")] = ()
    records: Annotated[int | None, meaning("--records, as in gate.json; null = unknown")] = None


class PlayedMatrix(MatrixRun, frozen=True, kw_only=True):
    """The whole document."""

    if_said: ClassVar[Collection[str]] = ("only", "records", "also")

    format_version: Annotated[int, meaning("the version of this document")]
    cells: Annotated[tuple[MatrixCell, ...], meaning("configurations at events")]
    also: Annotated[tuple[MatrixRun, ...], meaning("later runs, whose cells replace those of this run")] = ()


class _AnyMatrix(Record, frozen=True, kw_only=True):
    """The keys that a matrix of every version has."""

    release: Annotated[str, meaning("as in a matrix")]
    day: Annotated[str, meaning("as in a matrix")]
    seed: Annotated[int | None, meaning("as in a matrix")]
    cells: Annotated[tuple[object, ...], meaning("as in a matrix")]
    format_version: Annotated[int, meaning("as in a matrix")] = 1


def write_matrix(out: Path, matrix: PlayedMatrix) -> None:
    """Writes OUT/contracts.json atomically."""
    write_json(out / MATRIX, matrix)


def read_matrix(path: Path) -> PlayedMatrix:
    """A matrix. BadInput for a file that is none, or one of another version."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist or is not a file; `durability contracts` writes contracts.json")
    content = read_json(path)
    try:
        version = converted(content, _AnyMatrix).format_version
    except MisfitError:
        raise BadInput(
            f"{path} is not a matrix of contracts; give a contracts.json that `durability contracts` wrote"
        ) from None
    if version != MATRIX_VERSION:
        raise BadInput(
            f"{path} has format version {version}, and this harness reads version {MATRIX_VERSION}; write it "
            "again with `durability contracts`, or show it with the harness that wrote it"
        )
    try:
        return converted(content, PlayedMatrix)
    except MisfitError as wrong:
        raise BadInput(f"{path}: {wrong}; run `durability contracts` again") from None
