"""How a command answers: for people, in three lines (--quiet), or as one JSON document (--json); and who else is told.

With --json, standard output has one document and nothing else; all other lines go to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Final, TextIO

import click

import reports
from harness.commands.exit_codes import may_be_written
from harness.commands.history import remember
from harness.commands.notify import check_url, post
from harness.commands.option_types import PATH
from harness.evidence.documents import plain
from harness.evidence.gate import GateSummary, read_gate
from harness.evidence.past_runs import check_past_runs
from harness.model.errors import BadInput
from harness.model.exits import Exit

Command = Callable[..., Exit]
NOTIFY: Final = "DURABILITY_NOTIFY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The options about output. summary: a file for the Markdown summary. notify: the address of a webhook. allure: a
    folder for Allure results. history: the file to which judged runs are appended."""

    as_json: bool = False
    quiet: bool = False
    summary: Path | None = None
    notify: str | None = None
    allure: Path | None = None
    history: Path | None = None

    @property
    def lines_to(self) -> TextIO:
        """Where lines for people go."""
        return sys.stderr if self.as_json else sys.stdout

    def progress(self) -> AbstractContextManager[reports.TerminalProgress]:
        """Shows progress while it is open; nothing of it with --quiet."""
        return reports.progress(lines_to=self.lines_to, quiet=self.quiet)

    def publish(
        self,
        out: Path,
        document: Mapping[str, object] | None = None,
        code: Exit | None = None,
        against: reports.Against | None = None,
    ) -> None:
        """Shows the gate in an --out folder, and writes its junit.xml and its page.

        document: for --json, in place of gate.json with all verdicts. code: of the command; None = that of the gate.
        against: its comparison with another gate.
        """
        summary = read_gate(out)
        verdicts = {name: plain(verdict) for name, verdict in reports.verdicts_of(summary, out).items()}
        whole = {**plain(summary.document), "verdicts": verdicts, "evidence": str(out)}
        code = summary.exit if code is None else code
        self.publish_judged(summary, out, {}, code, whole if document is None else document, against)

    def publish_judged(
        self,
        summary: GateSummary,
        evidence: Path,
        without: Mapping[str, str],
        code: Exit,
        document: Mapping[str, object],
        against: reports.Against | None = None,
    ) -> None:
        """The same for a judgement. without: bundles that could not be judged. document: for --json."""
        page = self.show(summary, evidence, without, against)
        if self.as_json:
            self.answer({**document, "page": None if page is None else str(page)})
        reports.show_allure(evidence, self.allure, summary, without, quiet=self.quiet or self.as_json)
        for refused in reports.write_job_summary(summary, evidence, without, self.summary):
            reports.warn(refused)
        if self.notify is not None:
            body = reports.notice(summary, evidence, without, code)
            if failure := post(self.notify, json.dumps(body).encode()):
                reports.warn(failure)

    def show(
        self,
        summary: GateSummary,
        evidence: Path,
        without: Mapping[str, str],
        against: reports.Against | None = None,
        *,
        silent: bool = False,
    ) -> Path | None:
        """Prints the summary, writes junit.xml and the page, and appends to the history. Returns the page.

        silent: prints nothing.
        """
        history = remember(self.history, evidence, summary)
        silent = silent or self.as_json
        return reports.publish(
            evidence, summary, without, quiet=self.quiet, silent=silent, history=history, against=against
        )

    def write_allure(self, out: Path, name: str) -> None:
        """Writes results of one of several releases into a folder of its own: the same scenario on two releases is no
        second try."""
        folder = None if self.allure is None else self.allure / name
        reports.show_allure(out, folder, quiet=self.quiet or self.as_json)

    def answer(self, document: object) -> None:
        """Prints a JSON document."""
        click.echo(json.dumps(document, indent=1))


def print_table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, as_json: bool) -> None:
    """Prints a table; as JSON, a list of objects whose keys are the headings."""
    if not as_json:
        reports.table(heading, rows)
        return
    keys = [name or "status" for name in heading]
    Output().answer([dict(zip(keys, row, strict=True)) for row in rows])


JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document, and nothing else, to standard output; all other lines go to standard error.",
)
_QUIET = click.option(
    "-q", "--quiet", is_flag=True, help="Print three lines: the word, why in one sentence, and where to look."
)
_SUMMARY = click.option(
    "--summary",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a summary in Markdown to FILE. Where GITHUB_STEP_SUMMARY is set, it is appended there in any case.",
)
_WEBHOOK = click.option(
    "--notify",
    metavar="URL",
    envvar=NOTIFY,
    help=f"POST the result to this address as JSON (reports/ci/README.md). Default: ${NOTIFY}. A failure is a warning.",
)


_ALLURE = click.option(
    "--allure",
    type=PATH,
    metavar="DIR",
    help="Write Allure results, too; DIR may have other results.",
    callback=lambda _context, _option, folder: _checked_folder(folder),
)


def _checked_folder(folder: Path | None) -> Path | None:
    """Refuses a folder that cannot be written before anything runs."""
    if folder is not None:
        may_be_written(folder, "--allure")
    return folder


def _checked_history(file: Path | None) -> Path | None:
    """Refuses a file that cannot be used before anything is played or judged."""
    if file is not None:
        check_past_runs(file)
    return file


HISTORY = click.option(
    "--history",
    type=PATH,
    metavar="FILE",
    callback=lambda _context, _option, file: _checked_history(file),
    help="SQLite file to which each judged run is appended; made where there is none. See `durability history`.",
)


def with_answer(command: Command) -> Command:
    """Adds --json and --quiet to a command that has an answer of its own; it receives them as `output`."""

    @wraps(command)
    def run_with_answer(*arguments: object, as_json: bool, quiet: bool, **options: object) -> Exit:
        return command(*arguments, output=Output(as_json=as_json, quiet=_exclusive(as_json, quiet)), **options)

    decorated: Command = _QUIET(JSON(run_with_answer))
    return decorated


def _exclusive(as_json: bool, quiet: bool) -> bool:
    """The value of --quiet, where --json does not exclude it."""
    if as_json and quiet:
        raise click.UsageError("--json and --quiet exclude each other")
    return quiet


def with_allure(command: Command) -> Command:
    """Adds the option --allure."""
    decorated: Command = _ALLURE(command)
    return decorated


def with_output(command: Command) -> Command:
    """Adds the options about the output of a command that judges; it receives them as `output`."""

    @wraps(command)
    def run_with_output(
        *arguments: object,
        as_json: bool,
        quiet: bool,
        summary: Path | None,
        notify: str | None,
        allure: Path | None,
        history: Path | None,
        **options: object,
    ) -> Exit:
        if summary is not None:
            _check_file(summary)
        if notify is not None:
            check_url(notify)
        output = Output(
            as_json=as_json,
            quiet=_exclusive(as_json, quiet),
            summary=summary,
            notify=notify,
            allure=allure,
            history=history,
        )
        return command(*arguments, output=output, **options)

    decorated: Command = run_with_output
    for option in (HISTORY, _ALLURE, _WEBHOOK, _SUMMARY, _QUIET, JSON):
        decorated = option(decorated)
    return decorated


def _check_file(file: Path) -> None:
    """BadInput, before anything is played, where the file cannot be written."""
    if file.is_dir() or not file.name:
        raise BadInput(f"--summary {file} is a folder; give the name of a file")
    if not file.absolute().parent.is_dir():
        raise BadInput(f"--summary {file}: there is no folder {file.absolute().parent}; make it, or give another file")
