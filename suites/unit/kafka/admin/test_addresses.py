"""The form of --bootstrap is checked at once, by one sentence that names the wrong part."""

from __future__ import annotations

import pytest

from harness.commands import cli
from harness.kafka.admin.addresses import addresses_of, check_addresses
from harness.kafka.admin.live_client import OrdinaryClient
from harness.model.errors import BadInput
from harness.model.exits import Exit


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092",
        "kafka-1.example.org:9092,kafka_2:65535",
        "example.org.:1",
        "127.0.0.1:9092",
        "[::1]:9092",
        "[fe80::1%eth0]:9092",
        "a:1, b:2",
    ],
)
def test_a_name_an_ipv4_and_an_ipv6_address_with_a_port_are_addresses(text: str) -> None:
    check_addresses(text)


def test_addresses_become_hosts_and_ports() -> None:
    expected = [("a.b", 1), ("::1", 9092), ("127.0.0.1", 65535)]
    assert list(addresses_of("a.b:1, [::1]:9092,127.0.0.1:65535")) == expected
    with pytest.raises(BadInput, match="--controllers 'a': the address 'a' has no port"):
        addresses_of("a", "--controllers")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "the address is empty"),
        ("a:1,", "the address is empty"),
        ("localhost", "'localhost' has no port"),
        ("localhost:", "'localhost:' has no port"),
        (":9092", "':9092' has no host"),
        ("a:1,localhost:0", "'localhost:0' has the port '0', which is no number from 1 to 65535"),
        ("localhost:65536", "the port '65536', which is no number"),
        ("localhost:kafka", "the port 'kafka', which is no number"),
        ("localhost:" + "9" * 5000, "which is no number"),
        ("local host:9092", "the host 'local host', which is no name of a machine"),
        ("-x:9092", "the host '-x', which is no name of a machine"),
        ("a..b:9092", "the host 'a..b', which is no name of a machine"),
        ("a" * 64 + ":9092", "which is no name of a machine"),
        ("256.1.1.1:9092", "the host '256.1.1.1', which is no IPv4 address"),
        ("1.2.3:9092", "the host '1.2.3', which is no IPv4 address"),
        ("::1:9092", "more than one colon: an IPv6 address stands in brackets"),
        ("[::1:9092", "has no ] after its IPv6 address"),
        ("[::1]", "'[::1]' has no port"),
        ("[::1]9092", "has '9092' between its IPv6 address and its port"),
        ("[127.0.0.1]:9092", "the host '127.0.0.1', which is no IPv6 address"),
        ("SSL://localhost:9092", "has a protocol in front, which stands in --command-config"),
        ("http://localhost:9092", "has a protocol in front"),
    ],
)
def test_anything_else_is_refused_with_the_wrong_part(text: str, wrong: str) -> None:
    with pytest.raises(BadInput) as refusal:
        OrdinaryClient(text, {})
    assert wrong in str(refusal.value)
    assert str(refusal.value).endswith("give HOST:PORT, with commas between several, and an IPv6 address as [::1]:9092")


def test_the_command_names_the_wrong_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["contract", "--bootstrap", "localhost:99999"]) is Exit.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "durability: --bootstrap 'localhost:99999': the address 'localhost:99999' has the port '99999'"
    )
