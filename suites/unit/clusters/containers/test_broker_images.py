"""Images of brokers before any engine: what is refused and how, pulls that end, and the tool that formats storage."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

from harness.clusters import choose, find_release, only_in_containers, refuse_as_processes, start
from harness.clusters.containers import engine as module
from harness.clusters.containers.broker_images import STORAGE, broker_image, image_tool
from harness.clusters.containers.container_runner import _limits_of_engine
from harness.clusters.containers.engine import check_enforced, is_short_lived, pull, short_lived_labels
from harness.clusters.nodes.storage_format import build_key
from harness.clusters.processes.runner import ProcessState
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage, Found
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from harness.model.limits import NO_LIMITS, Limits
from harness.model.scenario.scenario import ClusterShape

SPEC = "image:apache/kafka:4.1.0"
IMAGE = BrokerImage("apache/kafka:4.1.0", "sha256:1", LAYOUTS[0])


def find(spec: str, cache: Path, maven_repo: str | None = None) -> Release:
    return find_release(spec, maven_repo=maven_repo, cache=cache, progress=lambda _: None)


@pytest.mark.parametrize("spec", ["image:", "image: ", "image:a b", "image:-x", "image:x\ny", "image:https://x y"])
def test_an_invalid_image_name_is_refused(spec: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not the name of an image: give one such as image:apache/kafka"):
        find(spec, tmp_path)


def test_without_an_engine_an_image_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(
        BadInput, match=rf"^{SPEC} runs only in containers, and no container engine answers.*start one$"
    ):
        find(SPEC, tmp_path)
    with pytest.raises(BadInput, match=r"--maven-repo is only for versions, and image:.* is an image"):
        find(SPEC, tmp_path, "https://example.org")


@pytest.mark.parametrize(
    ("kafka", "limits", "asked"),
    [
        (None, NO_LIMITS, ""),
        ("4.3.1", NO_LIMITS, ""),
        (SPEC, NO_LIMITS, SPEC),
        ("4.3.1", Limits(memory=1 << 30), "--memory"),
        (SPEC, Limits(memory=1 << 30, cpus=1.0), f"{SPEC} and --memory and --cpus"),
    ],
)
def test_options_that_need_containers_are_named(kafka: str | None, limits: Limits, asked: str) -> None:
    assert only_in_containers(kafka, limits) == asked


def test_processes_refuse_options_that_need_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with pytest.raises(BadInput, match=r"^--memory is not possible with --backend processes: use --backend containers"):
        refuse_as_processes(None, Limits(memory=1 << 30))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    for wanted in ("auto", "containers"):  # "auto" must not choose processes and ignore the limit
        with pytest.raises(BadInput, match=r"^--cpus: only containers can do that, and no container engine answers"):
            choose(wanted, tmp_path, said.append, said.append, limits=Limits(cpus=1.0))
    assert said == []


@pytest.mark.parametrize(("image", "limits"), [(IMAGE, NO_LIMITS), (None, Limits(cpus=1.0))])
def test_a_cluster_of_processes_refuses_images_and_limits(
    image: BrokerImage | None, limits: Limits, tmp_path: Path
) -> None:
    release = Release("4.1.0", "c", "here", (), image=image)
    with pytest.raises(BadInput, match="is not possible with --backend processes"):
        start(release, ClusterShape(), root=tmp_path, cache=tmp_path, progress=lambda _: None, limits=limits)
    assert list(tmp_path.iterdir()) == []


def test_the_same_tag_on_another_image_is_another_build() -> None:
    moved = BrokerImage(IMAGE.reference, "sha256:2", IMAGE.layout)
    keys = [build_key(Release("4.1.0", "c", "here", (), image=image)) for image in (IMAGE, moved, IMAGE)]
    assert keys[0] == keys[2] != keys[1]


CONFIG = {"Entrypoint": ["/before"], "Cmd": ["/etc/kafka/docker/run", "A=b"], "Env": ["PATH=/bin:/b=c", "KAFKA_X="]}


@pytest.mark.parametrize(
    ("config", "has_run", "entry", "way"),
    [
        (CONFIG, True, ("/before", "/etc/kafka/docker/run", "A=b"), "by its entry point"),
        (CONFIG | {"Entrypoint": None}, True, ("/etc/kafka/docker/run", "A=b"), "by its entry point"),
        (CONFIG, False, (), "by its start scripts"),
        ({}, True, (), "by its start scripts"),  # the image names no command
    ],
)
def test_an_image_starts_by_its_entry_point_or_by_its_scripts(
    config: Mapping[str, Any], has_run: bool, entry: tuple[str, ...], way: str
) -> None:
    image = broker_image("x:1", "sha256:1", config, Found(LAYOUTS[0], "4.1.0", "c", (), has_run))
    assert (image.entry, image.way) == (entry, way)
    assert image.variables == (("PATH", "KAFKA_X") if config else ())


@contextmanager
def engine_that_says(tmp_path: Path, answer: bytes) -> Iterator[Any]:
    """A client of a server that accepts a connection, sends this answer and goes silent."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "e.sock"))
        listening.listen()
        accepted: list[socket.socket] = []

        def serve() -> None:
            connection, _ = listening.accept()
            accepted.append(connection)
            connection.recv(65536)
            connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        client = docker.DockerClient(base_url=f"unix://{tmp_path}/e.sock", version="1.41")
        try:
            yield client
        finally:
            client.close()
            serving.join(10)
            for connection in accepted:
                connection.close()


