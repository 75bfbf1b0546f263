"""Downloads: with a company's own authority, through a proxy, with a password, and from a failing server."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.kafka.release.repository import Repository, Unreachable
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import MavenRepository, served

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


class _Answers(BaseHTTPRequestHandler):
    """Answers with the Authorization header. The first request of every path but "/fine" gets HTTP 503."""

    troubled: set[str] = set()  # noqa: RUF012 - one server at a time, emptied by the fixture

    def do_GET(self) -> None:
        if self.path not in ("/fine", *self.troubled):
            self.troubled.add(self.path)
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        said = f"{self.headers.get('Authorization')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    _Answers.troubled.clear()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield http
    http.shutdown()
    http.server_close()
    thread.join()


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed authority for 127.0.0.1, as (certificate, certificate with key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A company's own CA")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.pem").write_bytes(public)
    (folder / "both.pem").write_bytes(public + private)
    return folder / "ca.pem", folder / "both.pem"


def test_a_companys_own_authority_is_trusted_when_the_system_trusts_it(
    tmp_path: Path, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, both = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_port}"
    with Repository(url) as stranger, pytest.raises(Unreachable, match=r"certificate.*SSL_CERT_FILE"):
        stranger.fetch("fine")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    with Repository(url) as trusted:
        assert trusted.fetch("fine") == b"None"


def test_a_request_is_repeated_after_http_503(server: ThreadingHTTPServer) -> None:
    with Repository(f"http://127.0.0.1:{server.server_port}") as repository:
        assert repository.fetch("trouble") == b"None"


def test_a_password_is_sent_to_the_server_and_not_shown(server: ThreadingHTTPServer) -> None:
    with Repository(f"http://me:p%40ss@127.0.0.1:{server.server_port}/") as repository:
        assert repository.fetch("fine") == b"Basic bWU6cEBzcw=="  # me:p@ss
        assert repository.url == f"http://127.0.0.1:{server.server_port}"


def test_proxies_and_exceptions_of_the_environment_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MavenRepository(tmp_path / "behind").write("file", b"content")
    with served(tmp_path / "behind") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with Repository("http://repository.invalid") as behind:
            assert behind.fetch("file") == b"content"
        assert proxy.requests == ["http://repository.invalid/file"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with Repository(proxy.url) as direct:
            assert direct.fetch("file") == b"content"
        assert proxy.requests[1:] == ["/file"]


@pytest.mark.parametrize(
    "proxy", ["junk", "http://me:secret@h:notaport", "socks5://127.0.0.1:1080", "http://[::1", "http://"]
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_invalid_proxy_is_named_by_its_variable(scheme: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", proxy)
    with pytest.raises(BadInput, match=f"^the environment's {scheme}_proxy is not the URL of an HTTP proxy") as refused:
        Repository(f"{scheme}://repository.invalid")
    assert "secret" not in str(refused.value)


def test_an_unreachable_repository_is_reported_with_the_cause_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Repository("http://127.0.0.1:9") as silent,
        pytest.raises(Unreachable, match=r"\(\[Errno 111\] [\w ]+\): check"),
    ):
        silent.fetch("file")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with (
        Repository("http://repository.invalid") as behind,
        pytest.raises(Unreachable, match=r"\(\[Errno 111\] [\w ]+\): check"),
    ):
        behind.fetch("file")
