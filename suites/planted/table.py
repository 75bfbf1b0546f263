"""Every plant: imports the modules that register them."""

from __future__ import annotations

from suites.planted import (
    of_admins,
    of_brokers,
    of_compaction,
    of_evidence,
    of_lookups,
    of_probes,
    of_readers,
    of_records,
    of_runs,
    of_shares,
    of_tier,
    of_transactions,
)
from suites.planted.plants import PLANTS

__all__ = [
    "PLANTS",
    "of_admins",
    "of_brokers",
    "of_compaction",
    "of_evidence",
    "of_lookups",
    "of_probes",
    "of_readers",
    "of_records",
    "of_runs",
    "of_shares",
    "of_tier",
    "of_transactions",
]
