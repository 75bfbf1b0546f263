"""The option --known of the commands that judge or show a judgement."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click

from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.known_findings import SHIPPED, read_known

Command = Callable[..., Exit]


def with_known(command: Command) -> Command:
    """Adds the option. The command receives the entries, read while the kinds of `--plugins` are known."""

    @wraps(command)
    def run_with_known(*arguments: object, known: str | None, **options: object) -> Exit:
        if known == "":
            raise BadInput(f"--known: '' names no file; give a TOML file, or the word {SHIPPED}")
        return command(*arguments, known=None if known is None else read_known(known), **options)

    add = click.option(
        "--known",
        metavar=f"FILE|{SHIPPED}",
        help="TOML file of accepted findings (reports/ci/README.md). They change no verdict, but the word and the exit "
        f"code. `{SHIPPED}` = open bugs of released Kafka.",
    )
    return add(run_with_known)
