"""Brokers that lose the access rights to their remote tier: the server refuses their requests until it is healed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.faults.steps.declared_facts import Declared, Declares
from harness.faults.steps.step import Injection
from harness.faults.steps.step_context import StepContext
from harness.faults.tier.common import ServerFault, copies_failed
from harness.model.errors import BadInput
from harness.model.facts import FactKind

# Amazon's client prints them in the stack trace of a failed copy: the error code of the server, and the HTTP status.
_REFUSED: Final = r"SignatureDoesNotMatch|InvalidAccessKeyId|AccessDenied|Status Code: 403"


@dataclass(frozen=True, kw_only=True)
class TierDenied(ServerFault):
    """The server restarts, and accepts other keys than the brokers have."""

    do: ClassVar[str] = "tier_denied"
    facts: ClassVar[Declares] = (Declared(FactKind.TIER_UNAVAILABLE),)
    summary: ClassVar[str] = "Revokes the access keys of the brokers to a tier in S3; healing restores them."
    proof: ClassVar[str] = (
        "tiered partitions had acks, and the log of a broker that failed to copy a segment has the server's refusal"
    )

    @contextmanager
    def active(self, context: StepContext) -> Iterator[Injection]:
        server = context.cluster.tier_server
        if server is None:
            raise BadInput('this cluster has no server of a remote tier; set tier = "s3" in [shape]')
        try:
            server.turn_away()
            yield Injection(resolved={}, probe=copies_failed(context, _REFUSED), deadline_s=40.0)
        finally:
            server.admit()
