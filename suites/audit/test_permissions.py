"""The levels of permission: what `privileges` prints is enough for its level, and what is missing is stated.

The commands are run as they are printed, by Kafka's own tool.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.nodes.jvm_cluster import JvmCluster
from harness.kafka.admin.client import AdminView
from harness.kafka.release.java import find_java
from harness.kafka.settings.node_settings import properties_text
from harness.model.scenario.scenario import ClusterShape, Topic
from harness.model.waiting import wait_for
from suites.audit.auditing import AuditorProcess, asked, auditing, controllers
from suites.gate.cluster_probes import observer, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

COMMAND_S = 60.0  # a command is a JVM of its own: 2 s on an idle machine

USER, WORD = "auditor", "a-word"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGINS = f'{PLAIN} required username="admin" password="{WORD}" user_admin="{WORD}" user_{USER}="{WORD}";'
# Clients and controllers demand a login; the other listeners let everyone do everything.
SHAPE = ClusterShape(
    brokers=1,
    config={
        "listener.security.protocol.map": "REPL:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,CLIENT:SASL_PLAINTEXT,"
        "ISOLATED:PLAINTEXT,DIRECT:PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": LOGINS,
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": LOGINS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    },
)
WEEK, HOUR = "604800000", "3600000"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Iterator[JvmCluster]:
    with start(tmp_path_factory.mktemp("runs"), SHAPE, backend=backend) as started:
        yield started


@pytest.fixture
def admin(cluster: JvmCluster) -> Iterator[AdminView]:
    with observer(cluster) as view:
        yield view


def options(cluster: JvmCluster, folder: Path) -> tuple[str, ...]:
    file = folder / "client.properties"
    login = f'{PLAIN} required username="{USER}" password="{WORD}";'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    file.write_text(properties_text(settings))
    return "--bootstrap", cluster.bootstrap(), "--command-config", str(file)


def grant(cluster: JvmCluster, level: str, folder: Path) -> None:
    """Runs the commands of a level one by one, with the program in the place of its script."""
    printed = asked(
        *("privileges", "--level", level, "--principal", f"User:{USER}", "--bootstrap", cluster.bootstrap_direct()),
        *("--groups", "readers"),
    ).stdout
    java = find_java(cluster.release.version).executable
    classes = ":".join(map(str, cluster.release.classpath))
    script = folder / "kafka-acls.sh"
    script.write_text(
        f'#!/bin/sh\nexec {shlex.quote(str(java))} -cp {shlex.quote(classes)} org.apache.kafka.tools.AclCommand "$@"\n'
    )
    script.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    commands = [line for line in printed.splitlines() if not line.startswith("#")]
    assert commands, printed
    for command in commands:
        run(command, env, folder / "kafka-acls.log")


def run(command: str, env: Mapping[str, str], log: Path) -> None:
    """Runs one command of a shell, which has COMMAND_S. A failure shows what it has printed."""
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                ["sh", "-c", command], env=env, stdout=output, stderr=output, timeout=COMMAND_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    ended = f"did not end in {COMMAND_S:g} s" if code is None else f"ended with {code}"
    assert code == 0, f"{command} {ended}, and printed last: {log.read_text('utf-8', 'replace')[-2000:] or 'nothing'}"


def covering(auditor: AuditorProcess, *sources: str) -> dict[str, Any]:
    """The vitals as soon as these sources have answered."""
    found: dict[str, Any] = wait_for(
        lambda: auditor.status()["vitals"],
        until=lambda vitals: set(sources) <= set(vitals["covered_now"]),
        deadline_s=30,
        what=f"{sources} to be covered",
        interval_s=0.5,
    )
    return found


def test_each_level_sees_what_it_says(cluster: JvmCluster, admin: AdminView, tmp_path: Path) -> None:
    admin.create_topics([Topic(name="kept", partitions=1, replicas=1, config={"min.insync.replicas": "1"})])
    given = options(cluster, tmp_path)
    with auditing(tmp_path, *given, name="nothing") as auditor:
        missing = auditor.row("started")["not_covered"]
        assert "give it DESCRIBE_CONFIGS on the cluster" in missing["settings"]
        assert auditor.status()["vitals"]["partitions"] == 0

    grant(cluster, "observe", tmp_path)
    with auditing(tmp_path, *given, "--groups", "readers", name="observe") as auditor:
        vitals = covering(auditor, "offsets", "settings", "groups")
        assert (vitals["partitions"], vitals["forbidden"]) == (1, [])
        admin.alter_topic_config("kept", {"retention.ms": WEEK})
        admin.alter_topic_config("kept", {"retention.ms": HOUR})
        auditor.row("opened", rule="setting_weakened")
    refused = asked(*given, *controllers(cluster), "--db", str(tmp_path / "early"))
    assert (refused.returncode, "this client needs CLUSTER_ACTION on the cluster" in refused.stderr) == (2, True)

    grant(cluster, "controller", tmp_path)
    with auditing(tmp_path, *given, *controllers(cluster), "--groups", "readers", name="controller") as auditor:
        admin.alter_topic_config("kept", {"retention.ms": WEEK})
        admin.alter_topic_config("kept", {"retention.ms": HOUR})
        auditor.row("opened", rule="setting_weakened")
        vitals = covering(auditor, "metadata", "offsets", "replicas", "settings", "groups", "transactions")
        assert vitals["refusals"] == {}
