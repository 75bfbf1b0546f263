"""The other tests of this suite can fail: each fault of a page that they look for is found in a page that has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from suites.pages.browsing import PHONE, Opened, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FINE = "<h1>title</h1><main><p>some words</p></main>"


def _written(folder: Path, body: str) -> Path:
    html = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    (folder / "index.html").write_text(f"{html}<title>t</title><body>{body}</body></html>", encoding="utf-8")
    return folder / "index.html"


def _found(page: Opened) -> list[str]:
    """The faults of a page, by the words of the tests of pages."""
    page.page.wait_for_load_state("networkidle")
    said = {
        "error": bool(page.errors),
        "request": len(page.requests) > 1,
        "elsewhere": bool(page.requested_elsewhere),
        "barrier": bool(page.barriers()),
        "sideways": page.scrolls_sideways,
    }
    return [word for word, holds in said.items() if holds]


@pytest.mark.parametrize(
    ("added", "faults"),
    [
        ("", []),
        ("<script>console.error('no')</script>", ["error"]),
        ("<script>console.warn('no')</script>", ["error"]),
        ("<script>console.log('yes')</script>", []),
        ("<script>throw new Error('no')</script>", ["error"]),
        ("<script src='beside.js'></script>", ["request"]),
        ("<script src='missing.js'></script>", ["error", "request"]),
        ("<script src='../beside.js'></script>", ["error", "request", "elsewhere"]),
        ("<script>fetch('http://127.0.0.1:9/x').catch(() => 0)</script>", ["error", "request", "elsewhere"]),
        (
            "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw=' width=9 height=9>",
            ["barrier"],
        ),
        ("<p style='color: #999; background: #fff'>faint words</p>", ["barrier"]),
        ("<p style='width: 600px'>wide words</p>", ["sideways"]),
        ("<div style='overflow-x: auto' tabindex=0><p style='width: 600px'>words</p></div>", []),
    ],
)
def test_a_fault_of_a_page_is_found(browser: Browser, tmp_path: Path, added: str, faults: list[str]) -> None:
    (tmp_path / "beside.js").write_text("1", encoding="utf-8")
    with opened(browser, _written(tmp_path, _FINE + added), size=PHONE) as page:
        assert _found(page) == faults


def test_the_colours_of_a_page_are_seen(browser: Browser, tmp_path: Path) -> None:
    style = "<style>@media (prefers-color-scheme: dark) { body { background: #123 } }</style>"
    path = _written(tmp_path, f"<body style='background-color: #eee'>{_FINE}")
    with opened(browser, path, scheme="dark") as page:
        assert page.scheme == "light"  # it has no dark colours
    path = _written(tmp_path, style + _FINE)
    with opened(browser, path, scheme="dark") as page:
        assert page.scheme == "dark"
