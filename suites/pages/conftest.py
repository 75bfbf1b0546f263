"""The browser of this suite: Debian's Chromium, driven by Playwright. Playwright's own browsers are not downloaded."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from fixtures.plugin import MissingCapability

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PROGRAMS: Final = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser(missing_capability: MissingCapability) -> Iterator[Browser]:
    """One browser for all tests; each opens windows of its own."""
    if importlib.util.find_spec("playwright") is None or importlib.util.find_spec("axe_playwright_python") is None:
        missing_capability("Playwright and axe are not installed: pip install 'kafka-durability[pages]'")
    program = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        missing_capability(f"there is no browser ({', '.join(_PROGRAMS)}): apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield started
        started.close()
