"""The command `open`: the review page of the last run, or of a given one, in the browser of this machine."""

from __future__ import annotations

import os
import platform
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from harness.commands.options import OUT_DEFAULT
from harness.commands.output import JSON, Output
from harness.evidence.layout import PAGE, REPORT
from harness.model.errors import BadInput
from harness.model.exits import Exit


@click.command("open")
@click.argument("out", metavar="[BUNDLE|OUT]", type=click.Path(path_type=Path), required=False)
@JSON
def open_(out: Path | None, as_json: bool) -> Exit:
    """Open the review page of a run in a browser, and print its path. Without OUT: the last one in durability-out."""
    page = page_in(out)
    if not as_json:
        click.echo(str(page))
    opened = open_page(page)
    if as_json:
        Output().answer({"page": str(page), "opened": opened})
    if not opened:
        click.echo("no browser could be opened here: open this file in one", err=True)
    return Exit.PASS


def page_in(out: Path | None) -> Path:
    """The page of an --out folder or bundle; without one, the newest page in durability-out.

    BadInput if there is none.
    """
    if out is not None:
        page = out / REPORT / PAGE
        if not page.is_file():
            raise BadInput(f"{page} does not exist; write it with: durability report {out}")
        return page
    pages = [path for path in OUT_DEFAULT.glob(f"*/{REPORT}/{PAGE}") if path.is_file()]
    if not pages:
        raise BadInput(f"there is no report in {OUT_DEFAULT}; give the folder of a run, or start one: durability gate")
    return max(pages, key=lambda path: path.stat().st_mtime)


def open_page(page: Path, browse: Callable[[str], bool] = webbrowser.open) -> bool:
    """Opens a page in a browser. False where there is no display, or no browser."""
    if not _has_display():
        return False  # a browser for terminals would take this one
    try:
        return browse(page.absolute().as_uri())
    except webbrowser.Error:
        return False


def _has_display() -> bool:
    if platform.system() != "Linux":
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
