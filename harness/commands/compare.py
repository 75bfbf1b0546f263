"""Comparing two gates, or playing two releases one after the other to compare them.

Exit codes of a comparison:

0   no new finding and no new FAIL, and every scenario that was PASS is PASS (or does not apply to the release)
1   B has a finding that condemns and that A does not have, or a scenario that is FAIL and was not
10  nothing is new, and a scenario that was PASS is INCONCLUSIVE or has no verdict now
2   A or B is no evidence, or the history cannot be used; nothing is written
3   the harness failed; `gate --against`: also where a scenario of the release under test has no verdict because of that

Times never change the exit code.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

import reports
from harness.commands.history import remember
from harness.commands.option_types import PATH, with_plugins
from harness.commands.options import OUT_DEFAULT, GateOptions
from harness.commands.output import HISTORY, JSON, Output
from harness.commands.verify import damaged
from harness.model.errors import BadEvidence, BadInput
from harness.model.exits import Exit, worst

AGAINST: Final = "against"  # the folder of the other release, in OUT


@click.command("compare")
@with_plugins
@click.argument("before", metavar="A", type=PATH)
@click.argument("after", metavar="B", type=PATH)
@click.option("--out", type=PATH, metavar="DIR", help="Folder of the page. Default: report/ in B.")
@JSON
@HISTORY
def compare(before: Path, after: Path, out: Path | None, as_json: bool, history: Path | None) -> Exit:
    """Compare two gates: what B has that A does not. A and B are --out folders or bundles that were judged.

    Exit 1 only for what is new and condemns: a finding or a FAIL that A does not have. Exit 10 where a scenario was
    PASS before and is INCONCLUSIVE or missing now. Exit 0 otherwise. Findings are the same when scenario, kind and
    topic are, whatever their offsets and partitions. Times have their spread, and never change the exit code.

    Writes the review page of B with the comparison on it. With --history, both are appended, and earlier runs on one
    release say how far times vary by chance.
    """
    for folder in (before, after):
        if sentences := damaged(folder):
            raise BadEvidence(next(iter(sentences.values())))
    loaded = [reports.load(folder) for folder in (before, after)]
    for one in loaded:
        history = remember(history, one.evidence, one.summary)
    found = reports.compared(before, after, history)
    if as_json:
        click.echo(json.dumps(reports.comparison_document(found), indent=1))
    else:
        reports.show_comparison(found)
    page = reports.offer_page(after, out, against=found, history=history)
    if page is not None and not as_json:
        click.echo(f"review page: {page}")
    return found.exit


def gate_against(release: str, options: GateOptions, output: Output) -> Exit:
    """Plays the gate on another release, then on the tested one, by the same seed and settings, and compares them.

    Both releases and what they can play are checked before anything is played.
    """
    if options.keep:
        raise BadInput("--keep leaves one cluster running, and --against plays two gates; leave one of them out")
    from harness.commands.gate import plan, play  # clients of Kafka, which `compare` does not need

    with output.progress() as progress:
        other = plan(replace(options, kafka=release), progress)
        tested = plan(options, progress)
        if any(one.name == AGAINST for one in tested.selection.selected):
            raise BadInput(f"--against needs the folder of the scenario {AGAINST!r}; rename that scenario")
        out = options.out or OUT_DEFAULT / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{tested.release.version}"
        other = replace(other, options=replace(other.options, out=out / AGAINST))
        tested = replace(tested, options=replace(options, out=out))
        progress.line(f"first Kafka {other.release.version}, to compare with")
        before = play(other, progress)
        progress.line(f"now the release under test, Kafka {tested.release.version}")
        after = play(tested, progress)
    output.show(before.summary, before.out, {}, silent=output.quiet)
    history = remember(output.history, after.out, after.summary)
    found = reports.compared(before.out, after.out, history, summary=after.summary)
    output.publish(after.out, reports.comparison_document(found), found.exit, against=found)
    failed = [Exit.HARNESS for one in after.summary.results if one.status is None]
    return worst([found.exit, *failed])
