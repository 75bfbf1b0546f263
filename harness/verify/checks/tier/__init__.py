"""The remote tier (KIP-405): every offset of a tiered topic is in the logs of the brokers or in a whole copy."""

from __future__ import annotations

from typing import Final

from harness.model.finding import Kind
from harness.verify.checks.tier.seam import judged
from harness.verify.checks.tier.state import TIERS
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
    on_driver=(TIERS,),
    adds=judged,
    planted=(
        "tier_gap_never_copied",
        "tier_gap_never_finished",
        "tier_gap_of_another_lineage",
        "near_tier_gap_copied_again",
        "near_tier_gap_still_on_the_brokers",
        "tier_gap_reported_as_copied",
        "tier_object_missing",
        "tier_object_without_index",
        "tier_object_too_short_from_the_start",
        "tier_object_damaged",
        "near_tier_object_of_a_deleted_copy",
        "near_tier_object_without_metadata",
        "near_tier_object_copied_again",
        "tier_state_finished_after_its_deletion",
        "near_tier_state_repeated",
        "near_tier_state_of_two_brokers",
        "tier_not_read",
        "tier_metadata_unreadable",
    ),
)
