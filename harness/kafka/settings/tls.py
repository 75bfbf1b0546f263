"""TLS and passwords of one run: its own authority, key stores of brokers, and settings of brokers and clients.

Stores are PEM files (KIP-651), which every supported release reads without a password. Keys are RSA, because a small
JRE may lack the module for elliptic curves. Secret files are readable for their owner only.
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
BETWEEN_BROKERS: Final = "SSL"  # with a certificate of this run on both sides
SINCE: Final = (3, 5)  # users of SCRAM without ZooKeeper (KIP-900)
SCRAM_SHA_512: Final = 2  # its number in requests
ITERATIONS: Final = 4096
# Wide on both sides, because faults change the clocks of brokers, and a cluster may be kept.
_VALID: Final = timedelta(days=3650)
_KEY_BITS: Final = 2048
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True, slots=True)
class Stores:
    """PEM files of a broker: its key with its certificates, and the certificates that it trusts."""

    key: Path
    trust: Path


class Authority:
    """Signs certificates of one run. Its own key exists only in this process."""

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
        """Its certificate, which brokers and clients trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def key_store(self, name: str, names: Iterable[str], addresses: Iterable[str]) -> bytes:
        """A new key with a certificate for these host names and addresses, for use as a server and as a client."""
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
    """A random password of letters and digits, which no file format has to quote."""
    return secrets.token_hex(24)


def salted(password: str, salt: bytes) -> bytes:
    """The salted password that brokers keep for MECHANISM (RFC 5802)."""
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)


def broker_properties(stores: Stores, client_listeners: Iterable[str], internal: str) -> dict[str, str]:
    """The settings of a broker for TLS, without its map of protocols. internal: the listener between brokers."""
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
    """The settings of librdkafka. It verifies host names by default; the setting makes that explicit."""
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(authority),
        "ssl.endpoint.identification.algorithm": "https",
    }


def java_settings(authority: Path, password: str) -> Mapping[str, str]:
    """Settings of a client, for the --command-config of Kafka's own tools."""
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }
