"""TLS and logins of our own connections, from a client's settings in librdkafka's names (`client_config`).

A mistake in the settings is a BadInput; a refusal of a broker is a `Refused` of `wire`.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.kafka.admin.client_config import client_config
from harness.model.errors import BadInput

if TYPE_CHECKING:
    from kafka.net.sasl.abc import SaslMechanism

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PEM: Final = b"-----BEGIN"


@dataclass(frozen=True, slots=True)
class Login:
    """A name and a password (SASL)."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def exchange(self) -> SaslMechanism:
        """A new exchange of messages with one broker, by kafka-python."""
        from kafka.net.sasl.plain import SaslMechanismPlain  # with what they import they take 4 MiB
        from kafka.net.sasl.scram import SaslMechanismScram

        if self.mechanism == "PLAIN":
            return SaslMechanismPlain(sasl_plain_username=self.user, sasl_plain_password=self.password)
        # RFC 5802 reserves two characters in names.
        user = self.user.replace("=", "=3D").replace(",", "=2C")
        return SaslMechanismScram(
            sasl_plain_username=user, sasl_plain_password=self.password, sasl_mechanism=self.mechanism
        )


@dataclass(frozen=True, slots=True)
class Security:
    """How connections are secured. Without either, they are plaintext."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None


PLAINTEXT: Final = Security()


def security_in(path: Path | None) -> Security:
    """The security in a client's properties file (--command-config); plaintext without a file. BadInput as below."""
    if path is None:
        return PLAINTEXT
    config = client_config(path)
    try:
        return security_of(config)
    except BadInput as refused:
        raise BadInput(f"--command-config {path}: {refused}") from refused


def security_of(config: Mapping[str, str]) -> Security:
    """The security of a client with these settings; BadInput, in one sentence, if they cannot be used."""
    protocol = config.get("security.protocol", "PLAINTEXT").upper()
    return Security(tls_of(config), _login(config, protocol))


def tls_of(config: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS settings alone; None when it uses none. BadInput as for `security_of`."""
    return _tls(config) if "SSL" in config.get("security.protocol", "").upper().split("_") else None


def _login(config: Mapping[str, str], protocol: str) -> Login | None:
    if not protocol.startswith("SASL_"):
        return None
    mechanism = config.get("sasl.mechanism", config.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in MECHANISMS:
        raise BadInput(f"sasl.mechanism={mechanism} is not supported here; give one of {', '.join(MECHANISMS)}")
    if missing := sorted({"sasl.username", "sasl.password"} - config.keys()):
        raise BadInput(f"security.protocol={protocol} needs {' and '.join(missing)}, or a sasl.jaas.config with both")
    return Login(mechanism, config["sasl.username"], config["sasl.password"])


def _tls(config: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem"))
        with _own_certificate(config) as own:
            if own is not None:
                # Without any password, OpenSSL would ask for one on the terminal.
                context.load_cert_chain(*own, config.get("ssl.key.password", ""))
    except (OSError, ValueError) as refused:  # SSLError is an OSError
        where = {key: config[key] for key in _FILES if key in config}
        raise BadInput(
            f"the certificates for TLS cannot be used ({_text(refused)}); correct "
            f"{' and '.join(f'{key}={value}' for key, value in where.items()) or 'the settings that begin with ssl.'}"
        ) from refused
    context.check_hostname = config.get("ssl.endpoint.identification.algorithm") != "none"
    if config.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")


@contextmanager
def _own_certificate(config: Mapping[str, str]) -> Iterator[tuple[Path, Path | None] | None]:
    """Files with the client's certificate and its key, for brokers that ask for them; None without them."""
    if "ssl.certificate.location" in config:
        key = config.get("ssl.key.location")
        yield Path(config["ssl.certificate.location"]), None if key is None else Path(key)
        return
    if "ssl.certificate.pem" in config:
        pem = f"{config['ssl.certificate.pem']}\n{config.get('ssl.key.pem', '')}".encode()
    elif "ssl.keystore.location" in config:
        pem = _pem_of(Path(config["ssl.keystore.location"]), config.get("ssl.keystore.password", ""))
    else:
        yield None
        return
    # Python reads them from a file only. This one is readable for its owner alone, and deleted at once.
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        yield Path(name), None
    finally:
        Path(name).unlink()


def _pem_of(store: Path, password: str) -> bytes:
    """The key and the certificates of a PKCS12 store, without a password."""
    # Imported here, because it takes 6 MiB, and most clients need it never.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    content = store.read_bytes()
    if content.startswith(_PEM):
        return content
    opened = load_pkcs12(content, password.encode() or None)
    if opened.key is None or opened.cert is None:
        raise ValueError("the key store has no key with a certificate")
    key = opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = (one.certificate.public_bytes(Encoding.PEM) for one in (opened.cert, *opened.additional_certs))
    return b"".join((key, *chain))


def _text(refused: OSError | ValueError) -> str:
    if isinstance(refused, ssl.SSLError):
        return (refused.reason or str(refused)).replace("_", " ").lower()
    return getattr(refused, "strerror", None) or str(refused)
