"""Appending judged runs to a history, and showing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

import reports
from harness.commands.option_types import PATH
from harness.evidence.gate import GateSummary
from harness.evidence.past_runs import append, past_gates
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.hints import hint

LAST: Final = 10


def remember(file: Path | None, evidence: Path, summary: GateSummary) -> Path | None:
    """Appends the judged runs of a bundle or an --out folder, and returns the file. A failure is one line of warning.

    The file could be written when the command began, and its loss since then must not hide a verdict: it returns None.
    """
    if file is None:
        return None
    try:
        append(file, evidence, summary)
    except (BadInput, OSError) as failure:
        reports.warn(f"nothing was appended to the history: {failure}")
        return None
    return file


@click.command("history")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("--release", metavar="VERSION|COMMIT", help="Only runs on this release.")
@click.option("--scenario", metavar="NAME", help="Each run of this scenario, tries included.")
@click.option("--last", type=click.IntRange(min=1), default=LAST, show_default=True, help="How many to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, to standard output.")
def history(file: Path, release: str | None, scenario: str | None, last: int, as_json: bool) -> Exit:
    """Show the last gates of a history, and which scenarios are FLAKY: different verdicts on one release.

    FILE is what --history of `gate`, `run`, `verify` and `compare` wrote. This command ends in 0 whatever the verdicts
    in it are.
    """
    gates = past_gates(file)
    chosen = reports.chosen(gates, release, scenario)
    if gates and not chosen:
        known = {run.scenario for gate in gates for run in gate.runs}
        if scenario is not None and scenario not in known:
            raise BadInput(f"{file} has no run of {scenario!r}{hint(scenario, known)}")
        raise BadInput(f"{file} has no run on {release!r}; without --release it shows all")
    if as_json:
        click.echo(json.dumps(reports.history_document(chosen[-last:]), indent=1))
    else:
        reports.show_history(chosen, last, by_run=scenario is not None)
    return Exit.PASS
