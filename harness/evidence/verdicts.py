"""verdict.json of a bundle: the judge writes it, and reports read it. Only this file can lead to exit code 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from harness.evidence.documents import read_json, write_json
from harness.evidence.parsing import MisfitError, converted, shown
from harness.model.documents.record import Record, meaning
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.errors import BadEvidence
from harness.model.finding import FindingKind, kind_of
from harness.model.schemas import FORMAT_VERSION
from harness.model.verdict import Verdict

VERDICT: Final = "verdict.json"
FINDINGS: Final = "findings.parquet"


class _Introduced(Record, frozen=True, kw_only=True):
    """The part of a verdict that has the kinds of findings of plugins."""

    facts: Annotated[VerdictFacts, meaning("as in a verdict")]


def write_verdict(bundle: Path, verdict: Verdict) -> Path:
    """Writes verdict.json into the folder of the bundle, atomically."""
    path = bundle / VERDICT
    write_json(path, verdict)
    return path


def read_verdict(bundle: Path) -> Verdict:
    """The verdict on a bundle. BadEvidence if it has not been judged yet, or the file is not a verdict."""
    path, remedy = bundle / VERDICT, f"run `durability verify {bundle}`"
    if not path.is_file():
        raise BadEvidence(f"{bundle} has no {VERDICT} yet; {remedy}")
    content = read_json(path, remedy)
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise BadEvidence(
            f"{path} has format version {shown(version)}, and this harness reads version {FORMAT_VERSION}; {remedy}"
        )
    try:
        return verdict_of(content)
    except MisfitError as wrong:
        raise BadEvidence(f"{path} is not a verdict ({wrong}); {remedy}") from None


def verdict_of(content: object) -> Verdict:
    """The verdict that a document says. MisfitError on anything else."""
    plugins = converted(content, _Introduced).facts.plugins
    own = {word: said for plugin in plugins for word, said in plugin.kinds.items()}

    def known(kind: type, word: object) -> object:
        if kind is not FindingKind:
            return word  # any value will do
        if not isinstance(word, str):
            raise ValueError(f"is {shown(word)} and must be text")
        try:
            return kind_of(word, own)
        except ValueError:
            raise ValueError(f"is {shown(word)}, which is no known kind of finding") from None

    return converted(content, Verdict, known)
