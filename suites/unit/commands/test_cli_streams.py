"""Standard output and error as shells hand them over: closed, full, broken off, unable to show a character."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model.exits import Exit

ROOT = Path(__file__).parents[3]

TALKER = """
import sys, types
module = types.ModuleType("harness.run")
def gate(options, progress):
    while True:
        progress.line("on and on")
module.gate = gate
sys.modules["harness.run"] = module
from harness.commands.cli import main
main()
"""


def in_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a shell starts it, with what stands behind it for the shell; its gate does nothing but talk."""
    return subprocess.run(
        ["bash", "-c", f'"$0" -c "$TALKER" {command}', sys.executable],
        cwd=ROOT,
        env={**os.environ, "TALKER": TALKER, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("what", ["list faults", "--help", "gate"])
@pytest.mark.parametrize(
    ("where", "said"),
    [
        (">&-", "standard output was closed before everything was said"),
        ("| true; exit ${PIPESTATUS[0]}", "standard output was closed before everything was said"),
        (">/dev/full", "standard output takes no more (No space left on device)"),
    ],
)
def test_what_could_not_be_said_is_3_and_one_sentence(what: str, where: str, said: str) -> None:
    done = in_shell(f"{what} {where}")
    assert (done.returncode, done.stderr.count("\n")) == (Exit.HARNESS, 1), done.stderr
    assert said in done.stderr


def test_an_unbuffered_output_holds_nothing_back_and_is_known_by_another_try() -> None:
    done = in_shell("--help | true; exit ${PIPESTATUS[0]}", PYTHONUNBUFFERED="1")
    assert done.returncode == Exit.HARNESS
    assert done.stderr == "durability: standard output was closed before everything was said\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("list faults 2>&-", Exit.PASS),
        ("gate --nope 2>&-", Exit.USAGE),
        ("gate --nope >&- 2>&-", Exit.USAGE),
        ("gate --nope 2>/dev/full", Exit.USAGE),
    ],
)
def test_without_standard_error_the_code_is_left(command: str, code: Exit) -> None:
    done = in_shell(command)
    assert (done.returncode, done.stderr) == (code, "")
    assert "durability:" not in done.stdout


@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_path_that_the_terminal_cannot_show_is_said_all_the_same(encoding: dict[str, str]) -> None:
    done = in_shell("verify n\u00f6where", **encoding)
    assert done.returncode == Exit.USAGE
    assert "where; give an evidence bundle" in done.stderr