def http(status: str, *lines: str) -> bytes:
    chunks = "".join(f"{len(line) + 1:x}\r\n{line}\n\r\n" for line in lines)
    return f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}".encode()


END = b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no answer within 0.3 s"),
        (http("200 OK", '{"status":"Pulling"}'), "no answer within 0.3 s"),
        (http("404 Not Found", '{"message":"manifest unknown\\nmore"}') + END, "manifest unknown"),
        (http("200 OK", '{"status":"Pulling"}', '{"error":"no matching manifest"}') + END, "no matching manifest"),
        (http("200 OK", '{"status":"Pulling"}', '{"status":"Done"}') + END, ""),
    ],
    ids=["silent", "silent after the start", "refused", "refused after the start", "done"],
)
def test_every_pull_ends_with_its_reason(
    answer: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PULL_SILENCE_S", 0.3)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with engine_that_says(tmp_path, answer) as client:
        assert pull(client, "apache/kafka:4.1.0") == why


def test_a_pull_that_never_completes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULL_S", -1.0)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with engine_that_says(tmp_path, http("200 OK", '{"status":"Pulling"}', '{"status":"Pulling"}')) as client:
        assert pull(client, "apache/kafka").startswith("it was not complete after")


@dataclass
class OneProcess:
    """A runner with one process, which prints a line and ends at once."""

    code: int
    started: list[Any] = field(default_factory=list)

    def start(self, name: str, argv: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]) -> int:
        self.started.append((name, list(argv), cwd, dict(env)))
        output.write_text("it said this\n")
        return 1

    def signal(self, names: Sequence[str], number: int) -> list[str]:
        return []

    def status(self) -> dict[str, ProcessState]:
        return {STORAGE: ProcessState(1, self.code, 0)}

    def stop(self) -> None: ...

    def detach(self) -> None: ...


def test_the_storage_tool_of_the_image_formats_the_storage(tmp_path: Path) -> None:
    runner = OneProcess(code=3)
    assert image_tool(IMAGE, runner)(["format", "-t", "id"], tmp_path) == (3, "it said this\n")
    ((name, argv, cwd, env),) = runner.started
    assert (name, argv, cwd) == (STORAGE, ["/opt/kafka/bin/kafka-storage.sh", "format", "-t", "id"], tmp_path)
    assert "-Xmx256m" in env["KAFKA_HEAP_OPTS"]


def test_limits_become_settings_of_the_engine() -> None:
    assert _limits_of_engine(NO_LIMITS) == {"mem_limit": 1 << 30, "memswap_limit": 1 << 30}
    assert _limits_of_engine(Limits(memory=2 << 30, cpus=0.5)) == {
        "mem_limit": 2 << 30,
        "memswap_limit": 2 << 30,
        "nano_cpus": 500_000_000,
    }


def engine_of(**other: Any) -> Any:
    """The part of an engine's description that shows what it can limit."""
    return {"MemoryLimit": True, "CpuCfsQuota": True, "NCPU": 2, "MemTotal": 4 << 30} | other


@pytest.mark.parametrize(
    ("other", "limits", "sentence"),
    [
        (
            {"MemoryLimit": False},
            Limits(memory=1 << 30),
            r"^--memory: the container engine cannot limit memory: give it",
        ),
        ({"CpuCfsQuota": False}, Limits(cpus=1.0), r"^--cpus: the container engine cannot limit CPU time: give it"),
        ({}, Limits(cpus=2.5), r"^--cpus 2\.5: the container engine has 2 cores"),
        ({}, Limits(memory=8 << 30), r"^--memory: the container engine has 4096 MiB in total"),
    ],
)
def test_a_limit_that_the_engine_would_not_enforce_is_refused(
    other: dict[str, Any], limits: Limits, sentence: str
) -> None:
    check_enforced(engine_of(), NO_LIMITS)
    check_enforced(engine_of(**other), NO_LIMITS)  # no limit was asked for
    check_enforced(engine_of(), Limits(memory=1 << 30, cpus=2.0))
    with pytest.raises(BadInput, match=sentence):
        check_enforced(engine_of(**other), limits)


def test_the_status_of_a_broker_says_that_it_ran_out_of_memory() -> None:
    killed = ProcessState(1, -9, 0, out_of_memory=True)
    assert killed.status == "signal SIGKILL, out of the memory that its container may use"


def test_objects_of_a_living_harness_are_not_swept() -> None:
    mine = short_lived_labels()[module.RUN_LABEL]
    assert is_short_lived(mine)
    assert not is_short_lived("kd-999999999")
    assert not is_short_lived("run-0-abc")
