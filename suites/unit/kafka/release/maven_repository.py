"""A small Maven repository on disk, which can be served on loopback, with a Kafka release of five tiny jars."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KAFKA = "org.apache.kafka"
COMMIT = "0123456789abcdef"


def jar(content: Mapping[str, str | bytes]) -> bytes:
    """A jar, with the same bytes for the same content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in content.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return buffer.getvalue()


def clients_jar(version: str, commit: str = COMMIT) -> bytes:
    return jar({"kafka/kafka-version.properties": f"commitId={commit}\nversion={version}"})


def needs(coordinates: str, *, scope: str = "", optional: bool = False, exclude: Sequence[str] = ()) -> str:
    """One `<dependency>`; "group:artifact" leaves the version to dependencyManagement."""
    group, artifact, *version = coordinates.split(":")
    excluded = "".join(
        f"<exclusion><groupId>{one.split(':')[0]}</groupId><artifactId>{one.split(':')[1]}</artifactId></exclusion>"
        for one in exclude
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        + "".join(f"<version>{one}</version>" for one in version)
        + (f"<scope>{scope}</scope>" if scope else "")
        + ("<optional>true</optional>" if optional else "")
        + (f"<exclusions>{excluded}</exclusions>" if excluded else "")
        + "</dependency>"
    )


@dataclass
class MavenRepository:
    """Files below `root`, each with its sha1, as on Central."""

    root: Path
    checksums: bool = True

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return self.root.as_uri()

    def write(self, path: str, content: bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if self.checksums:
            file.with_name(f"{file.name}.sha1").write_text(hashlib.sha1(content).hexdigest())
        return file

    def file(self, coordinates: str, extension: str) -> str:
        group, artifact, version = coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.{extension}"

    def pom(self, coordinates: str, body: str = "", *dependencies: str) -> None:
        group, artifact, version = coordinates.split(":")
        text = (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            f"{body}<dependencies>{''.join(dependencies)}</dependencies></project>"
        )
        self.write(self.file(coordinates, "pom"), text.encode())

    def artifact(self, coordinates: str, *dependencies: str, body: str = "", content: bytes | None = None) -> None:
        self.pom(coordinates, body, *dependencies)
        self.write(self.file(coordinates, "jar"), jar({"id": coordinates}) if content is None else content)

    def kafka(self, version: str, *, tools: bool = True, commit: str = COMMIT) -> None:
        """A complete release with log4j2; without `tools`, its upload ended before kafka-tools."""
        self.third_party()
        self.artifact(f"{KAFKA}:kafka-clients:{version}", content=clients_jar(version, commit))
        self.artifact(f"{KAFKA}:kafka-server-common:{version}", needs(f"{KAFKA}:kafka-clients:{version}"))
        self.artifact(
            f"{KAFKA}:kafka_2.13:{version}",
            needs(f"{KAFKA}:kafka-server-common:{version}", scope="runtime"),
            needs("org.slf4j:slf4j-api:1.7.36", scope="runtime"),
            needs("org.apache.logging.log4j:log4j-core:2.25.4", scope="runtime"),
        )
        if tools:
            self.artifact(f"{KAFKA}:kafka-tools:{version}", needs(f"{KAFKA}:kafka-clients:{version}"))
        self.index("kafka_2.13")
        self.index("kafka-tools")
        self.index("kafka-clients")

    def third_party(self) -> None:
        self.artifact("org.slf4j:slf4j-api:1.7.36")
        for artifact in ("log4j-core", "log4j-slf4j-impl"):
            self.artifact(f"org.apache.logging.log4j:{artifact}:2.25.4")

    def index(self, artifact: str) -> None:
        folder = self.root / KAFKA.replace(".", "/") / artifact
        if folder.is_dir():
            versions = "".join(f"<version>{one.name}</version>" for one in sorted(folder.iterdir()) if one.is_dir())
            (folder / "maven-metadata.xml").write_text(f"<metadata><versions>{versions}</versions></metadata>")


LIBS = ("kafka_2.13", "kafka-clients", "kafka-server-common", "kafka-tools", "slf4j-api", "slf4j-reload4j")


def libs(version: str = "4.3.1") -> dict[str, bytes]:
    """The jars of a distribution by name, including the logging binding."""
    own = {f"{name}-{version if name.startswith('kafka') else '1.7.36'}.jar": jar({"id": name}) for name in LIBS}
    return own | {f"kafka-clients-{version}.jar": clients_jar(version)}


def tgz(files: Mapping[str, bytes], extra: Sequence[tarfile.TarInfo] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in extra:
            archive.addfile(member)
    return gzip.compress(buffer.getvalue())


def distribution(version: str = "4.3.1") -> bytes:
    return tgz({f"kafka_2.13-{version}/libs/{name}": content for name, content in libs(version).items()})


@dataclass
class Served:
    """A repository on HTTP: its address, the requests, and the files with a damaged next answer."""

    url: str
    requests: list[str] = field(default_factory=list)
    spoil_once: set[str] = field(default_factory=set)
    status: int | None = None


@contextmanager
def served(root: Path) -> Iterator[Served]:
    """Serves `root` on loopback, also for request lines with absolute URLs, as a proxy gets them."""
    state = Served("")

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            state.requests.append(self.path)
            if state.status:
                self.send_error(state.status)
            elif name in state.spoil_once:
                state.spoil_once.discard(name)
                self.send_response(200)
                self.send_header("Content-Length", "7")
                self.end_headers()
                self.wfile.write(b"spoiled")
            else:
                if self.path.startswith("http://"):
                    self.path = "/" + self.path.split("/", 3)[3]
                super().do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
