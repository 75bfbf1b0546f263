"""Standard output and error as shells pass them: closed, full, a broken pipe, unable to show a character."""

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
module = types.ModuleType("harness.commands.gate")
def gate(options, progress):
    while True:
        progress.line("on and on")
module.gate = gate
sys.modules["harness.commands.gate"] = module
from harness.commands.main import main
main()
"""


def in_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a shell starts it, with redirections behind it. Its gate prints lines without an end."""
    return subprocess.run(
        ["bash", "-c", f'"$0" -c "$TALKER" {command}', sys.executable],
        cwd=ROOT,
        env={**os.environ, "TALKER": TALKER, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("what", ["list faults", "--help", "gate"])
@pytest.mark.parametrize(
    ("where", "said"),
    [
        (">&-", "standard output was closed before all output was written"),
        ("| true; exit ${PIPESTATUS[0]}", "standard output was closed before all output was written"),
        (">/dev/full", "standard output accepts no more (No space left on device)"),
    ],
)
def test_output_that_cannot_be_written_is_exit_3_with_one_sentence(what: str, where: str, said: str) -> None:
    done = in_shell(f"{what} {where}")
    assert (done.returncode, done.stderr.count("\n")) == (Exit.HARNESS, 1), done.stderr
    assert said in done.stderr


def test_an_unbuffered_output_is_recognized_as_closed_by_another_write() -> None:
    done = in_shell("--help | true; exit ${PIPESTATUS[0]}", PYTHONUNBUFFERED="1")
    assert done.returncode == Exit.HARNESS
    assert done.stderr == "durability: standard output was closed before all output was written\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("list faults 2>&-", Exit.PASS),
        ("gate --nope 2>&-", Exit.USAGE),
        ("gate --nope >&- 2>&-", Exit.USAGE),
        ("gate --nope 2>/dev/full", Exit.USAGE),
    ],
)
def test_without_standard_error_the_exit_code_stays(command: str, code: Exit) -> None:
    done = in_shell(command)
    assert (done.returncode, done.stderr) == (code, "")
    assert "durability:" not in done.stdout


@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_path_that_the_terminal_cannot_show_is_printed_with_escapes(encoding: dict[str, str]) -> None:
    done = in_shell("verify n\u00f6where", **encoding)
    assert done.returncode == Exit.USAGE
    assert "where; give an evidence bundle" in done.stderr
