"""The remote tier (KIP-405): every offset of a tiered topic is in the logs of the brokers or in a whole copy."""

from __future__ import annotations

from typing import Final

from harness.model.finding import Kind
from harness.verify.promise import Check, Introduced

CHECK: Final = Check(
    promise="Every offset of a tiered topic is in the logs of the brokers or in a whole copy in the remote tier.",
    kinds={
        Kind.TIER_GAP: Introduced(
            promise="a segment is deleted locally only when its remote copy is finished (KIP-405)"
        ),
        Kind.TIER_OBJECT: Introduced(
            promise="a finished copy is complete, and stays unchanged until it is deleted (KIP-405)"
        ),
        Kind.TIER_STATE: Introduced(promise="a remote copy is started, finished and deleted, in this order (KIP-405)"),
    },
)
