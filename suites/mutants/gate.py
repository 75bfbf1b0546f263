"""Runs the unchanged gate on a build, in a process of its own, and reads its evidence."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.evidence.gate import read_gate
from harness.evidence.verdicts import read_verdict
from harness.model.errors import HarnessFailure
from harness.model.exits import Exit
from suites.mutants.announced import announcement

# Every run of a mutant has the same plan of faults, unless --seed gives another.
SEED: Final = 4301
RECORDS: Final = 1_000_000
TIMEOUT_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of a gate on a build: its exit code, and by scenario the condemning kinds, the doubts and the alarms
    of the auditor."""

    exit: Exit
    condemned: dict[str, frozenset[str]]
    doubted: dict[str, tuple[str, ...]]
    announced: dict[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """Every condemning kind, of all scenarios."""
        return frozenset().union(*self.condemned.values())

    def line(self, name: str) -> str:
        """The line of this build in the summary of the tests."""
        parts = [f"{scenario}: {', '.join(sorted(kinds))}" for scenario, kinds in self.condemned.items() if kinds]
        doubts = [f"{scenario}: {'; '.join(texts)}" for scenario, texts in self.doubted.items()]
        return (
            f"{name}: {self.exit.name}; "
            + (" | ".join(parts) or "nothing found")
            + "".join(f" | doubt in {doubt}" for doubt in doubts)
            + "".join(f" | auditor in {scenario}: {said}" for scenario, said in self.announced.items())
        )


def durability(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the product that has a verdict. HarnessFailure, with the end of its output, if it has none."""
    done = subprocess.run(
        [str(Path(sysconfig.get_path("scripts"), "durability")), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=os.environ | {"CI": "1"},
    )
    if done.returncode not in (Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE):
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise HarnessFailure(f"durability {' '.join(arguments)} ended with {done.returncode}:\n{said}")
    return done


def judge(build: Path, out: Path, only: tuple[str, ...], seed: int, *, fail_fast: bool = False) -> Judged:
    """Runs the gate on a build. HarnessFailure if it ends without a verdict. fail_fast: ends it after the first
    scenario that is no PASS."""
    options = ["--kafka", str(build), "--backend", "processes", "--seed", str(seed), "--records", str(RECORDS)]
    options += ["--only", ",".join(only)] if only else []
    options += ["--fail-fast"] if fail_fast else []
    done = durability("gate", *options, "--out", str(out))
    condemned: dict[str, frozenset[str]] = {}
    doubted: dict[str, tuple[str, ...]] = {}
    announced: dict[str, str] = {}
    for result in read_gate(out).results:
        if result.bundle is None:
            doubted[result.name] = (result.error or "no evidence",)
            continue
        verdict = read_verdict(out / result.bundle)
        condemned[result.name] = frozenset(f.kind.value for f in verdict.findings if f.condemns)
        if condemned[result.name]:
            announced[result.name] = announcement(out / result.bundle)
        if verdict.doubts:
            doubted[result.name] = tuple(doubt.text for doubt in verdict.doubts)
    return Judged(exit=Exit(done.returncode), condemned=condemned, doubted=doubted, announced=announced)
