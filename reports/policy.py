"""The content security policy of pages: only scripts of this package may run, and those that these load."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

_LOADED_BY_THEM: Final = "'strict-dynamic'"


@cache
def script(name: str) -> str:
    """A script of this package, by its path in it."""
    text = files("reports").joinpath(*name.split("/")).read_text(encoding="utf-8")
    if "</script" in text.lower():  # the browser would end the script there, and its digest would differ
        raise ValueError(f"{name} cannot be put into a page")
    return text


def policy(scripts: Sequence[str], *, loads: bool = False) -> str:
    """The content security policy: these scripts, and pictures beside the page. ECharts sets styles of elements.

    loads: they may load others. A digest cannot allow these, since browsers compare no digests of files from disk; nor
    'self', which would allow every file of the disk to markup as well.
    """
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in digests)
    own = "img-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}{' ' + _LOADED_BY_THEM if loads else ''}; {own}"
