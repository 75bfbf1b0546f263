"""The entry point as a process: signals, broken libraries and too little memory have their exit codes, and never 1."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model.exits import Exit

ROOT = Path(__file__).parents[3]
MAIN = "from harness.commands.main import main; main()"
# A gate that only waits. It replaces the module, so that no library is imported.
WAITING = """
import sys, types, time
module = types.ModuleType("harness.commands.gate")
def gate(options, progress):
    try:
        print("on", flush=True)
        time.sleep(60)
    finally:
        print("healed", flush=True)
module.gate = gate
sys.modules["harness.commands.gate"] = module
from harness.commands.main import main
main()
"""
# A library that is being imported for a long time.
SLOW = """
import time
print("importing", flush=True)
time.sleep(60)
"""


def library(folder: Path, name: str, source: str) -> dict[str, str]:
    """The environment of a process that imports this in the place of a library."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "TMPDIR": str(folder), "CI": "true"}


def started(code: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_default_signals,
    )


def _default_signals() -> None:
    """A test runner that was started with nohup, or in the background of a shell, passes on ignored signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=["INT", "TERM", "HUP"]
)


@SIGNALS
def test_a_signal_unwinds_the_gate_and_has_its_code(number: signal.Signals, code: int) -> None:
    with started(WAITING, "gate") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "on\n"
        child.send_signal(number)
        out, error = child.communicate(timeout=300)
    assert (out, child.returncode) == ("healed\n", code)
    assert "Traceback" not in error


@SIGNALS
def test_a_signal_while_libraries_are_imported_has_its_code(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with started(MAIN, "gate", env=library(tmp_path, "click", SLOW)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "importing\n"
        child.send_signal(number)
        _, error = child.communicate(timeout=300)
    assert child.returncode == code
    assert len(error.splitlines()) == 1
    assert error.startswith("durability: ")


def test_a_signal_that_a_library_turns_into_an_error_of_its_own_is_still_a_signal(tmp_path: Path) -> None:
    source = f"try:\n{''.join(f'    {line}' + chr(10) for line in SLOW.strip().splitlines())}"
    source += "except BaseException as any_error:\n    raise ImportError('failed to import') from any_error\n"
    with started(MAIN, "gate", env=library(tmp_path, "click", source)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "importing\n"
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=300)
    assert (child.returncode, error) == (130, "durability: interrupted; everything that was started is stopped\n")


def test_ctrl_c_before_signals_are_handled_is_no_traceback(tmp_path: Path) -> None:
    """Python's own modules are imported first; one of them is slow here."""
    code = f"import sys; sys.modules.pop('tempfile', None); {MAIN}"
    (tmp_path / "tempfile.py").write_text(SLOW)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    with started(code, "gate", env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "importing\n"
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=300)
    assert (child.returncode, error) == (130, "durability: interrupted; nothing was started\n")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "raise ImportError('libopenblas.so: cannot open\\nshared object file')",
            "ImportError: libopenblas.so: cannot",
        ),
        ("raise SystemError('initialization failed')", "(SystemError: initialization failed)"),
        ("raise AttributeError()", "(AttributeError: )"),
        ("import not_installed_at_all", "(ModuleNotFoundError: No module named 'not_installed_at_all')"),
        ("this is no Python", "(SyntaxError: invalid syntax"),
        ("raise MemoryError", "the memory of this process does not suffice"),
        ("raise SystemExit(1)", "SystemExit: 1"),
    ],
)
def test_a_broken_library_is_exit_3_with_one_sentence_and_a_traceback(tmp_path: Path, source: str, said: str) -> None:
    env = library(tmp_path, "numpy", source)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "gate"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == Exit.HARNESS
    (line,) = done.stderr.splitlines()
    assert said in line
    (kept,) = tmp_path.glob("durability-traceback-*.txt")
    assert line.endswith(f"traceback: {kept}")
    assert "Traceback" in kept.read_text()


def test_too_little_memory_is_not_the_code_of_a_fail() -> None:
    limited = ["bash", "-c", 'ulimit -v 120000; exec "$0" "$@"', sys.executable, "-c", MAIN, "list", "faults"]
    done = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode not in (Exit.PASS, Exit.FAIL)


def test_the_entry_point_imports_no_library() -> None:
    code = "import sys, harness.commands.main, harness.commands.exit_codes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    foreign = {name.partition(".")[0] for name in done.stdout.split()} - {
        *sys.stdlib_module_names,
        "harness",
        "__main__",
        "sitecustomize",  # of Debian's Python
    }
    assert {name for name in foreign if not name.startswith("_")} == set()


def test_the_installed_command_is_this_entry_point() -> None:
    assert 'durability = "harness.commands.main:main"' in (ROOT / "pyproject.toml").read_text()
