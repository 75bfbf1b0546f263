"""Brokers have no right to their remote tier any more: what they ask for is refused until they have it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.step import Injection
from harness.faults.steps.step_context import Stage
from harness.faults.tier.common import ServerFault, copies_failed
from harness.model.errors import BadInput

# Of Amazon's client, in the trace of a failed copy: the server's own word, and what it stands for in HTTP.
_REFUSED: Final = r"SignatureDoesNotMatch|InvalidAccessKeyId|AccessDenied|Status Code: 403"


@dataclass(frozen=True, kw_only=True)
class TierDenied(ServerFault):
    """Revokes the keys by which brokers store and read in a tier in S3: its server starts anew, and takes others."""

    do: ClassVar[str] = "tier_denied"

    @contextmanager
    def active(self, stage: Stage) -> Iterator[Injection]:
        server = stage.cluster.tier_server
        if server is None:
            raise BadInput("this cluster has no server of a remote tier")
        try:
            server.turn_away()
            yield Injection(resolved={}, probe=copies_failed(stage, _REFUSED), deadline_s=40.0)
        finally:
            server.admit()
