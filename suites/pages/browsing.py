"""A page in a real browser, with everything that it requested and every error that it reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

Scheme = Literal["light", "dark"]
DESKTOP: Final = (1400, 1000)
PHONE: Final = (390, 844)
SEVERE: Final = frozenset({"serious", "critical"})
# Chart texts lie on bands of many colours. axe sees only the colour of the page behind an SVG text.
_NOT_CHARTS: Final = {"exclude": [[".chart"]]}


class Opened:
    """An open page. requests: the addresses that it requested, itself first. errors: of its console and scripts."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.file = page, file
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("requestfailed", lambda request: self.errors.append(f"failed: {request.url}"))
        page.goto(file.absolute().as_uri())

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    @property
    def requested_elsewhere(self) -> list[str]:
        """Requests for anything that is not in the folder of the page."""
        folder = f"{self.file.absolute().parent.as_uri()}/"
        return [url for url in self.requests if not url.startswith(folder)]

    @property
    def text(self) -> str:
        """All that the page shows, in the order of the page, with white space as single spaces."""
        return " ".join(self.page.locator("body").inner_text().split())

    @property
    def scheme(self) -> str:
        """The colours that the page has: `dark` if its background is."""
        shade = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return "dark" if sum(map(int, re.findall(r"\d+", shade)[:3])) < 3 * 128 else "light"

    @property
    def scrolls_sideways(self) -> bool:
        """Whether the whole page is wider than the window. Tables may scroll in themselves."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    @property
    def nodes(self) -> int:
        """The number of elements."""
        return int(self.page.evaluate("document.getElementsByTagName('*').length"))

    def open_everything(self) -> None:
        """Opens every part that is closed, and waits until every timeline is drawn."""
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for timeline in self.page.locator(".timeline").all():
            timeline.scroll_into_view_if_needed()
            timeline.locator(".chart svg, .missing").first.wait_for()

    def barriers(self, *, contrast: bool = True) -> list[str]:
        """The rules that axe reports as serious or critical, with the first element of each.

        contrast: whether it compares colours, which takes seconds for thousands of elements.
        """
        from axe_playwright_python.sync_playwright import Axe

        context = _NOT_CHARTS if self.page.locator(".chart").count() else None
        options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": contrast}}}
        found = Axe().run(self.page, context=context, options=options).response["violations"]
        return [
            f"{one['id']} ({one['impact']}), {len(one['nodes'])} times: {one['nodes'][0]['html'][:300]}"
            for one in found
            if one["impact"] in SEVERE
        ]

    def shoot(self, to: Path) -> Path:
        """A picture of the whole page, for a person to look at."""
        self.page.screenshot(path=to, full_page=True)
        return to


@contextmanager
def opened(
    browser: Browser, file: Path, *, scheme: Scheme = "light", size: tuple[int, int] = DESKTOP
) -> Iterator[Opened]:
    """Opens a file in a new window; closes it at the end."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    try:
        yield Opened(context.new_page(), file)
    finally:
        context.close()
