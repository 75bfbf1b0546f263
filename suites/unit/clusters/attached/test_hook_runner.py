"""Hooks are run, waited for, noted and undone, also when the harness is killed. The commands are real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from harness.clusters.attached.hook_runner import Done, HookRunner
from harness.model.errors import HarnessFailure, HarnessTimeout
from harness.model.hooks import read_hooks
from harness.model.waiting import wait_for

WAIT_S = 20.0
# A node is down while its file is there.
HOOKS = """
[kill]
command = "sh -c 'echo killing {node} && touch down-{node}'"
inverse = "rm -f down-{node}"
in_effect = "test -e down-{node}"
undone = "test ! -e down-{node}"
deadline_s = 5
"""


def changed(was: str, now: str) -> str:
    assert was in HOOKS
    return HOOKS.replace(was, now)


def runner(folder: Path, text: str = HOOKS) -> HookRunner:
    file = folder / "hooks.toml"
    file.write_text(text)
    return HookRunner(read_hooks(file), folder / "hooks.log")


def kill(node: int) -> Done:
    return Done(f"kill of node {node}", "kill", {"node": str(node)})


def down(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("down-*"))


def test_what_a_hook_does_is_left_until_its_command_says_that_it_is_undone(tmp_path: Path) -> None:
    hooks = runner(tmp_path)
    hooks.apply(kill(2))
    assert (down(tmp_path), hooks.left) == (["down-2"], ("kill of node 2",))
    assert not hooks.is_undone("kill of node 2")
    hooks.undo("kill of node 2")
    hooks.await_undone("kill of node 2")
    assert (down(tmp_path), hooks.left) == ([], ())
    hooks.undo("kill of node 2")  # which is undone
    assert hooks.close() == []


def test_commands_and_their_output_are_noted(tmp_path: Path) -> None:
    hooks = runner(tmp_path)
    hooks.apply(kill(2))
    hooks.close()
    lines = hooks.log.read_text().splitlines()
    assert any("kill of node 2, command (" in line and "touch down-2" in line for line in lines)
    assert "    killing 2" in lines
    assert any("kill of node 2, inverse (" in line for line in lines)


def test_closing_undoes_everything_the_last_first(tmp_path: Path) -> None:
    hooks = runner(tmp_path, changed("rm -f down-{node}", "sh -c 'echo {node} >> order; rm -f down-{node}'"))
    for node in (1, 2, 3):
        hooks.apply(kill(node))
    assert hooks.close() == []
    assert down(tmp_path) == []
    assert (tmp_path / "order").read_text().split() == ["3", "2", "1"]


def test_a_command_that_fails_is_an_error_and_is_undone_all_the_same(tmp_path: Path) -> None:
    hooks = runner(tmp_path, changed("touch down-{node}", "touch down-{node} && echo no such node && exit 3"))
    with pytest.raises(
        HarnessFailure, match=r"the hook's command for the kill of node 2 failed \(exit code 3: no such"
    ):
        hooks.apply(kill(2))
    assert hooks.left == ("kill of node 2",)
    assert hooks.close() == []
    assert down(tmp_path) == []


def test_a_command_without_an_effect_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    hooks = runner(tmp_path, changed(" && touch down-{node}", "").replace("deadline_s = 5", "deadline_s = 0.5"))
    with pytest.raises(
        HarnessTimeout, match=r"waited 0.5 s for the kill of node 2 to have an effect; the hook's in_eff"
    ):
        hooks.apply(kill(2))
    assert hooks.close() == []


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    text = changed("touch down-{node}", "sleep 60 & echo $! > child; wait").replace(
        "deadline_s = 5", "deadline_s = 0.5"
    )
    hooks = runner(tmp_path, text)
    with pytest.raises(HarnessTimeout, match="it did not end in time"):
        hooks.apply(kill(2))
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: runs(child), until=lambda still: not still, deadline_s=WAIT_S, what="the child to end")
    hooks.close()


def test_a_command_may_leave_a_process_that_holds_its_output(tmp_path: Path) -> None:
    """As a script does that starts a broker in the background."""
    hooks = runner(tmp_path, changed("rm -f down-{node}", "sh -c 'rm -f down-{node}; sleep 30 & echo $! > child'"))
    hooks.apply(kill(2))
    began_s = time.monotonic()
    assert hooks.close() == []
    assert time.monotonic() - began_s < 10
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_what_cannot_be_undone_is_named(tmp_path: Path) -> None:
    hooks = runner(tmp_path, changed("rm -f down-{node}", "true").replace("deadline_s = 5", "deadline_s = 0.5"))
    hooks.apply(kill(2))
    (said,) = hooks.close()
    assert "waited 0.5 s for the kill of node 2 to be undone" in said
    assert "kill of node 2: NOT undone; run this: true" in hooks.log.read_text()


def test_a_node_that_returns_by_itself_is_only_waited_for(tmp_path: Path) -> None:
    text = changed('inverse = "rm -f down-{node}"', "returns_by_itself = true")
    hooks = runner(tmp_path, text.replace("touch down-{node}", "touch down-{node} && (sleep 1; rm down-{node}) &"))
    hooks.apply(kill(2))
    hooks.undo("kill of node 2")
    hooks.await_undone("kill of node 2")
    assert down(tmp_path) == []
    assert hooks.close() == []


# --- a harness that is killed -----------------------------------------------------------------------------------------

_HARNESS = """
    import sys, time
    from pathlib import Path
    from harness.clusters.attached.hook_runner import Done, HookRunner
    from harness.model.hooks import read_hooks
    folder = Path(sys.argv[1])
    hooks = HookRunner(read_hooks(folder / "hooks.toml"), folder / "hooks.log")
    hooks.apply(Done("kill of node 1", "kill", {"node": "1"}))
    hooks.apply(Done("kill of node 2", "kill", {"node": "2"}))
    hooks.undo("kill of node 1")
    hooks.await_undone("kill of node 1")
    (folder / "ready").touch()
    time.sleep(600)
