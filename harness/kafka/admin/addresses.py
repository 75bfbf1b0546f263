"""The form of bootstrap addresses: HOST:PORT, several with commas. A client would try for long what is no address."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from harness.model.errors import BadInput

PORT_MAX: Final = 65_535
_NAME_MAX: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_FORM: Final = "give HOST:PORT, with commas between several, and an IPv6 address as [::1]:9092"


def check_addresses(text: str, option: str = "--bootstrap") -> None:
    """BadInput, which names the wrong part, unless each part of `text` is a name or an IP address with a port."""
    for part in text.split(","):
        if wrong := _wrong(part.strip()):
            where = f" {part.strip()!r}" if part.strip() else ""
            raise BadInput(f"{option} {text!r}: the address{where} {wrong}; {_FORM}")


def addresses_of(text: str, option: str = "--bootstrap") -> tuple[tuple[str, int], ...]:
    """The hosts and ports of several addresses; BadInput as for `check_addresses`."""
    check_addresses(text, option)
    parts = (part.strip().rpartition(":") for part in text.split(","))
    return tuple((host.removeprefix("[").removesuffix("]"), int(port)) for host, _, port in parts)


def _wrong(address: str) -> str | None:
    """The mistake in one address; None when there is none."""
    if not address:
        return "is empty"
    if "://" in address:
        return "has a protocol in front, which stands in --command-config as security.protocol"
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if not closed:
            return "has no ] after its IPv6 address"
        if rest and not rest.startswith(":"):
            return f"has {rest!r} between its IPv6 address and its port"
        return _wrong_ip(host, 6) or _wrong_port(rest[1:])
    if address.count(":") > 1:
        return "has more than one colon: an IPv6 address stands in brackets"
    host, _, port = address.partition(":")
    return _wrong_host(host) or _wrong_port(port)


def _wrong_host(host: str) -> str | None:
    if not host:
        return "has no host"
    labels = host.removesuffix(".").split(".")
    if all(label.isdigit() for label in labels):
        return _wrong_ip(host, 4)
    if len(host) > _NAME_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        return f"has the host {host!r}, which is no name of a machine"
    return None


def _wrong_ip(host: str, version: int) -> str | None:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return f"has the host {host!r}, which is no IPv{version} address"
    return None if found.version == version else f"has the host {host!r}, which is no IPv{version} address"


def _wrong_port(port: str) -> str | None:
    if not port:
        return "has no port"
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX)) and 1 <= int(port) <= PORT_MAX):
        return f"has the port {port!r}, which is no number from 1 to {PORT_MAX}"
    return None
