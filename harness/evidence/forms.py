"""The keys of a contract in run.json, with their types, and the words of format version 1. FORMAT.md explains them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.evidence.shapes import Many, Shape, misfit
from harness.model.errors import BadEvidence
from harness.model.schemas import ACKS, FORMAT_VERSION, ISOLATIONS, TIMESTAMP_TYPES

_PLACE: Final = {"topic": "string", "partition": "int"}

_CONTRACT: Final = {
    "topics": Many(
        {
            "topic": "string",
            "replicas": "int",
            "min_insync_replicas": "int",
            "unclean_election": "bool",
            "retention_ms": "int",
            "retention_bytes": "int",
            "segment_bytes": "int",
            "compacted": "bool",
            "timestamp_type": TIMESTAMP_TYPES,
            "delete_records": "bool",
            "flush_messages?": "int",
            "flush_ms?": "int",
            "tiered?": "bool",
            "tier_off?": "bool",
            "last_replica?": "bool",
            "codec?": "string",
            "deletes?": "bool",
            "delete_retention_ms?": "int",
            "compaction_lag_ms?": "int",
        }
    ),
    "producers": Many(
        {
            "producer": "string",
            "acks": ACKS,
            "idempotent": "bool",
            "transactional": "bool",
            "backdated_ms?": "int",
            "epoch_each?": "bool",
            "retries?": "bool",
            "one_in_flight?": "bool",
            "new_epoch_retries?": "bool",
        }
    ),
    "exact_losses": [{**_PLACE, "count": "int"}],
    "readers?": Many({"reader": "string", "group": "string", "at_most_once": "bool", "reset?": "string"}),
    "processors?": Many(
        {"processor": "string", "group": "string", "commits": ("transaction", "after", "before"), "reads": ["string"]}
    ),
    "shares?": Many(
        {"group": "string", "topics": ["string"], "isolation": ISOLATIONS, "limit": "int", "lock_ms?": "int"}
    ),
    "deletions?": ["string"],
    "group_deletions?": ["string"],
    "object_deletions?": ["string"],
    "offsets?": {
        "partitions": "int",
        "replicas": "int",
        "min_insync_replicas": "int",
        "unclean_election": "bool",
        "retention_minutes?": "int",
    },
    "tier?": {"partitions": "int", "replicas": "int", "min_insync_replicas": "int", "unclean_election": "bool"},
    "producer_expiration_ms?": "int",
    "start_checkpoint_ms?": "int",
    "changes?": [{"step": "string", "topic": "string", "config": {}}],
}

# Keys of format version 1 that have another name since. Unknown keys are ignored, so evidence that was written by them
# would be read as if it said nothing. "*" stands for every member of a list.
_FORMER: Final[dict[str, dict[tuple[str, ...], str]]] = {
    "run.json": {("weakened",): "negative_control"},
    "steps.json": {("*", "bite"): "effect"},
    "scenario.json": {
        ("guards",): "property",
        ("weakening",): "negative_control",
        ("permits",): "allowed_anomalies",
        ("share",): "load_weight",
        ("shape", "lone"): "isolated_client",
        ("producers", "*", "lone"): "isolated_client",
        ("readers", "*", "lone"): "isolated_client",
        ("admin", "*", "things"): "entities",
    },
}

FORMS: Final[dict[str, Shape]] = {
    "run.json": {"contract": _CONTRACT},
}


def check_form(file: Path, document: Any) -> None:
    """BadEvidence that names the file and the field where a document is not as FORMAT.md says."""
    if wrong := misfit(document, FORMS[file.name]):
        verb = " " if wrong.startswith(("has ", "is ")) else ": "
        raise BadEvidence(f"{file}{verb}{wrong}; write it as FORMAT.md says and seal again")


def check_former_words(file: Path, document: Any) -> None:
    """BadEvidence if a document has a key of an older format version."""
    for path, name in _FORMER.get(file.name, {}).items():
        if _has(document, path):
            raise BadEvidence(
                f"{file} has the key {path[-1]!r} of format version 1, which is {name!r} in version {FORMAT_VERSION}; "
                "judge the bundle with the harness that wrote it, or write it as FORMAT.md says if it is yours"
            )


def _has(value: Any, path: tuple[str, ...]) -> bool:
    if not path:
        return True
    key, *rest = path
    if key == "*":
        return isinstance(value, list) and any(_has(one, tuple(rest)) for one in value)
    return isinstance(value, dict) and key in value and _has(value[key], tuple(rest))
