"""The example with systemctl over ssh, on nodes behind an sshd of the test's own. `systemctl` and `sudo` are stand-ins:
they do to the cluster of the test what systemd does to the units of a machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from harness.model.exits import Exit
from harness.model.waiting import wait_for
from suites.attached.by_hand import BROKERS, CLUSTER_ID, MODULE, ByHand, free_ports
from suites.attached.playing import IN_TURN, ROOT, durability

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900), pytest.mark.usefixtures("as_it_was")]

EXAMPLE = Path(str(files("harness.clusters.attached").joinpath("examples/systemctl_over_ssh.toml")))
SSHD = "/usr/sbin/sshd"
# NODE says which machine it is: ssh sends it, where the name of the machine would differ.
SYSTEMCTL = """\
#!/bin/sh
node() { PYTHONPATH=__ROOT__ __PYTHON__ -m __MODULE__ __FOLDER__ "$1" "$NODE"; }
case "$*" in
"kill --signal=SIGKILL kafka.service") node kill ;;
"kill --signal=SIGSTOP kafka.service") node pause ;;
"kill --signal=SIGCONT kafka.service") node resume ;;
"stop kafka.service") node terminate ;;
"start kafka.service") node start ;;
"is-active --quiet kafka.service") node is-running || node is-frozen ;;
"show --value -p MainPID kafka.service") cat "__FOLDER__/node-$NODE/pid" ;;
*) echo "systemctl $*: not known" >&2; exit 1 ;;
esac
"""
SUDO = '#!/bin/sh\n[ "$1" = -n ] || exit 1\nshift\nexec "$@"\n'


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machines(cluster: ByHand, tmp_path: Path) -> Iterator[Path]:
    """Names kafka-1, kafka-2, ... that an ssh of the test's own reaches. The folder is for the front of PATH."""
    if not (Path(SSHD).exists() and shutil.which("ssh")):
        pytest.skip("no OpenSSH server on this machine")
    (port,) = free_ports(1)
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    given = {"ROOT": ROOT, "PYTHON": sys.executable, "MODULE": MODULE, "FOLDER": cluster.folder}
    text = SYSTEMCTL
    for word, value in given.items():
        text = text.replace(f"__{word}__", str(value))
    program(far / "systemctl", text)
    program(far / "sudo", SUDO)
    (tmp_path / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path / 'host'}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path / 'user.pub'}\nStrictModes no\nPasswordAuthentication no\nAcceptEnv NODE\n"
        f"SetEnv PATH={far}:{os.environ['PATH']}\n"
    )
    (tmp_path / "ssh.conf").write_text(
        f"Host *\n HostName 127.0.0.1\n Port {port}\n IdentityFile {tmp_path / 'user'}\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {tmp_path / 'known'}\n StrictHostKeyChecking accept-new\n HostKeyAlias all\n"
        + "".join(f"Host kafka-{node}\n SetEnv NODE={node}\n" for node in BROKERS)
    )
    program(near / "ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path / "ssh.conf"} "$@"\n')
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd looks for an empty folder
    log = (tmp_path / "sshd.log").open("wb")
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd.conf"], stdout=log, stderr=log)
    try:
        wait_for(
            lambda: subprocess.run([near / "ssh", "-o", "BatchMode=yes", "kafka-1", "true"], check=False).returncode,
            until=lambda code: code == 0,
            deadline_s=20,
            what="the ssh server",
        )
        yield near
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
        log.close()


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """The example, with the names of the machines."""
    file = tmp_path / "hooks.toml"
    words = "".join(f'[node.{node}]\nhost = "kafka-{node}"\n' for node in BROKERS)
    of_brokers = EXAMPLE.read_text().replace("\ndeadline_s", f"\nnodes = {list(BROKERS)}\ndeadline_s")
    file.write_text(of_brokers + words)
    return file


def test_the_example_over_ssh_breaks_and_restores_nodes(
    machines: Path, hooks: Path, cluster: ByHand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{machines}:{os.environ['PATH']}")
    arguments = ["run", IN_TURN, "--hooks", hooks, "--allow-faults", CLUSTER_ID, "--records", 30_000, "--tries", 1]
    code, output, errors = durability(cluster.bootstrap, tmp_path, *arguments, "--out", tmp_path / "out")
    assert code == Exit.PASS, output + errors
