"""The webhook of --notify: one POST with a JSON body, in bounded time. It never changes a verdict or an exit code."""

from __future__ import annotations

import threading
from typing import Final
from urllib.parse import urlsplit

import urllib3

from harness.model.errors import BadInput

TIMEOUT_S: Final = 10.0  # for all of it: name look-up, connection, and the head of the answer
_CONNECT_S: Final = 5.0
_READ_S: Final = 30.0  # the sender ends then, long after its caller


def check_url(url: str, option: str = "--notify") -> str:
    """The address itself. BadInput unless a POST can be sent to it by HTTP."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
        usable = usable and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"{option}: the address is not one of http or https; give it as https://host/path")
    return url


def post(url: str, body: bytes) -> str | None:
    """Sends the body. None if the server accepted it, else a sentence, without the address, which may hold a secret."""
    answers: list[str | None] = []
    # A thread: no time limit of a socket covers the look-up of a name, or a server that answers one byte at a time.
    sender = threading.Thread(target=lambda: answers.append(_sent(url, body)), name="notify", daemon=True)
    sender.start()
    sender.join(TIMEOUT_S)
    host = urlsplit(url).hostname
    failure = answers[0] if answers else f"no answer within {TIMEOUT_S:g} s"
    return None if failure is None else f"{host} was not notified: {failure}"


def _sent(url: str, body: bytes) -> str | None:
    try:
        with urllib3.PoolManager(retries=False) as pool:
            answer = pool.request(
                "POST",
                url,
                body=body,
                headers={"Content-Type": "application/json", "User-Agent": "kafka-durability"},
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
                redirect=False,
                preload_content=False,  # the body of the answer is not read
            )
            status = answer.status
            answer.close()
    except Exception as failure:  # also a bug of a library: the verdict is known, and stays
        return type(failure).__name__
    return None if 200 <= status < 300 else f"it answered {status}"
