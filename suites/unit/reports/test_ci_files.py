"""The ready files for CI systems: valid by the schemas of these systems, with steps that a shell and our CLI accept."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import reports
from harness.commands import cli, doctor
from harness.commands.options import GateOptions
from harness.commands.output import Output
from harness.model.exits import Exit

FOLDER = Path(reports.__file__).parent / "ci"
FILES = ("github.yml", "gitlab.yml", "Jenkinsfile")


def steps(name: str) -> list[str]:
    """The shell scripts of a file, each as its system runs it."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name == "Jenkinsfile":
        blocks = re.findall(r"sh '''\n(.*?)'''", text, re.DOTALL)
        return [*blocks, *re.findall(r"sh '([^'\n]+)'", text)]
    document = YAML(typ="safe").load(text)
    if name == "github.yml":
        return [step["run"] for job in document["jobs"].values() for step in job["steps"] if "run" in step]
    jobs = [job for job in document.values() if isinstance(job, dict) and "script" in job]
    return ["\n".join([*job.get("before_script", []), *job["script"]]) for job in jobs]


def commands(name: str) -> Iterator[list[str]]:
    """The arguments of each call of `durability`."""
    for step in steps(name):
        for line in step.replace("\\\n", " ").splitlines():
            if re.match(r"\s*durability ", line):
                words = shlex.split(line)
                yield words[1 : words.index("||")] if "||" in words else words[1:]


@pytest.mark.parametrize(
    ("name", "schema"), [("github.yml", "vendor.github-workflows"), ("gitlab.yml", "vendor.gitlab-ci")]
)
def test_a_file_is_valid_by_the_schema_of_its_system(tmp_path: Path, name: str, schema: str) -> None:
    def check(file: Path) -> int:
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert check(FOLDER / name) == 0
    broken = tmp_path / name
    broken.write_text((FOLDER / name).read_text(encoding="utf-8").replace("timeout", "tmeout", 1) + "\njobs: 7\n")
    assert check(broken) != 0


def unclosed(pipeline: str) -> int:
    """How many braces of a pipeline are not closed; -1 if one is closed twice."""
    text = re.sub(r"'''.*?'''", "", pipeline, flags=re.DOTALL)
    text = re.sub(r"'[^'\n]*'|//.*", "", text)
    depth = 0
    for brace in re.findall(r"[{}()]", text):
        depth += 1 if brace in "{(" else -1
        if depth < 0:
            return -1
    return depth


def test_the_braces_of_the_pipeline_are_closed() -> None:
    text = (FOLDER / "Jenkinsfile").read_text(encoding="utf-8")
    assert text.count("{") > 10
    assert unclosed(text) == 0
    assert unclosed(text.replace("}", "", 1)) == 1
    assert unclosed(text + "}") == -1


@pytest.mark.parametrize("name", FILES)
def test_the_steps_are_shell_scripts(name: str) -> None:
    found = steps(name)
    assert len(found) >= 2
    for step in found:
        subprocess.run(["bash", "-n"], input=step, text=True, check=True)
    assert subprocess.run(["bash", "-n"], input="if [", text=True, check=False, stderr=subprocess.DEVNULL).returncode


@pytest.mark.parametrize("name", FILES)
def test_the_command_line_accepts_what_the_steps_call(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GateOptions] = []

    def gate(options: GateOptions, output: Output) -> Exit:
        asked.append(options)
        return Exit.PASS

    monkeypatch.setattr(cli, "_gate", gate)
    monkeypatch.setattr(doctor, "examine", list)
    monkeypatch.chdir(tmp_path)
    called = list(commands(name))
    assert [words[0] for words in called] == ["doctor", "gate"]
    for words in called:
        assert cli.invoke(words) is Exit.PASS
    assert [options.kafka for options in asked] == ["core/build/distributions"]
    assert asked[0].out == Path("durability-out/gate")
    assert cli.invoke([*called[1], "--no-such-option"]) is Exit.USAGE


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("code", [0, 1, 3, 10])
def test_the_step_of_the_gate_ends_as_the_gate_does(name: str, code: int, tmp_path: Path) -> None:
    """Run as the systems run it: GitHub and Jenkins end at the first error (-e), and so does GitLab."""
    (step,) = [one for one in steps(name) if "durability gate" in one]
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool, body in (
        ("durability", f'[ "$1" = gate ] && echo "$@" > called && exit {code}; exit 2'),
        (
            "python",
            "mkdir -p .durability/bin; ln -s /bin/true .durability/bin/pip",
        ),
        ("apt-get", "exit 0"),
    ):
        (tools / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tools / tool).chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin", "DURABILITY_PACKAGE": "kafka-durability[spark]"}
    ran = subprocess.run(["bash", "-e"], input=step, text=True, cwd=tmp_path, env=env, check=False)
    assert ran.returncode == code
    assert "--kafka core/build/distributions" in (tmp_path / "called").read_text()


@pytest.mark.parametrize("name", FILES)
def test_what_is_kept_is_what_a_gate_writes(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert "durability-out/gate/junit.xml" in text
    assert {"github.yml": "if: always()", "gitlab.yml": "when: always", "Jenkinsfile": "always {"}[name] in text
