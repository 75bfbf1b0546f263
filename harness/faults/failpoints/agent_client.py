"""Gives rules to the agent of a node, and takes them back: the text protocol of Byteman's TransformListener.

A client of our own, because Byteman's needs another jar and a JVM for each call.
"""

from __future__ import annotations

import re
import socket
from typing import Final

from harness.model.errors import HarnessFailure, HarnessTimeout

# A busy machine transforms a class, and all methods that were inlined into others, in less than a second.
ANSWER_S: Final = 30.0
_END: Final = "OK"
_REFUSED: Final = re.compile(r"^(?:ERROR|EXCEPTION)\b.*", re.MULTILINE)
_UNKNOWN: Final = re.compile(r"^ERROR (?:failed to find loaded rule|No rule scripts to remove)\b.*", re.MULTILINE)


def install(address: tuple[str, int], name: str, rule: str) -> None:
    """Installs a rule. HarnessFailure when the agent refuses it, and HarnessTimeout when it does not answer."""
    _asked(address, ["LOAD", f"SCRIPT {name}", rule, "ENDSCRIPT", "ENDLOAD"])


def uninstall(address: tuple[str, int], name: str, rule: str) -> None:
    """Removes a rule, if the agent has it: a node that was started again has lost it. Errors as `install`."""
    _asked(address, ["DELETE", f"SCRIPT {name}", rule, "ENDSCRIPT", "ENDDELETE"], but=_UNKNOWN)


def installed(address: tuple[str, int]) -> str:
    """The rules that the agent has, with the methods that each was injected into, as text. Errors as `install`."""
    return _asked(address, ["LIST"])


def _asked(address: tuple[str, int], lines: list[str], but: re.Pattern[str] | None = None) -> str:
    """The answer to a command. but: errors in it that are none."""
    where = "the agent at {}:{}".format(*address)
    try:
        with socket.create_connection(address, timeout=ANSWER_S) as connection:
            connection.sendall("".join(f"{line}\n" for line in lines).encode())
            answer = _answer(connection)
    except TimeoutError as late:
        raise HarnessTimeout(f"waited {ANSWER_S:g} s for an answer of {where} to {lines[0]}") from late
    except OSError as broken:
        raise HarnessFailure(f"{where} cannot be reached: {broken.strerror or broken}") from broken
    if not answer.endswith(f"{_END}\n"):
        raise HarnessFailure(f"{where} ended the connection before it had answered {lines[0]}: {answer[-200:]!r}")
    answer = but.sub("", answer) if but else answer
    if refused := _REFUSED.search(answer):
        raise HarnessFailure(f"{where} refused {lines[0]}: {refused[0]} {answer[refused.end() :][:300].strip()}")
    return answer


def _answer(connection: socket.socket) -> str:
    """All that the agent writes until it closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")
