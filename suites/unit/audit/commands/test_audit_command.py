"""`durability audit` on the command line: refusals in one sentence, and a process without large libraries."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import cli
from harness.model.exits import Exit
from suites.unit.audit.queries.database_examples import database
from suites.unit.audit.service.vitals_examples import VITALS
from suites.unit.commands.test_main import MAIN, SLOW, library
from suites.unit.model.history.logs import TOPIC, partition, topic

ROOT = Path(__file__).parents[4]
LARGE = ("pyspark", "pyarrow", "pydantic", "numpy", "pandas", "rich", "matplotlib", "confluent_kafka", "jinja2")
# Imports what a running auditor has, and prints the large libraries among it.
RUNNING = f"""
import sys
sys.argv = ["durability", "audit", "privileges"]
from harness.commands import main
main._run()
import harness.audit.service.running, harness.audit.alarms.metrics
from harness.audit.rules.rule import rule_classes
rule_classes()
print("large:", sorted(set({LARGE!r}) & set(sys.modules)))
"""


def test_the_process_of_an_auditor_has_no_large_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNNING], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "large: []"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit"], "Missing option '--bootstrap HOST:PORT'"),
        (["audit", "--bootstrap", "h"], "--bootstrap 'h': the address 'h' has no port"),
        (["audit", "--bootstrap", "h:1", "--controllers", "c", "--metadata-dir", "d"], "exclude each other"),
        (["audit", "--bootstrap", "h:1", "--budget", "cpu=x"], "--budget 'cpu=x': 'x' is no value of cpu"),
        (["audit", "--bootstrap", "h:1", "--rules", "nowhere"], "cannot be read"),
        (["audit", "--bootstrap", "h:1", "--command-config", "nowhere"], "--command-config nowhere cannot be read"),
        (["audit", "--bootstrap", "h:1", "--topics", ","], "--topics names nothing"),
        (["audit", "--bootstrap", "h:1", "--metrics", "70000"], "is not in the range"),
        (["audit", "--bootstrap", "h:1", "--webhook", "ftp://h"], "--webhook: the address is not one of http or https"),
        (["audit", "--bootstrap", "h:1", "--db", "FILE"], "--db FILE cannot be written (File exists)"),
        (["audit", "--bootstrap", "h:1", "status"], "--bootstrap stands behind status"),
        (["audit", "status", "--db", "nowhere"], "nowhere has no audit.sqlite"),
        (["audit", "explain", "orders", "--db", "nowhere"], "'orders' is no partition"),
        (["audit", "privileges", "--level", "root"], "--level"),
        (["audit", "selftest"], "Missing option '--bootstrap HOST:PORT'"),
        (["audit", "selftest", "--bootstrap", "h"], "the address 'h' has no port"),
        (["audit", "launch"], "No such command"),
    ],
)
def test_a_refused_command_is_exit_2_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "FILE").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(arguments) is Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_status_and_explain_print_what_the_database_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(database(tmp_path, topic(), partition(), vitals=VITALS))
    assert cli.invoke(["audit", "status", "--db", folder]) is Exit.PASS
    assert capsys.readouterr().out.startswith("cluster C at h:9092: no auditor runs")
    assert cli.invoke(["audit", "explain", f"{TOPIC}-0", "--db", folder]) is Exit.PASS
    assert capsys.readouterr().out.startswith(f"{TOPIC}-0 ")
    assert cli.invoke(["audit", "privileges", "--level", "read"]) is Exit.PASS
    assert "kafka-acls.sh" in capsys.readouterr().out
    assert cli.invoke(["audit", "privileges", "--level", "read", "--json"]) is Exit.PASS
    answer = json.loads(capsys.readouterr().out)
    assert answer["level"] == "read"
    assert answer["commands"]
    assert all(line.startswith("kafka-acls.sh ") for line in answer["commands"])
    assert any("metadata log" in line for line in answer["not_seen"])


def test_the_entry_point_runs_the_command_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.commands.main", "audit"]
    env_less = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 60, "check": False}
    helped = subprocess.run([*command, "--help"], **env_less)  # type: ignore[call-overload]
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "Usage: durability audit [OPTIONS]" in helped.stdout
    refused = subprocess.run([*command, "status", "--db", str(tmp_path)], **env_less)  # type: ignore[call-overload]
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("durability: ")


# Signals before the auditor watches


def default_signals() -> None:
    """A test runner that was started with nohup passes on ignored signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def auditor(*arguments: str, code: str = "", env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    run = ["-c", code] if code else ["-m", "harness.commands.main"]
    return subprocess.Popen(
        [sys.executable, *run, "audit", *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_waits_for_brokers_ends_it_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with auditor("--bootstrap", address, "--db", str(tmp_path / "db"), "--json") as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGHUP)  # it reads --rules again, and ends nothing
                process.send_signal(number)
                out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(out)["event"] == "ended"
    assert [path.name for path in (tmp_path / "db").iterdir()] == ["audit.lock"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("module", ["click", "sqlite3"])
def test_a_signal_while_libraries_are_imported_ends_it_with_0(
    tmp_path: Path, number: signal.Signals, module: str
) -> None:
    with auditor("--bootstrap", "h:1", code=MAIN, env=library(tmp_path, module, SLOW)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, "", "")


def test_a_signal_to_a_question_about_the_auditor_is_no_success(tmp_path: Path) -> None:
    with auditor("status", "--db", str(tmp_path), code=MAIN, env=library(tmp_path, "click", SLOW)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
