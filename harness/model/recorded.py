"""Names of the parts of the evidence that a run has written, as `recorded` of run.json lists them."""

from __future__ import annotations

from typing import Final

HISTORY: Final = "history.json"
POSITIONS: Final = "positions"
GIVEN: Final = "observations.given_ns"
PREVIOUS: Final = "observations.previous_offset"
ACK_OFFSETS: Final = "ledger.offset"
# Keys without which something is not judged.
RUN_KEYS: Final = (
    "recovered",
    "transactions_settled",
    "transactions_ended",
    "groups_at_rest",
    "readers_waited",
    "cleaners_at_rest",
    "tier_at_rest",
    "secured",
    "exits",
    "groups_resume",
    "begin_at_start",
    "calls_recorded",
    "timestamps",
)
CLUSTER_KEYS: Final = (
    "snapshots",
    "lineages",
    "group_answers",
    "share_groups",
    "brokers",
    "coordinators",
    "coordinators_under_load",
)


def of_run(key: str) -> str:
    """The name of a key of run.json."""
    return f"run.json: {key}"


def of_cluster(key: str) -> str:
    """The name of a key of cluster.json."""
    return f"cluster.json: {key}"


def positions_of(broker: int) -> str:
    """The name of the samples of one broker."""
    return f"{POSITIONS}/broker-{broker}"
