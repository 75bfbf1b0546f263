"""The documents that the judge reads, each checked and parsed before anything is concluded from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from harness.evidence.documents import is_there, read_json
from harness.evidence.former_words import check_former_words
from harness.evidence.manifest import check_version
from harness.evidence.parsing import check_numbers, parse
from harness.model.documents.cluster import ClusterReports
from harness.model.documents.reads import Read, Reads
from harness.model.documents.run import Run
from harness.model.documents.scenario import PlayedScenario
from harness.model.documents.steps import Step, Steps
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION

_T = TypeVar("_T")
_NO_REPORTS: Final = ClusterReports(snapshots=(), lineages=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The required documents of a bundle except the manifest."""

    run: Run
    scenario: PlayedScenario
    steps: Sequence[Step]
    cluster: ClusterReports
    reads: Sequence[Read]


def documents_of(path: Path, *, version_needed: bool = False) -> Documents:
    """The documents of a bundle. A run that died half way may lack those that it writes last.

    BadEvidence if they are of another format version. `version_needed`: run.json must say which one it is.
    """
    run = _run(path / "run.json", version_needed)
    unfinished = not run.finished
    return Documents(
        run=run,
        scenario=_parsed(path / "scenario.json", PlayedScenario),
        steps=_parsed(path / "steps.json", Steps, () if unfinished else None),
        cluster=_parsed(path / "cluster.json", ClusterReports, _NO_REPORTS if unfinished else None),
        reads=_parsed(path / "reads.json", Reads, () if unfinished else None),
    )


def _run(file: Path, version_needed: bool) -> Run:
    content = _content(file)
    if isinstance(content, dict):
        _check_version(file, content, version_needed)
    return _record(file, content, Run)


def _check_version(file: Path, content: Mapping[str, object], version_needed: bool) -> None:
    if "format_version" in content:
        check_version(file, content["format_version"])
    elif version_needed:
        raise BadEvidence(
            f"{file} has no format_version, and unsealed evidence must have version {FORMAT_VERSION} there; judge "
            f"it with the older harness that wrote it, or run `durability seal {file.parent}` if you wrote it"
        )


def _parsed(file: Path, kind: type[_T], without: _T | None = None) -> _T:
    """A document. without: what counts if the file is absent; None = then the bundle is refused."""
    if without is not None and not is_there(file):
        return without
    return _record(file, _content(file), kind)


def _content(file: Path) -> object:
    if not is_there(file):
        raise BadEvidence(f"{file} is missing; a bundle cannot be judged without it (FORMAT.md says what is in it)")
    return read_json(file)


def _record(file: Path, content: object, kind: type[_T]) -> _T:
    check_former_words(file, content)
    if file.name != "scenario.json":
        check_numbers(file, content)
    return parse(file, content, kind)
