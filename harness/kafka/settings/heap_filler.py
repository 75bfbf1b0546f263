"""Fills the heap of a running broker or controller through its listener.

A request begins with its size, and the server allocates that much heap before it has received anything else
(NetworkReceive; socket.request.max.bytes is 100 MiB by default). Connections that announce large requests and send
nothing more exhaust a smaller heap. In production, programs with another protocol do this by accident.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from harness.model.errors import HarnessFailure
from harness.model.limits import HEAP, MIB

ANNOUNCED: Final = 96 * MIB
CONNECTIONS: Final = 2 * HEAP // ANNOUNCED + 1
_CONNECT_S: Final = 5.0


@contextmanager
def filled_heap(address: tuple[str, int]) -> Iterator[None]:
    """Announces requests of twice a node's heap while the block runs.

    HarnessFailure when the first connection fails.
    """
    with ExitStack() as connections:
        for number in range(CONNECTIONS):
            try:
                connection = connections.enter_context(socket.create_connection(address, _CONNECT_S))
                connection.sendall(struct.pack(">i", ANNOUNCED))
            except OSError as refused:
                if not number:
                    raise HarnessFailure(f"{address[0]}:{address[1]} accepts no request: {refused}") from refused
                break  # the earlier requests have ended the node
        yield
