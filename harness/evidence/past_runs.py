"""A file with the results of earlier gates: an SQLite database to which each judged run is appended.

A row is known by the digest of its bundle's manifest, so that the same run judged again replaces its row, wherever the
bundle lies then. Several processes may append at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.evidence.figures import figures_of, run_of
from harness.evidence.gate import GateSummary, is_bundle
from harness.evidence.manifest import MANIFEST, read_manifest
from harness.evidence.verdicts import VERDICT, read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadEvidence, BadInput
from harness.model.verdict import Status, Verdict

SCHEMA_VERSION: Final = 1
_APPLICATION: Final = 0x4B44_5248  # in the header of the file: it is a history of this program
_WAIT_S: Final = 60
_TABLES: Final = """
CREATE TABLE gates (
  id INTEGER PRIMARY KEY,
  release TEXT NOT NULL, commit_id TEXT NOT NULL, source TEXT NOT NULL, seed INTEGER,
  backends TEXT NOT NULL, verdict TEXT NOT NULL, required INTEGER NOT NULL, with_verdict INTEGER NOT NULL,
  took_s REAL, started_ns INTEGER NOT NULL, judged_ns INTEGER NOT NULL, evidence TEXT NOT NULL
);
CREATE TABLE runs (
  digest TEXT PRIMARY KEY,
  gate INTEGER NOT NULL REFERENCES gates (id),
  scenario TEXT NOT NULL, attempt INTEGER NOT NULL, decides INTEGER NOT NULL, status TEXT NOT NULL,
  release TEXT NOT NULL, commit_id TEXT NOT NULL, source TEXT NOT NULL, backend TEXT NOT NULL, records INTEGER,
  episodes INTEGER NOT NULL, episodes_with_loss INTEGER NOT NULL, findings INTEGER NOT NULL, doubts TEXT NOT NULL,
  started_ns INTEGER NOT NULL, judged_ns INTEGER NOT NULL
);
CREATE INDEX runs_of_gate ON runs (gate);
CREATE TABLE figures (
  run TEXT NOT NULL REFERENCES runs (digest),
  name TEXT NOT NULL, value REAL NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One try of a scenario. decides: its verdict is that of the scenario in its gate. figures: see `figures_of`."""

    digest: str
    gate: int
    scenario: str
    attempt: int
    decides: bool
    status: Status
    release: str
    commit: str
    source: str
    backend: str
    episodes: int
    episodes_with_loss: int
    findings: int
    doubts: tuple[str, ...]
    started_ns: int
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def build(self) -> tuple[str, str, str]:
        """The identity of the release: version, commit, and source, since a changed build may have the same commit."""
        return self.release, self.commit, self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class PastGate:
    """One gate, or one run of some scenarios. verdict: PASS, INCONCLUSIVE or FAIL of the whole."""

    id: int
    release: str
    commit: str
    source: str
    seed: int | None
    backends: tuple[str, ...]
    verdict: Status
    required: int
    with_verdict: int
    took_s: float | None
    started_ns: int
    evidence: str
    runs: tuple[PastRun, ...]


def check_past_runs(file: Path) -> None:
    """BadInput unless runs can be appended to the file, or it can be made; writes nothing."""
    if not os.path.lexists(file):
        parent = file.parent
        if not parent.is_dir():
            raise BadInput(f"--history {file} cannot be made: there is no folder {parent}; make it first")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise BadInput(f"--history {file} cannot be made: {parent} is not writable; give a file in another folder")
        return
    if not file.is_file():
        raise BadInput(f"--history {file} is not a file; give the file of a history, or one that does not exist yet")
    if not os.access(file, os.R_OK | os.W_OK) or not os.access(file.parent, os.W_OK):
        raise BadInput(f"--history {file} and its folder must be readable and writable; change their rights")
    with _opened(file) as database:
        if _version(database, file) and (damage := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise BadInput(_damaged(file, str(damage)))


def append(file: Path, evidence: Path, summary: GateSummary) -> None:
    """Appends the judged runs of a bundle or an --out folder; a run that is there already is replaced.

    A bundle that has no verdict is left out. BadInput if the file is no history, or cannot be written.
    """
    single = is_bundle(evidence)
    rows = list(_rows(evidence, summary, single))
    if not rows:
        return
    with _opened(file, new=True) as database:
        if not _version(database, file):
            for statement in _TABLES.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        marks = ", ".join("?" * len(rows))
        found = database.execute(
            f"SELECT gate FROM runs WHERE digest IN ({marks}) ORDER BY gate", [row.digest for row in rows]
        ).fetchone()
        gate = found[0] if found else None
        if gate is None or not single:
            gate = _put_gate(database, gate, evidence, summary, rows)
        else:  # a bundle alone does not say which try of its gate it is
            rows = [_as_before(database, row) for row in rows]
        for row in rows:
            _put_run(database, gate, row)


def past_gates(file: Path) -> tuple[PastGate, ...]:
    """All gates of a history with their runs, the oldest first. BadInput if the file is missing or no history."""
    if not file.is_file():
        raise BadInput(f"there is no file {file}; `--history FILE` of gate, run, verify and compare writes it")
    with _opened(file) as database:
        if not _version(database, file):
            return ()
        figures: dict[str, dict[str, float]] = {}
        for run, name, value in database.execute("SELECT run, name, value FROM figures"):
            figures.setdefault(run, {})[name] = value
        runs: dict[int, list[PastRun]] = {}
        for row in database.execute("SELECT * FROM runs ORDER BY started_ns, scenario, attempt"):
            runs.setdefault(row["gate"], []).append(_past_run(row, figures.get(row["digest"], {})))
        gates = database.execute("SELECT * FROM gates ORDER BY started_ns, id").fetchall()
        return tuple(_past_gate(row, runs.get(row["id"], ())) for row in gates)


def _past_run(row: sqlite3.Row, figures: Mapping[str, float]) -> PastRun:
    return PastRun(
        digest=row["digest"],
        gate=row["gate"],
        scenario=row["scenario"],
        attempt=row["attempt"],
        decides=bool(row["decides"]),
        status=Status(row["status"]),
        release=row["release"],
        commit=row["commit_id"],
        source=row["source"],
        backend=row["backend"],
        episodes=row["episodes"],
        episodes_with_loss=row["episodes_with_loss"],
        findings=row["findings"],
        doubts=tuple(json.loads(row["doubts"])),
        started_ns=row["started_ns"],
        figures=figures,
    )


def _past_gate(row: sqlite3.Row, runs: Sequence[PastRun]) -> PastGate:
    return PastGate(
        id=row["id"],
        release=row["release"],
        commit=row["commit_id"],
        source=row["source"],
        seed=row["seed"],
        backends=tuple(json.loads(row["backends"])),
        verdict=Status(row["verdict"]),
        required=row["required"],
        with_verdict=row["with_verdict"],
        took_s=row["took_s"],
        started_ns=row["started_ns"],
        evidence=row["evidence"],
        runs=tuple(runs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One bundle to append."""

    digest: str
    scenario: str
    attempt: int
    decides: bool
    backend: str
    started_ns: int
    verdict: Verdict
    release: NamedRelease
    figures: Mapping[str, float]


def _rows(evidence: Path, summary: GateSummary, single: bool) -> Iterator[_Row]:
    """The judged bundles of a summary. One without a readable verdict is left out."""
    for result in summary.results:
        for attempt, name in enumerate(result.bundles, 1):
            bundle = evidence if single else evidence / name
            try:
                verdict = read_verdict(bundle)
            except BadEvidence:
                continue
            run = run_of(bundle)
            yield _Row(
                digest=_digest(bundle),
                scenario=result.name,
                attempt=attempt,
                decides=name == result.bundle,
                backend=_backend(bundle),
                started_ns=(run.started_ns if run else None) or 0,
                verdict=verdict,
                release=verdict.facts.release or summary.release,
                figures=figures_of(bundle, verdict),
            )


def _digest(bundle: Path) -> str:
    """The identity of a run: the digest of its manifest; of its other documents where it was never sealed."""
    manifest = bundle / MANIFEST
    documents = [manifest] if manifest.is_file() else sorted(p for p in bundle.glob("*.json") if p.name != VERDICT)
    content = hashlib.sha256()
    for document in documents:
        content.update(document.name.encode() + b"\0" + document.read_bytes())
    return content.hexdigest()


def _backend(bundle: Path) -> str:
    try:
        return read_manifest(bundle).backend or ""
    except BadEvidence:
        return ""


def _put_gate(
    database: sqlite3.Connection, gate: int | None, evidence: Path, summary: GateSummary, rows: Sequence[_Row]
) -> int:
    """Writes the row of a gate, a new one where `gate` is None, and returns its id."""
    named = summary.release if summary.release != NamedRelease() else rows[0].release
    seed = summary.seed if summary.seed is not None else rows[0].verdict.facts.seed
    put = database.execute(
        "INSERT OR REPLACE INTO gates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            gate,
            named.version or "",
            named.commit or "",
            named.source or "",
            seed,
            json.dumps(summary.backends or sorted({row.backend for row in rows if row.backend})),
            summary.status.value,
            len(summary.required),
            len(summary.ran),
            summary.took_s,
            min(row.started_ns for row in rows),
            time.time_ns(),
            str(evidence.absolute()),
        ),
    )
    assert put.lastrowid is not None
    return put.lastrowid


