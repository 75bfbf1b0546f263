"""The excuse of a finding: its name, and where the evidence is that permits the finding."""

from __future__ import annotations

from typing import Annotated, Final

from harness.model.described import Described
from harness.model.documents.record import Record, meaning

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


class Evidence(Record, frozen=True, kw_only=True):
    """A reference into the evidence."""

    kind: Annotated[EvidenceKind, meaning("the kind of evidence, see above")]
    what: Annotated[str, meaning("what it is, see above")]
    step: Annotated[str | None, meaning("the name of a step")] = None
    at_ns: Annotated[int | None, meaning("when it happened; null = unknown, or always")] = None


class Excused(Record, frozen=True, kw_only=True):
    """The excuse of a finding. Where several events permit the records of a finding, the evidence is one of them."""

    name: Annotated[str, meaning("its name, see above")]
    evidence: Annotated[Evidence, meaning("where the evidence is")]
