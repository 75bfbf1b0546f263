"""How commands answer: --quiet, --json, --summary and --notify, the command `open`, and completion in a shell."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from harness.commands import cli, notify, open_report
from harness.commands.options import GateOptions, GateResult
from harness.evidence.gate import GateSummary, decided, try_of, write_gate
from harness.model.documents.manifest import NamedRelease
from harness.model.errors import BadInput
from harness.model.exits import Exit
from harness.model.verdict import Status
from suites.unit.evidence_examples import judged, lost, verdict

ROOT = Path(__file__).parents[3]
DURABILITY = [sys.executable, "-c", "from harness.commands.main import main; main()"]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("GITHUB_STEP_SUMMARY", "DURABILITY_NOTIFY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gate that fails; it says something on its way."""

    def gate(options: GateOptions, progress: Any) -> GateResult:
        progress.line("Kafka 4.3.1 from here")
        progress("doing")
        found = verdict("one", Status.FAIL, lost())
        judged(tmp_path / "out" / "one", found)
        results = (decided("one", [try_of("one", found)]),)
        summary = GateSummary(required=("one",), results=results, release=NamedRelease(version="4.3.1"), seed=7)
        write_gate(tmp_path / "out", summary)
        return GateResult(out=tmp_path / "out", summary=summary)

    module = types.ModuleType("harness.commands.gate")
    module.gate = gate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "harness.commands.gate", module)
    return tmp_path / "out"


def test_quiet_is_three_lines_and_nothing_else(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["gate", "--quiet"]) is Exit.FAIL
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "FAIL of scenario one: Kafka 4.3.1",
        "  The release broke a promise in: one. Do not ship it before the cause is known.",
        f"evidence: {out / 'report' / 'index.html'}",
    ]
    assert said.err == ""
    assert (out / "junit.xml").is_file()


