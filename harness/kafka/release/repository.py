"""Files of a Maven repository, by HTTP(S) or from a directory, each compared with its published checksum.

TLS trusts the authorities that the system trusts (OpenSSL's default paths, SSL_CERT_FILE, SSL_CERT_DIR), so a company's
own authority works.
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import urllib3

from harness.kafka.release.cache import Digest
from harness.model.errors import BadInput

CENTRAL = "https://repo1.maven.org/maven2"

# The strongest comes first. Kafka publishes all three; most of its dependencies publish sha1 only.
_ALGORITHMS = ("sha512", "sha256", "sha1")
_CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_CONNECTIONS = 8


class NotPublished(BadInput):
    """The repository answers that it does not have this file."""


class Unreachable(BadInput):
    """The repository does not answer, or answers with an error."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The content of a file, and the checksum with which it was compared."""

    content: bytes
    digest: Digest
    url: str


class Repository:
    """One repository, which several threads may use. Close it or use `with`, because it holds connections."""

    def __init__(self, url: str) -> None:
        parts = _parts(url)
        if parts is None or (parts.scheme != "file" and not _of_server(parts)):
            here = _here(url)
            remedy = here.absolute().as_uri() if here else "one that starts with https:// or file:///"
            raise BadInput(f"{url!r} is not the URL of a Maven repository: give {remedy}")
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        if self._directory is not None and not _is_directory(self._directory):
            raise BadInput(f"{url} is not a directory on this machine: give the root of a Maven repository")
        host = parts.netloc.rpartition("@")[2]
        # The URL is printed and stored, so it must not contain credentials.
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"User-Agent": "kafka-durability"}
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers |= urllib3.make_headers(basic_auth=login)
        self._pool = None if self._directory else _pool(self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._pool:
            self._pool.clear()

    def fetch(self, path: str) -> bytes | None:
        """The unverified content of `path`; None when the repository has no such file."""
        if self._directory is not None:
            return _read(self._directory / path)
        return self._download(path)

    def fetch_checked(self, path: str) -> Fetched:
        """The content of `path` with its published checksum. NotPublished, Unreachable, or BadInput when damaged."""
        url = f"{self.url}/{path}"
        digest = self.published_digest(path)
        seen: list[str] = []
        while len(seen) < 2:  # one transfer may be damaged; two mean that the repository is
            content = self.fetch(path)
            if content is None:
                raise NotPublished(f"{path.rpartition('/')[2]} is not in {self.url}")
            found = Digest.of(content, digest.algorithm if digest else "sha256")
            if digest in (None, found):
                return Fetched(content, found, url)
            seen.append(str(found))
        raise BadInput(f"{url} is damaged: its checksum is {seen[-1]}, published is {digest}; try later")

    def published_digest(self, path: str) -> Digest | None:
        """The strongest published checksum of `path`; None in a directory without checksums (Gradle's mavenLocal).

        From a network a file without any checksum counts as missing, because a damaged transfer would not be noticed.
        """
        for algorithm in _ALGORITHMS:
            sidecar = self.fetch(f"{path}.{algorithm}")
            if sidecar is None:
                continue
            size = len(Digest.of(b"", algorithm).hex)
            found = re.search(rf"\b[0-9a-fA-F]{{{size}}}\b", sidecar.decode("ascii", "replace"))
            if not found:
                raise BadInput(f"{self.url}/{path}.{algorithm} is not a checksum: is {self.url} a Maven repository?")
            return Digest(algorithm, found.group().lower())
        if self._directory is not None:
            return None
        name = path.rpartition("/")[2]
        if self.fetch(path) is None:
            raise NotPublished(f"{name} is not in {self.url}")
        raise NotPublished(f"{name} has no checksum in {self.url}, so a damaged transfer would not be noticed")

    def _download(self, path: str) -> bytes | None:
        assert self._pool is not None
        url = f"{self.url}/{quote(path)}"
        try:
            answer = self._pool.request("GET", url, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(
                f"{self.url} cannot be reached ({_cause(error)}): check the network, the proxy settings and the "
                "certificates (SSL_CERT_FILE), or name a release on this machine"
            ) from error
        if answer.status in (404, 410):
            return None
        if answer.status != 200:
            raise Unreachable(f"{url} was answered with HTTP {answer.status}: check the URL and the access to it")
        return answer.data


def tls_context() -> ssl.SSLContext:
    """Trusts the system's authorities. A Python built elsewhere may find none; then the usual bundles are read."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"] and not ssl.get_default_verify_paths().capath:
        for bundle in _CA_BUNDLES:
            if Path(bundle).is_file():
                context.load_verify_locations(bundle)
                break
    return context


def _pool(url: str) -> urllib3.PoolManager:
    # other=0: a certificate that is not trusted once is not trusted at a second attempt.
    retries = urllib3.Retry(
        total=4,
        connect=2,
        other=0,
        backoff_factor=0.5,
        status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,
    )
    timeout = urllib3.Timeout(connect=15, read=60)
    proxy = _proxy(url)
    if proxy is None:
        return urllib3.PoolManager(
            maxsize=_CONNECTIONS, block=True, ssl_context=tls_context(), retries=retries, timeout=timeout
        )
    headers = (
        urllib3.make_headers(proxy_basic_auth=f"{unquote(proxy.username)}:{unquote(proxy.password or '')}")
        if proxy.username
        else None
    )
    return urllib3.ProxyManager(
        proxy.geturl(),
        proxy_headers=headers,
        maxsize=_CONNECTIONS,
        block=True,
        ssl_context=tls_context(),
        retries=retries,
        timeout=timeout,
    )


def _proxy(url: str) -> SplitResult | None:
    """The proxy that the environment names for this URL. BadInput when that is not the URL of a proxy.

    The message does not quote it, because it may hold a password.
    """
    to = urlsplit(url)
    said = None if urllib.request.proxy_bypass(to.netloc) else urllib.request.getproxies().get(to.scheme)
    if not said:
        return None
    proxy = _parts(said)
    if proxy is None or not _of_server(proxy):
        raise BadInput(
            f"the environment's {to.scheme}_proxy is not the URL of an HTTP proxy: give one such as "
            "http://proxy.example.org:3128, or unset it"
        )
    return proxy


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL; None when the standard library or urllib3, which is stricter, cannot parse it."""
    try:
        urllib3.util.parse_url(url)
        return urlsplit(url)
    except (ValueError, urllib3.exceptions.HTTPError):
        return None


def _of_server(url: SplitResult) -> bool:
    return url.scheme in ("http", "https") and bool(url.hostname)


def _here(text: str) -> Path | None:
    """The directory that a text names which is not a URL; None when there is no such directory."""
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # "~name" of a user that does not exist
        return None
    return path if text and _is_directory(path) else None


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # not permitted, or not a possible name of a file
        return False


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None  # reading a named pipe might never end
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror}") from error


def _cause(error: BaseException) -> str:
    """The innermost reason. urllib3 wraps it in an error about the retries, and errors of a proxy once more."""
    reason = getattr(error, "original_error", None) or getattr(error, "reason", None)
    return _cause(reason) if isinstance(reason, BaseException) else str(error).rpartition(": ")[2] or repr(error)
