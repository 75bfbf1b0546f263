"""Makes a runnable build of a variant: links to the release's jars, and copies of the jars with patched classes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.model.errors import BadInput, HarnessFailure
from suites.mutants.table import HERE, Variant

_TOOL_TIMEOUT_S: Final = 180
_MADE: Final = "MUTANT"  # written last


class Patcher:
    """Compiles `Patch.java` once against the release's own Javassist and applies variants with it."""

    def __init__(self, jars: tuple[Path, ...], work: Path) -> None:
        """jars: the class path of the release. work: an existing folder for all files that are made here.

        BadInput if there is no JDK, or if the release does not contain Javassist.
        """
        if not any(jar.name.startswith("javassist-") for jar in jars):
            raise BadInput("the release has no Javassist among its jars: use a release that has it, such as 4.3.1")
        self._jars = jars
        self._work = work
        self._libs = work / "release"
        self._libs.mkdir()
        _link(jars, self._libs)
        self._classes = work / "tool"
        self._classes.mkdir()
        command = [_jdk("javac"), "-d", str(self._classes), "-cp", f"{self._libs}/*", str(HERE / "Patch.java")]
        _run(command, "Patch.java does not compile")

    def build(self, variant: Variant) -> Path:
        """Builds a variant, if it was not built before, and returns the folder for `--kafka`.

        HarnessFailure if an edit does not apply exactly.
        """
        root = self._work / variant.name
        if (root / _MADE).exists():
            return root
        libs = root / "libs"
        libs.mkdir(parents=True)
        edits = root / "edits.json"
        edits.write_text(json.dumps(variant.edits), encoding="utf-8")
        tool = [_jdk("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{self._classes}:{self._libs}/*", "Patch"]
        patched = _run([*tool, str(edits), str(self._libs), str(libs)], f"{variant.name} cannot be built")
        _link([jar for jar in self._jars if not (libs / jar.name).exists()], libs)
        (root / _MADE).write_text(f"{variant.name}\n{variant.story}\n\n{patched}", encoding="utf-8")
        return root


def missing_jdk() -> str | None:
    """Why this machine cannot compile Java, with the remedy; None if it can. A JRE has `java` and no `javac`."""
    if _tool("javac") is not None:
        return None
    return "javac is not installed: install a JDK (17 or newer), or point JAVA_HOME to one"


def _tool(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", name) if home else None
    return str(inside) if inside is not None and inside.exists() else shutil.which(name)


def _jdk(name: str) -> str:
    found = _tool(name)
    if found is None:
        raise BadInput(missing_jdk() or f"the JDK of javac has no {name}: install a complete JDK (17 or newer)")
    return found


def _link(jars: list[Path] | tuple[Path, ...], folder: Path) -> None:
    for jar in jars:
        (folder / jar.name).symlink_to(jar.resolve())


def _run(command: list[str], failure: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise HarnessFailure(f"{failure}: {done.stderr.strip()}")
    return done.stdout
