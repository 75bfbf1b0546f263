"""Runs of the command line on a cluster that the harness did not start, and what is in that cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, TypedDict, Unpack

from harness.commands.gate import gate
from harness.commands.options import Attach, GateOptions, GateResult
from harness.evidence.verdicts import read_verdict
from harness.kafka.admin.addresses import addresses_of
from harness.kafka.admin.client import AdminView
from harness.kafka.admin.client_config import client_config
from harness.kafka.admin.reach import reach
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.model.hooks import read_hooks
from harness.model.verdict import Verdict
from suites.attached import by_hand
from suites.attached.by_hand import BROKERS, CLUSTER_ID, MODULE, RELEASE, ByHand

ROOT: Final = Path(__file__).parents[2]
KILLED, ALONE, IN_TURN, WIPED = (
    Path(__file__).with_name(f"{name}.toml") for name in ("killed", "alone", "in_turn", "wiped")
)

HOOK: Final = """
[{operation}]
command = "{by_hand} {operation} {{node}}"
inverse = "{by_hand} start {{node}}"
in_effect = "{by_hand} is-stopped {{node}}"
undone = "{by_hand} is-running {{node}}"
deadline_s = 90
"""
RATE_PER_S: Final = 400


class Options(TypedDict):
    """Of a run."""

    seed: int
    records: int


def hooks_of(cluster: ByHand, folder: Path) -> Path:
    """A file with hooks that kill and terminate the nodes of the cluster."""
    file = folder / "hooks.toml"
    command = f"env PYTHONPATH={ROOT} {sys.executable} -m {MODULE} {cluster.folder}"
    file.write_text("".join(HOOK.format(operation=name, by_hand=command) for name in ("kill", "terminate")))
    return file


def start(bootstrap: str, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Starts the command on the cluster at this address, in a working directory."""
    command = [sys.executable, "-c", "from harness.commands.main import main; main()", *map(str, arguments)]
    return subprocess.Popen(
        [*command, "--bootstrap", bootstrap],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def durability(bootstrap: str, folder: Path, *arguments: object) -> tuple[int, str, str]:
    """Runs it to its end: the exit code, the output and the errors."""
    with start(bootstrap, folder, *arguments) as process:
        output, errors = process.communicate()
        return process.returncode, output, errors


class _Quiet:
    def __call__(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...


def judged(
    cluster: ByHand,
    folder: Path,
    scenario: Path,
    hooks: Path,
    *,
    config_file: Path | None = None,
    negative_control: bool = False,
    **options: Unpack[Options],
) -> tuple[GateResult, Verdict]:
    """Plays a scenario within this process, where later judgements start faster. The evidence is in `folder`/out."""
    attach = Attach(
        bootstrap=cluster.bootstrap,
        config={} if config_file is None else client_config(config_file),
        config_file=config_file,
        hooks=read_hooks(hooks),
        allow_faults=CLUSTER_ID,
        rate_per_s=RATE_PER_S,
    )
    asked = GateOptions(kafka=RELEASE, scenarios=(scenario,), tries_max=1, out=folder / "out", attach=attach, **options)
    result = gate(asked, _Quiet(), negative_control=negative_control)
    return result, read_verdict(folder / "out" / scenario.stem)


def names(bootstrap: str, security: Security = PLAINTEXT) -> set[str]:
    """All topics and groups of the cluster."""
    with AdminView(reach(addresses_of(bootstrap), security).brokers, security=security) as admin:
        return {*admin.topic_names(), *admin.group_names()}


def down(cluster: ByHand) -> list[int]:
    """The brokers that do not run."""
    return [node for node in BROKERS if by_hand.state(cluster.node(node)) == "stopped"]
