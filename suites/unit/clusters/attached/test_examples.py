"""The shipped examples: a cluster can be given each of these files, and their scripts have no error of syntax."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from harness.model.hooks import OF_LINKS, check_hooks, read_hooks
from suites.unit.live_clusters import live

FOLDER = Path(str(files("harness.clusters.attached").joinpath("examples")))
EXAMPLES = sorted(FOLDER.glob("*.toml"))


def test_there_is_an_example_for_each_way_to_run_kafka() -> None:
    assert [file.stem for file in EXAMPLES] == ["chaos_mesh", "docker", "kubectl", "systemctl_over_ssh"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_is_accepted_for_a_cluster(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    hooks = read_hooks(file)
    check_hooks(hooks, live(combined=True, ids=tuple(hooks.words) or (1, 2, 3)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_can_stop_and_start_every_broker(file: Path) -> None:
    hooks = read_hooks(file)
    assert {"kill", "restart"} <= hooks.capabilities(tuple(hooks.words) or (1, 2, 3))


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda script: script.name)
def test_each_script_has_no_error_of_syntax(script: Path) -> None:
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_script_has_the_word_that_a_hook_calls(file: Path) -> None:
    hooks = read_hooks(file)
    called = set()
    for operation, hook in hooks.of.items():
        for part in ("command", "inverse", "in_effect", "undone"):
            words = shlex.split(getattr(hook, part))
            if words and words[0] == "sh":
                called.add((words[1].replace("{folder}", str(FOLDER)), words[2], operation))
    for script, word, operation in called:
        assert re.search(rf"^\s*{re.escape(word)}\)", Path(script).read_text(), re.MULTILINE), (script, word, operation)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_file_that_an_example_names_is_shipped(file: Path) -> None:
    text = file.read_text() + "".join(script.read_text() for script in FOLDER.glob(f"{file.stem}*.sh"))
    for name in re.findall(r"[\w/]+\.(?:ya?ml|sh)", text):
        assert (FOLDER / Path(name).name).is_file(), name


def test_links_are_operations_of_two_nodes() -> None:
    for file in EXAMPLES:
        for operation, hook in read_hooks(file).of.items():
            assert ("{src}" in hook.command or "{src_" in hook.command) == (operation in OF_LINKS), (file, operation)