def _as_before(database: sqlite3.Connection, row: _Row) -> _Row:
    """The row with the place in its gate that it has in the file."""
    known = database.execute("SELECT attempt, decides FROM runs WHERE digest = ?", (row.digest,)).fetchone()
    return replace(row, attempt=known["attempt"], decides=bool(known["decides"]))


def _put_run(database: sqlite3.Connection, gate: int, row: _Row) -> None:
    score = row.verdict.score
    database.execute("DELETE FROM figures WHERE run = ?", (row.digest,))
    database.execute(
        "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.digest,
            gate,
            row.scenario,
            row.attempt,
            row.decides,
            row.verdict.status.value,
            row.release.version or "",
            row.release.commit or "",
            row.release.source or "",
            row.backend,
            row.verdict.facts.records.attempted if row.verdict.facts.records else None,
            score.episodes if score else 0,
            score.episodes_with_loss if score else 0,
            sum(finding.condemns for finding in row.verdict.findings),
            json.dumps([doubt.name for doubt in row.verdict.doubts]),
            row.started_ns,
            time.time_ns(),
        ),
    )
    values = [(row.digest, name, value) for name, value in row.figures.items()]
    database.executemany("INSERT INTO figures VALUES (?, ?, ?)", values)


@contextmanager
def _opened(file: Path, *, new: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection; new: a missing file is made, and all that is written becomes visible at once, or nothing.

    Raises BadInput for whatever is wrong with the file.
    """
    address = f"{file.absolute().as_uri()}?mode={'rwc' if new else 'rw'}"
    try:
        database = sqlite3.connect(address, uri=True, timeout=_WAIT_S, isolation_level=None)
        try:
            database.row_factory = sqlite3.Row
            database.execute("BEGIN IMMEDIATE" if new else "BEGIN")
            yield database
            database.execute("COMMIT")
        finally:
            database.close()  # a transaction that did not end is undone
    except sqlite3.OperationalError as refusal:
        raise BadInput(
            f"--history {file} cannot be used ({refusal}); wait for other programs that use it, or give another file"
        ) from None
    except (sqlite3.DatabaseError, ValueError, TypeError) as damage:
        raise BadInput(_damaged(file, str(damage))) from None


def _version(database: sqlite3.Connection, file: Path) -> int:
    """The schema version of a file; 0 = it is empty. BadInput if it is of another program, or of a later one."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    application = int(database.execute("PRAGMA application_id").fetchone()[0])
    if not version and not application and not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        return 0
    if application != _APPLICATION or version < 1:
        raise BadInput(f"--history {file} is a database of another program; give a file of its own")
    if version > SCHEMA_VERSION:
        raise BadInput(
            f"--history {file} has schema version {version}, and this program knows versions up to {SCHEMA_VERSION}; "
            "update it, or give another file"
        )
    return version


def _damaged(file: Path, what: str) -> str:
    return f"--history {file} is damaged or no SQLite database ({what}); restore it from a copy, or give another file"
