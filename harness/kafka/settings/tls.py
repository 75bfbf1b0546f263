"""TLS and passwords of one run: an authority made for it, key stores of brokers, settings of brokers and clients.

Stores are PEM files (KIP-651), which every release that runs here reads without a password of their own. Keys are RSA:
a small JRE may lack the module for elliptic curves. What is secret is written for its owner alone.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-512"
USER: Final = "durability"
BETWEEN_BROKERS: Final = "SSL"  # each shows the other a certificate of this run
SINCE: Final = (3, 5)  # users of SCRAM without ZooKeeper (KIP-900)
SCRAM_SHA_512: Final = 2  # as requests have it
ITERATIONS: Final = 4096
# Wide on both sides: brokers may be told that it is another day, and a cluster may be kept.
_VALID: Final = timedelta(days=3650)
_KEY_BITS: Final = 2048
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True, slots=True)
class Stores:
    """PEM files that a broker is told of: its key with its certificates, and whom it trusts."""

    key: Path
    trust: Path


class Authority:
    """Signs certificates of one run. Its own key is in no file and ends with this process."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, _KEY_BITS)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka-durability, for one run")])
        self._certificate = (
            _unsigned(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """Its certificate: what everybody trusts."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def key_store(self, name: str, names: Iterable[str], addresses: Iterable[str]) -> bytes:
        """A new key with its certificate, good for these host names and addresses, by a server and by a client."""
        key = rsa.generate_private_key(65537, _KEY_BITS)
        alternatives = [
            *map(x509.DNSName, sorted(set(names))),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(set(addresses))),
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _unsigned(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private + certificate.public_bytes(serialization.Encoding.PEM) + self.pem


def _unsigned(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def new_password() -> str:
    """Of letters and digits, so that no file format has to quote it."""
    return secrets.token_hex(24)


def salted(password: str, salt: bytes) -> bytes:
    """What brokers keep of a password for MECHANISM (RFC 5802)."""
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)


def broker_properties(stores: Stores, client_listeners: Iterable[str], internal: str) -> dict[str, str]:
    """server.properties of a broker beside its map of protocols. internal: the listener by which brokers meet."""
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(stores.key),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(stores.trust),
        f"listener.name.{internal.lower()}.ssl.client.auth": "required",
    }
    for listener in client_listeners:
        prefix = f"listener.name.{listener.lower()}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{_LOGIN};",
        }
    return properties


def client_settings(authority: Path, password: str) -> dict[str, str]:
    """Of librdkafka, which looks at the broker's host name by itself; it is said, so that nobody doubts it."""
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(authority),
        "ssl.endpoint.identification.algorithm": "https",
    }


def java_settings(authority: Path, password: str) -> Mapping[str, str]:
    """The same as Kafka's own tools take it by --command-config."""
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }
