"""Reads a client's settings from a file, in the names of Kafka's own tools or of librdkafka, for librdkafka.

Names that Java and librdkafka share are passed on unchanged. Java's own names for security are translated: the login
(sasl.jaas.config), the trusted certificates (ssl.truststore.*) and the client's certificate (ssl.keystore.*).
librdkafka refuses unknown names when a client is created.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from harness.model.errors import BadInput
from harness.model.user_files import STORE_MAX, read_bytes, read_text, reason

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Java's login module -> its mechanisms that need only a name and a password.
_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": frozenset({"PLAIN"}),
    "org.apache.kafka.common.security.scram.ScramLoginModule": frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}),
}
_STORES: Final = {"ssl.truststore": "a trust store", "ssl.keystore": "a key store"}
_JKS: Final = b"\xfe\xed\xfe\xed"
_PEM: Final = b"-----BEGIN"
_VALUE: Final = r'[\w.]+\s*=\s*(?:"[^"]*"|[^\s;"]+)'
_JAAS: Final = re.compile(rf"\s*(?P<module>[\w.$]+)\s+\w+(?P<options>(?:\s+{_VALUE})*)\s*;\s*")
_OPTION: Final = re.compile(r'([\w.]+)\s*=\s*(?:"([^"]*)"|([^\s;"]+))')
_ENDS: Final = re.compile(r"[ \t\f]*[=:][ \t\f]*|[ \t\f]+")
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def client_config(path: Path) -> dict[str, str]:
    """The settings for librdkafka.

    BadInput, in one sentence, for an unreadable file or one without counterpart there.
    """
    given = read_properties(path)
    where = f"--command-config {path}"
    settings = {key: value for key, value in given.items() if not key.startswith(tuple(_STORES))}
    settings |= _protocol(given, where)
    if "sasl.jaas.config" in given:
        del settings["sasl.jaas.config"]
        settings |= _login(given, where)
    if given.get("ssl.endpoint.identification.algorithm") == "":  # in Java: do not check host names
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return {**settings, **_trusted(given, where), **_certificate(given, where)}


def read_properties(path: Path) -> dict[str, str]:
    """The entries of a Java properties file or any file of `key=value` lines. BadInput for anything else."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"--command-config {path} cannot be read: {reason(error)}; give a file of key=value lines"
        ) from error
    found = {}
    for number, line in _logical_lines(text):
        end = next((m for m in _ENDS.finditer(line) if not _escaped(line, m.start())), None)
        if end is None:
            raise BadInput(f"--command-config {path}, line {number}: {line!r} is not key=value")
        found[_plain(line[: end.start()])] = _plain(line[end.end() :]).strip()
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each entry with the number of its first line. A line that ends in a backslash continues in the next one."""
    began, whole = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not whole and (not line or line[0] in "#!"):
            continue
        began = number if not whole else began
        line = line.rstrip() if not whole else line
        if _escaped(line, len(line)):
            whole += line[:-1]
            continue
        yield began, whole + line
        whole = ""
    if whole:
        yield began, whole


def _escaped(line: str, at: int) -> bool:
    """Whether an odd number of backslashes precedes a position."""
    before = line[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    """The text with Java's escapes resolved."""

    def one(match: re.Match[str]) -> str:
        letter = match[1]
        return chr(int(letter[1:], 16)) if len(letter) == 5 else _LETTERS.get(letter, letter)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def _protocol(given: Mapping[str, str], where: str) -> dict[str, str]:
    said = given.get("security.protocol")
    if said is not None and said.upper() not in PROTOCOLS:
        raise BadInput(f"{where}: security.protocol={said} is unknown; it is one of {', '.join(PROTOCOLS)}")
    return {} if said is None else {"security.protocol": said.upper()}


