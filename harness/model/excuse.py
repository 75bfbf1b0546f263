"""The excuse of a finding: its name, and where the evidence is that permits the finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.described import Described

# Names of excuses that other rooms read. Every other excuse is named only where it is declared, in harness/verify.
COMPACTION: Final = "compaction"
SHARE_ARCHIVED: Final = "share_archived"
TIER_METADATA_LOST: Final = "tier_metadata_lost"
TIER_OBJECTS_DELETED: Final = "tier_objects_deleted"


class EvidenceKind(Described):
    """The kinds of evidence of excuses. The contract is a part of each."""

    EVENT = "event", "An event of a step in steps.json; `what` is its kind."
    FACT = "fact", "A fact of a step in steps.json; `what` is its kind."
    ELECTION = "election", "A change of a leader in history.json, of the partition `what`."
    SNAPSHOT = "snapshot", "A report of the brokers in cluster.json; `what` is the key there."
    RECORDS = "records", "Rows of the table `what`."
    CONTRACT = "contract", "Nothing else: the contract in run.json permits it at any time; `what` is the key there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A reference into the evidence. step: the name of a step. at_ns: when it happened; None = unknown, or always."""

    kind: EvidenceKind
    what: str
    step: str | None = None
    at_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excused:
    """The excuse of a finding. name: as in `durability list excuses`. Where several events permit the records of a
    finding, the evidence is one of them."""

    name: str
    evidence: Evidence


def excused_from_dict(plain: Mapping[str, Any]) -> Excused:
    """The inverse of `dataclasses.asdict`. KeyError, TypeError or ValueError on any other shape."""
    evidence = plain["evidence"]
    return Excused(name=plain["name"], evidence=Evidence(**{**evidence, "kind": EvidenceKind(evidence["kind"])}))
