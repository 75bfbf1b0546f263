"""The documents that the judge reads, each checked and parsed before anything is concluded from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.evidence.documents import is_there, read_json
from harness.evidence.former_words import check_former_words
from harness.evidence.manifest import check_version
from harness.evidence.parsing import check_numbers, parse
from harness.model.documents.cluster import Cluster
from harness.model.documents.reads import Read, Reads
from harness.model.documents.run import Run
from harness.model.documents.scenario import PlayedScenario
from harness.model.documents.steps import Step, Steps
from harness.model.errors import BadEvidence
from harness.model.schemas import FORMAT_VERSION

# Documents that a run which died half way may lack, and what is read in their place.
_EMPTY: Final[dict[str, object]] = {
    "steps.json": [],
    "cluster.json": {"snapshots": [], "lineages": []},
    "reads.json": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The required documents of a bundle except the manifest."""

    run: Run
    scenario: PlayedScenario
    steps: Sequence[Step]
    cluster: Cluster
    reads: Sequence[Read]


def documents_of(path: Path, *, version_needed: bool = False) -> Documents:
    """The documents of a bundle. A run that died half way may lack those that it writes last.

    BadEvidence if they are of another format version. `version_needed`: run.json must say which one it is.
    """
    _check_version(path, version_needed)
    run = parse(path / "run.json", _content(path, "run.json", optional=False), Run)
    unfinished = not run.finished
    return Documents(
        run=run,
        scenario=parse(path / "scenario.json", _content(path, "scenario.json", optional=False), PlayedScenario),
        steps=parse(path / "steps.json", _content(path, "steps.json", optional=unfinished), Steps),
        cluster=parse(path / "cluster.json", _content(path, "cluster.json", optional=unfinished), Cluster),
        reads=parse(path / "reads.json", _content(path, "reads.json", optional=unfinished), Reads),
    )


def _check_version(path: Path, version_needed: bool) -> None:
    file = path / "run.json"
    if is_there(file) and isinstance(content := read_json(file), dict):
        if "format_version" in content:
            check_version(file, content["format_version"])
        elif version_needed:
            raise BadEvidence(
                f"{file} has no format_version, and unsealed evidence must have version {FORMAT_VERSION} there; judge "
                f"it with the older harness that wrote it, or run `durability seal {path}` if you wrote it"
            )


def _content(path: Path, name: str, *, optional: bool) -> object:
    file = path / name
    if not is_there(file):
        if optional and name in _EMPTY:
            return _EMPTY[name]
        raise BadEvidence(f"{file} is missing; a bundle cannot be judged without it (FORMAT.md says what is in it)")
    content = read_json(file)
    check_former_words(file, content)
    if name != "scenario.json":
        check_numbers(file, content)
    return content
