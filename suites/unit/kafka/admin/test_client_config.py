"""Settings of a client as Kafka's own tools have them: their translation, and the sentences that refuse some."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

from harness.kafka.admin.client_config import client_config, read_properties
from harness.kafka.settings.node_settings import properties_text
from harness.kafka.settings.tls import Authority, java_settings
from harness.model.errors import BadInput

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def config(file: Path, *lines: str) -> dict[str, str]:
    file.write_text("".join(f"{line}\n" for line in lines))
    return client_config(file)


def test_settings_for_javas_tools_become_those_of_librdkafka(authority: Authority, file: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority.pem)
    file.write_text(properties_text(java_settings(trusted, "word")))
    assert client_config(file) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "durability",
        "sasl.password": "word",
        "ssl.ca.location": str(trusted),
    }


def test_a_properties_file_is_read_as_java_reads_it(file: Path) -> None:
    file.write_text(
        "! a remark\n  # another\n\na = 1\nb:2\nc 3\nd\\:e=f\\\\g\n"
        "long=one \\\n    two\\\n  three\nu=\\u0041\\tz\nempty=\n"
    )
    assert read_properties(file) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d:e": "f\\g",
        "long": "one twothree",
        "u": "A\tz",
        "empty": "",
    }


def test_a_login_may_span_several_lines(file: Path) -> None:
    login = (f"sasl.jaas.config={PLAIN} required \\", '  username="a b" \\', '  password="c;d=e";')
    reported = config(file, "security.protocol=sasl_ssl", "sasl.mechanism=PLAIN", *login)
    assert reported == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a b",
        "sasl.password": "c;d=e",
    }


def test_names_of_librdkafka_are_passed_on_unchanged(file: Path) -> None:
    reported = config(file, "sasl.username=a", "ssl.ca.location=/x", "ssl.endpoint.identification.algorithm=https")
    assert reported == {
        "sasl.username": "a",
        "ssl.ca.location": "/x",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_host_name_verification_can_be_switched_off(file: Path) -> None:
    assert config(file, "ssl.endpoint.identification.algorithm=") == {"ssl.endpoint.identification.algorithm": "none"}


def test_a_trust_store_made_by_keytool_is_read(authority: Authority, file: Path, tmp_path: Path) -> None:
    certificate = PKCS12Certificate(load_pem_x509_certificate(authority.pem), b"ca")
    store = tmp_path / "trust.jks"  # the suffix does not decide its kind
    store.write_bytes(serialize_java_truststore([certificate], BestAvailableEncryption(b"word")))
    lines = (f"ssl.truststore.location={store}", "ssl.truststore.type=JKS")
    assert config(file, *lines, "ssl.truststore.password=word") == {"ssl.ca.pem": authority.pem.decode()}
    with pytest.raises(BadInput, match=r"cannot be opened: .*; look at ssl\.truststore\.password"):
        config(file, *lines, "ssl.truststore.password=other")


def test_certificates_inside_the_properties_file_are_used(file: Path) -> None:
    assert config(file, "ssl.truststore.type=PEM", "ssl.truststore.certificates=A\\nB") == {"ssl.ca.pem": "A\nB"}
    reported = config(file, "ssl.keystore.type=PEM", "ssl.keystore.key=K", "ssl.keystore.certificate.chain=C")
    assert reported == {"ssl.key.pem": "K", "ssl.certificate.pem": "C"}


def test_the_clients_own_certificate_is_passed_on(authority: Authority, file: Path, tmp_path: Path) -> None:
    pem, other = tmp_path / "key.pem", tmp_path / "key.p12"
    pem.write_bytes(authority.key_store("me", ["me"], []))
    other.write_bytes(b"\x30\x82")
    assert config(file, f"ssl.keystore.location={pem}", "ssl.key.password=word") == {
        "ssl.key.location": str(pem),
        "ssl.certificate.location": str(pem),
        "ssl.key.password": "word",
    }
    assert config(file, f"ssl.keystore.location={other}", "ssl.keystore.password=word") == {
        "ssl.keystore.location": str(other),
        "ssl.keystore.password": "word",
    }


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["security.protocol=TLS"],
            "security.protocol=TLS is unknown; it is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (["sasl.jaas.config=nonsense"], "sasl.jaas.config is not understood"),
        (["sasl.mechanism=PLAIN", f"sasl.jaas.config={PLAIN} required"], "sasl.jaas.config is not understood"),
        (
            [f'sasl.jaas.config={PLAIN} required username="a" password="b";'],
            "sasl.mechanism=GSSAPI by PlainLoginModule is not supported here",
        ),
        (
            ["sasl.mechanism=SCRAM-SHA-256", f'sasl.jaas.config={PLAIN} required username="a" password="b";'],
            "sasl.mechanism=SCRAM-SHA-256 by PlainLoginModule is not supported here",
        ),
        (
            ["sasl.mechanism=OAUTHBEARER", "sasl.jaas.config=org.x.OAuthBearerLoginModule required;"],
            "sasl.mechanism=OAUTHBEARER by OAuthBearerLoginModule is not supported here",
        ),
        (
            ["sasl.mechanism=SCRAM-SHA-256", f'sasl.jaas.config={SCRAM} required username="a";'],
            "sasl.jaas.config has no password",
        ),
        (
            [
                "sasl.mechanism=SCRAM-SHA-256",
                f'sasl.jaas.config={SCRAM} required username="a" password="b" tokenauth="true";',
            ],
            "delegation tokens are not supported here",
        ),
        (["ssl.truststore.place=/x"], "ssl.truststore.place is not a setting of a trust store"),
        (["ssl.keystore.alias=x"], "ssl.keystore.alias is not a setting of a key store"),
        (["ssl.truststore.location=/nowhere/at/all"], "/nowhere/at/all cannot be read: No such file or directory"),
        (["ssl.truststore.location={jks}"], "is a JKS store, which is not supported; make it PKCS12: keytool"),
    ],
)
def test_settings_without_counterpart_in_librdkafka_are_refused(
    lines: list[str], said: str, file: Path, tmp_path: Path
) -> None:
    jks = tmp_path / "old.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(BadInput) as refused:
        config(file, *(line.replace("{jks}", str(jks)) for line in lines))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"--command-config {file}")