"""


def killed_harness(folder: Path, text: str, until: str) -> None:
    """Runs a harness with these hooks until a file is there, and kills it."""
    (folder / "hooks.toml").write_text(text)
    harness = subprocess.Popen([sys.executable, "-c", textwrap.dedent(_HARNESS), str(folder)])
    try:
        wait_for((folder / until).exists, until=bool, deadline_s=WAIT_S, what=f"{until} of the harness")
    finally:
        harness.kill()
        harness.wait()


def logged(folder: Path, text: str) -> None:
    log = folder / "hooks.log"
    wait_for(lambda: text in log.read_text(), until=bool, deadline_s=WAIT_S, what=f"{text!r} in the log of the hooks")


def test_after_sigkill_what_is_left_is_undone_and_nothing_else(tmp_path: Path) -> None:
    killed_harness(tmp_path, HOOKS, "ready")
    logged(tmp_path, "kill of node 2: undone")
    assert down(tmp_path) == []
    assert "kill of node 1: the harness has ended" not in (tmp_path / "hooks.log").read_text()


def test_after_sigkill_a_command_that_still_runs_takes_no_effect(tmp_path: Path) -> None:
    late = changed("touch down-{node}", "echo $$ > pid && touch ran && sleep 60 && touch down-{node}")
    killed_harness(tmp_path, late, "ran")
    logged(tmp_path, "kill of node 1: undone")
    assert not runs(int((tmp_path / "pid").read_text()))
    assert down(tmp_path) == []


def test_after_sigkill_an_inverse_that_fails_is_tried_again(tmp_path: Path) -> None:
    """As when the host of a node cannot be reached for a moment."""
    again = changed("rm -f down-{node}", "sh -c 'test -e tried-{node} && rm -f down-{node}; touch tried-{node}'")
    killed_harness(tmp_path, again, "down-1")
    logged(tmp_path, "kill of node 1: undone")
    assert down(tmp_path) == []


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