def _login(given: Mapping[str, str], where: str) -> dict[str, str]:
    """The name and the password in a line of JAAS."""
    match = _JAAS.fullmatch(given["sasl.jaas.config"])
    if match is None:
        raise BadInput(
            f'{where}: sasl.jaas.config is not understood; write MODULE required username="NAME" password="WORD";'
        )
    module, mechanism = match["module"], given.get("sasl.mechanism", "GSSAPI")
    if module not in _MODULES or mechanism not in _MODULES[module]:
        name = module.rpartition(".")[2]
        raise BadInput(
            f"{where}: sasl.mechanism={mechanism} by {name} is not supported here; supported are PLAIN by "
            "PlainLoginModule, and SCRAM-SHA-256 and SCRAM-SHA-512 by ScramLoginModule"
        )
    options = {key: quoted or bare for key, quoted, bare in _OPTION.findall(match["options"])}
    if options.get("tokenauth", "").lower() == "true":
        raise BadInput(f"{where}: sasl.jaas.config: delegation tokens are not supported here; give a password")
    if missing := sorted({"username", "password"} - options.keys()):
        raise BadInput(f"{where}: sasl.jaas.config has no {' and no '.join(missing)}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _trusted(given: Mapping[str, str], where: str) -> dict[str, str]:
    _only(given, where, "ssl.truststore", ("type", "location", "password", "certificates"))
    if "ssl.truststore.certificates" in given:
        return {"ssl.ca.pem": given["ssl.truststore.certificates"]}
    if "ssl.truststore.location" not in given:
        return {}
    location, content = _store(given, where, "ssl.truststore")
    if content.startswith(_PEM):
        return {"ssl.ca.location": str(location)}
    # Imported here, because it takes 6 MiB, and most files need it never.
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        store = load_pkcs12(content, given.get("ssl.truststore.password", "").encode() or None)
    except ValueError as refused:
        raise BadInput(
            f"{where}: ssl.truststore.location={location} cannot be opened: {refused}; look at ssl.truststore.password"
        ) from refused
    trusted = [one.certificate for one in (*([store.cert] if store.cert else []), *store.additional_certs)]
    if not trusted:
        raise BadInput(f"{where}: ssl.truststore.location={location} holds no certificate")
    return {"ssl.ca.pem": "".join(one.public_bytes(Encoding.PEM).decode() for one in trusted)}


def _certificate(given: Mapping[str, str], where: str) -> dict[str, str]:
    """The client's certificate and key, for brokers that require them."""
    _only(given, where, "ssl.keystore", ("type", "location", "password", "key", "certificate.chain"))
    inline = {"ssl.keystore.key": "ssl.key.pem", "ssl.keystore.certificate.chain": "ssl.certificate.pem"}
    if found := {ours: given[theirs] for theirs, ours in inline.items() if theirs in given}:
        return found
    if "ssl.keystore.location" not in given:
        return {}
    location, content = _store(given, where, "ssl.keystore")
    if content.startswith(_PEM):
        return {"ssl.key.location": str(location), "ssl.certificate.location": str(location)}
    password = given.get("ssl.keystore.password")
    return {"ssl.keystore.location": str(location), **({"ssl.keystore.password": password} if password else {})}


def _only(given: Mapping[str, str], where: str, prefix: str, known: tuple[str, ...]) -> None:
    for key in given:
        if key.startswith(f"{prefix}.") and key.removeprefix(f"{prefix}.") not in known:
            raise BadInput(f"{where}: {key} is not a setting of {_STORES[prefix]}; it has {', '.join(known)}")


def _store(given: Mapping[str, str], where: str, prefix: str) -> tuple[Path, bytes]:
    """The path and the content of a store. The content decides its kind, as Java reads both kinds under either type."""
    location = Path(given[f"{prefix}.location"])
    try:
        content = read_bytes(location, STORE_MAX)
    except OSError as refused:
        raise BadInput(f"{where}: {prefix}.location={location} cannot be read: {refused.strerror}") from refused
    if content.startswith(_JKS):
        raise BadInput(
            f"{where}: {prefix}.location={location} is a JKS store, which is not supported; make it PKCS12: keytool "
            f"-importkeystore -srckeystore {location} -destkeystore NEW.p12 -deststoretype pkcs12"
        )
    return location, content
