"""TLS contexts and logins from a client's settings, and the sentences that refuse some."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from harness.kafka.admin.security import PLAINTEXT, Login, security_in, security_of, tls_of
from harness.kafka.settings.tls import Authority
from harness.model.errors import BadInput

LOGIN = {"sasl.username": "a", "sasl.password": "word"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def store(authority: Authority) -> bytes:
    """A key with its certificates, as PEM."""
    return authority.key_store("client", ["client"], [])


def pieces(store: bytes) -> tuple[str, str]:
    """The key and the certificates."""
    at = store.index(b"-----BEGIN CERTIFICATE")
    return store[:at].decode(), store[at:].decode()


def test_without_settings_connections_are_plaintext() -> None:
    assert security_of({}) == PLAINTEXT
    assert security_of({"security.protocol": "plaintext", **LOGIN}) == PLAINTEXT


def test_a_file_gives_the_same(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    assert security_in(None) == PLAINTEXT
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=word\n")
    assert security_in(file).login == Login("PLAIN", "a", "word")
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    with pytest.raises(BadInput, match=f"--command-config {file}: sasl.mechanism=GSSAPI is not supported"):
        security_in(file)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_has_a_mechanism_a_name_and_a_password(mechanism: str) -> None:
    found = security_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **LOGIN})
    assert (found.tls, found.login) == (None, Login(mechanism, "a", "word"))
    assert "word" not in repr(found)


def test_reserved_characters_of_a_name_are_escaped_in_scram_only() -> None:
    """RFC 5802, section 5.1. kafka-python does not do it."""
    assert Login("SCRAM-SHA-512", "a=b,c", "word").exchange().auth_bytes().startswith(b"n,,n=a=3Db=2Cc,r=")
    assert Login("PLAIN", "a=b,c", "word").exchange().auth_bytes() == b"a=b,c\0a=b,c\0word"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.mechanism": "GSSAPI", **LOGIN}, "sasl.mechanism=GSSAPI is not supported here; give one of PLAIN"),
        (LOGIN, "sasl.mechanism=GSSAPI is not supported here"),  # Kafka's default
        ({"sasl.mechanism": "PLAIN"}, "needs sasl.password and sasl.username, or a sasl.jaas.config with both"),
    ],
)
def test_a_login_that_is_not_supported_is_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        security_of({"security.protocol": "SASL_SSL", **settings})


def test_hosts_are_verified_unless_the_settings_say_otherwise(authority: Authority) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.pem": authority.pem.decode()}
    strict = tls_of(settings)
    assert strict is not None
    assert (strict.check_hostname, strict.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert len(strict.get_ca_certs()) == 1
    any_host = tls_of({**settings, "ssl.endpoint.identification.algorithm": "none"})
    assert any_host is not None
    assert (any_host.check_hostname, any_host.verify_mode) == (False, ssl.CERT_REQUIRED)
    anyone = tls_of({**settings, "enable.ssl.certificate.verification": "false"})
    assert anyone is not None
    assert (anyone.check_hostname, anyone.verify_mode) == (False, ssl.CERT_NONE)


def test_a_clients_certificate_is_read_from_every_form(
    store: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[bytes] = []
    load = ssl.SSLContext.load_cert_chain

    def noted(context: ssl.SSLContext, file: Path, key: Path | None = None, password: str = "") -> None:
        loaded.append(Path(file).read_bytes())
        load(context, file, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    key, certificates = pieces(store)
    (tmp_path / "one.pem").write_bytes(store)
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "certificate.pem").write_text(certificates)
    one, *chain = load_pem_x509_certificates(certificates.encode())
    packed = serialize_key_and_certificates(
        b"c",
        load_pem_private_key(key.encode(), None),  # type: ignore[arg-type]  # an RSA key
        one,
        chain,
        BestAvailableEncryption(b"word"),
    )
    (tmp_path / "store.p12").write_bytes(packed)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for settings in (
        {"ssl.certificate.location": str(tmp_path / "one.pem")},
        {"ssl.certificate.location": str(tmp_path / "certificate.pem"), "ssl.key.location": str(tmp_path / "key.pem")},
        {"ssl.certificate.pem": certificates, "ssl.key.pem": key},
        {"ssl.keystore.location": str(tmp_path / "store.p12"), "ssl.keystore.password": "word"},
    ):
        assert tls_of({"security.protocol": "SSL", **settings}) is not None
        assert b"BEGIN CERTIFICATE" in loaded.pop()
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ssl.ca.location": "/none"}, r"\(No such file or directory\); correct ssl.ca.location=/none"),
        ({"ssl.ca.pem": "nothing"}, r"cannot be used \(.*\); correct the settings that begin with ssl\."),
        ({"ssl.certificate.location": "/none"}, "correct ssl.certificate.location=/none"),
        ({"ssl.keystore.location": "STORE", "ssl.keystore.password": "other"}, "correct ssl.keystore.location=STORE"),
    ],
)
def test_certificates_that_cannot_be_used_are_named(
    settings: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("STORE").write_bytes(b"0\x82\x01")
    with pytest.raises(BadInput, match=sentence):
        tls_of({"security.protocol": "SSL", **settings})


def test_an_encrypted_key_asks_nobody_for_its_password(authority: Authority, store: bytes, tmp_path: Path) -> None:
    """OpenSSL would wait at the terminal for it."""
    key, certificates = pieces(store)
    opened = load_pem_private_key(key.encode(), None)
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

    locked = opened.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")).decode()
    settings = {"security.protocol": "SSL", "ssl.certificate.pem": certificates, "ssl.key.pem": locked}
    with pytest.raises(BadInput, match="certificates for TLS cannot be used"):
        tls_of(settings)
    assert tls_of({**settings, "ssl.key.password": "word"}) is not None
