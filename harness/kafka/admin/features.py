"""Feature levels (KIP-584): those finalized, those the nodes support, and requests to change them (KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kafka.protocol.admin import UpdateFeaturesRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.quorum import PASSING, to_controller
from harness.kafka.admin.wire import ANSWER_S, Wire, call, error_name, finalized_levels, metadata_offset, versions_call
from harness.model.contract.contract import TRANSACTION_VERSION

Direction = Literal["up", "down"]
_UPGRADE_TYPES: Final[Mapping[Direction, int]] = {"up": 1, "down": 2}  # down: only if no metadata is lost
_TIMEOUT_MS: Final = 5000

ELR: Final = "eligible.leader.replicas.version"
_EVERY_CLUSTER_HAS: Final = "metadata.version"
OF_THE_QUORUM: Final = (_EVERY_CLUSTER_HAS, "kraft.version")


def features(wire: Wire, timeout_s: float = ANSWER_S) -> dict[str, int]:
    """Finalized feature levels from the broker with the newest metadata; a feature at level 0 is absent."""
    answers = wire.ask_all(versions_call(), timeout_s)
    if not answers:
        return {}
    newest = max(answers.values(), key=metadata_offset)
    return finalized_levels(newest)


def elr_level(levels: Mapping[str, int]) -> int | None:
    """The finalized level of ELR (KIP-966): 0 if it is off or unknown to the release; None if there are no levels."""
    return _level(levels, ELR)


def transaction_level(levels: Mapping[str, int]) -> int | None:
    """The finalized level of transactions (KIP-890): 2 if each has its own epoch, 0 in clusters older than 4.0."""
    return _level(levels, TRANSACTION_VERSION)


def _level(levels: Mapping[str, int], feature: str) -> int | None:
    return levels.get(feature, 0) if _EVERY_CLUSTER_HAS in levels else None


def supported_features(wire: Wire, timeout_s: float = ANSWER_S) -> dict[str, int]:
    """The highest level of each feature that every answering broker and controller supports."""
    question = versions_call(newest=4)
    reported = wire.gather(dict.fromkeys((*wire.brokers, *wire.controllers), (question,)), timeout_s)
    levels = [{f.name: f.max_version for f in answer.supported_features or ()} for (answer,) in reported.values()]
    common = set.intersection(*map(set, levels)) if levels else set()
    return {name: min(each[name] for each in levels) for name in sorted(common)}


def update_features(
    wire: Wire, levels: Mapping[str, int], direction: Direction, deadline_s: float, *, validate_only: bool = False
) -> str | None:
    """Asks the active controller to finalize levels, all or none, or only whether it would. Returns None, or the reason
    of its refusal.

    HarnessTimeout when no controller has given a final answer by the deadline.
    """
    kind = UpdateFeaturesRequest.FeatureUpdateKey
    question = call(
        UpdateFeaturesRequest,
        timeout_ms=_TIMEOUT_MS,
        feature_updates=[
            kind(feature=name, max_version_level=level, upgrade_type=_UPGRADE_TYPES[direction])
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    def passing(answer: ApiMessage) -> str | None:
        return next((error for error, _ in _errors(answer) if error in PASSING), None)

    what = f"an answer to feature levels {dict(levels)}"
    answer = to_controller(wire, question, passing, deadline_s=deadline_s, what=what)
    return "; ".join(dict.fromkeys(f"{error} ({message})" for error, message in _errors(answer))) or None


def _errors(answer: ApiMessage) -> list[tuple[str, str]]:
    reported = [answer, *(answer.results or ())]
    return [(error, part.error_message or "") for part in reported if (error := error_name(part.error_code))]