def test_json_is_one_document_and_everything_else_is_on_standard_error(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["gate", "--json"]) is Exit.FAIL
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (document["verdict"], document["word"], document["evidence"]) == ("FAIL", "FAIL", str(out))
    assert document["verdicts"]["one"]["findings"][0]["count"] == 50
    assert document["page"] == str(out / "report" / "index.html")
    assert "Kafka 4.3.1 from here" in said.err
    assert (out / "junit.xml").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["list", what] for what in ("doubts", "faults", "scenarios")),
        *(["doctor"], ["contract"], ["report", "OUT"], ["open", "OUT"]),
    ],
)
def test_json_is_the_whole_answer_of_a_command(
    out: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert cli.invoke(["gate", "--quiet"]) is Exit.FAIL
    capsys.readouterr()
    assert cli.invoke([str(out) if one == "OUT" else one for one in arguments] + ["--json"]) in (Exit.PASS, Exit.USAGE)
    document = json.loads(capsys.readouterr().out)
    assert document
    if arguments[0] == "open":
        assert document == {"page": str(out / "report" / "index.html"), "opened": False}
    if arguments == ["list", "doubts"]:
        assert {"doubt", "origin", "what it means"} == document[0].keys()


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands that can be called, with their words; a group that does something by itself is one, too."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield words, command
    for name, one in command.commands.items() if isinstance(command, click.Group) else ():
        yield from leaves(one, (*words, name))


def test_every_command_has_json() -> None:
    found = dict(leaves(cli.commands))
    assert {("gate",), ("audit",), ("audit", "status"), ("chaos",)} <= found.keys()
    without = [words for words, one in found.items() if not any("--json" in param.opts for param in one.params)]
    assert without == []


def test_the_walk_finds_a_command_without_json() -> None:
    group = click.Group("top", commands={"inner": click.Group("inner", commands={"mute": click.Command("mute")})})
    assert [words for words, _ in leaves(group)] == [("inner", "mute")]


def test_a_vote_writes_no_page(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["gate", "--quiet"]) is Exit.FAIL
    (out / "report" / "index.html").unlink()
    capsys.readouterr()
    assert cli.invoke(["report", str(out), "--vote"]) is Exit.PASS
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("-1 (non-binding): kafka-durability says FAIL of scenario one")
    assert second.startswith("lost in one: 50 records")
    assert not (out / "report" / "index.html").exists()
    assert cli.invoke(["report", str(out), "--vote", "--json"]) is Exit.PASS
    assert json.loads(capsys.readouterr().out) == {"vote": [first, second]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gate", "--json", "--quiet"], "--json and --quiet exclude each other"),
        (["gate", "--notify", "ftp://host/x"], "the address is not one of http or https"),
        (["gate", "--notify", "http://"], "the address is not one of http or https"),
        (["gate", "--notify", "https://[x"], "the address is not one of http or https"),
        (["gate", "--notify", "https://host:99999/"], "the address is not one of http or https"),
        (["gate", "--notify", "file:///etc/passwd"], "the address is not one of http or https"),
        (["gate", "--notify", "https://user:secret@host\n/"], "the address is not one of http or https"),
        (["gate", "--summary", "nowhere/x.md"], "there is no folder"),
        (["gate", "--summary", "."], "is a folder"),
        (["gate", "--known", ""], "--known: '' names no file"),
        (["gate", "--known", "nowhere.toml"], "cannot be read"),
        (["report", "x", "--vote", "--out", "y"], "--vote writes no page"),
        (["open", "nowhere"], "does not exist; write it with: durability report nowhere"),
        (["open"], "there is no report in durability-out"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_gate", lambda *_: pytest.fail("started"))
    assert cli.invoke(arguments) is Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "secret" not in line
    assert list(tmp_path.iterdir()) == []


def test_the_summary_is_written_beside_the_answer(out: Path, tmp_path: Path) -> None:
    assert cli.invoke(["gate", "--summary", str(tmp_path / "job.md")]) is Exit.FAIL
    assert (tmp_path / "job.md").read_text().startswith("# FAIL of scenario one: Kafka 4.3.1")


class Server(HTTPServer):
    """Answers each POST with one status, and keeps the bodies."""

    def __init__(self, status: int = 200, wait_s: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.wait_s = status, wait_s
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?token=secret"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.wait_s)
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def test_the_webhook_gets_the_verdict_as_json(
    out: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.invoke(["gate", "--notify", server.url]) is Exit.FAIL
    monkeypatch.setenv("DURABILITY_NOTIFY", server.url)
    assert cli.invoke(["gate", "--quiet"]) is Exit.FAIL
    first, second = (json.loads(body) for body in server.bodies)
    assert first == second
    assert (first["word"], first["exit"], first["incident_count"]) == ("FAIL", 1, 1)
    assert "notified" not in capsys.readouterr().err


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_is_one_warning_and_no_other_exit_code(
    out: Path, server: Server, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    server.status = status
    assert cli.invoke(["gate", "--json", "--notify", server.url]) is Exit.FAIL
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"] == "FAIL"
    (line,) = [line for line in said.err.splitlines() if "notified" in line]
    assert line == f"durability: 127.0.0.1 was not notified: it answered {status}"
    assert len(server.bodies) == 1


def test_a_server_that_is_not_there_and_one_that_never_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/?token=secret"
        failure = notify.post(url, b"{}")
    assert failure is not None
    assert "secret" not in failure
    monkeypatch.setattr(notify, "TIMEOUT_S", 0.3)
    server.wait_s = 1.0
    began_s = time.monotonic()
    assert notify.post(server.url, b"{}") == "127.0.0.1 was not notified: no answer within 0.3 s"
    assert time.monotonic() - began_s < 0.9


def test_the_newest_page_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for age_s, name in ((50, "old"), (10, "new"), (90, "older")):
        page = tmp_path / "durability-out" / name / "report" / "index.html"
        page.parent.mkdir(parents=True)
        page.touch()
        os.utime(page, (time.time() - age_s,) * 2)
    assert open_report.page_in(None) == Path("durability-out/new/report/index.html")
    assert open_report.page_in(Path("durability-out/old")) == Path("durability-out/old/report/index.html")
    with pytest.raises(BadInput, match="durability report"):
        open_report.page_in(Path("durability-out"))


def test_without_a_display_the_path_is_printed_and_no_browser_starts(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["gate", "--quiet"]) is Exit.FAIL
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    page = out / "report" / "index.html"
    assert not open_report.open_page(page, browse)
    assert opened == []
    capsys.readouterr()
    assert cli.invoke(["open", str(out)]) is Exit.PASS
    assert capsys.readouterr().out == f"{page}\n"
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_report.open_page(page, browse)
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["completion", shell]) is Exit.PASS
    said = capsys.readouterr().out
    assert f"_DURABILITY_COMPLETE={shell}_complete" in said
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=said, text=True, check=True)


def test_commands_and_options_are_completed() -> None:
    def completed(words: str, position: int) -> list[str]:
        asked = {"_DURABILITY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        ran = subprocess.run(DURABILITY, cwd=ROOT, env=os.environ | asked, capture_output=True, text=True, check=True)
        return ran.stdout.split()

    assert "plain,gate" in completed("durability g", 1)
    assert "plain,--known" in completed("durability gate --k", 2)
    assert completed("durability list pl", 2) == []
    assert completed("durability list fa", 2) == ["plain,faults"]


def test_an_unknown_request_of_a_shell_is_no_fail() -> None:
    ran = subprocess.run(DURABILITY, cwd=ROOT, env=os.environ | {"_DURABILITY_COMPLETE": "zzz"}, check=False)
    assert ran.returncode == Exit.USAGE
