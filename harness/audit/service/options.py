"""The options of one auditor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The options of `durability audit`.

    controllers, metadata_dir: where the metadata log is read; at most one of them.
    topics: patterns of topics that are watched; empty = all. groups: their committed offsets are watched.
    metrics: the port; None = no metrics. probe: the topic for records of the auditor's own.
    tier_dir: the folder with the objects of the remote tier.
    last_round_s: how long it may look at every partition once more before it ends.
    """

    bootstrap: str
    controllers: str | None = None
    metadata_dir: Path | None = None
    command_config: Path | None = None
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rules: Path | None = None
    db: Path
    metrics: int | None = None
    budget: str | None = None
    probe: str | None = None
    logs: Path | None = None
    tier_dir: Path | None = None
    last_round_s: float = 0.0
    as_json: bool = False

    @property
    def without_log(self) -> bool:
        """Whether no metadata log is read, and brokers describe the state of the cluster."""
        return self.controllers is None and self.metadata_dir is None
