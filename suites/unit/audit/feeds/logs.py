"""A metadata log that a test writes, with the checkpoint of leader epochs that every node keeps beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.kafka.storage.log_directory import LEADER_EPOCHS
from harness.model.history.log import Record
from suites.unit.kafka.storage.metadata_bytes import control_batch, data_batch, record_value


def topic(name: str) -> bytes:
    return record_value("TopicRecord", Name=name, TopicId="AAAAAAAAAAAAAAAAAAAABw")


def topics(offset: int, *names: str, epoch: int = 1) -> bytes:
    """One batch with a record for each topic."""
    return data_batch(offset, *map(topic, names), epoch=epoch)


def snapshot(*names: str) -> bytes:
    """A snapshot with these topics."""
    header, footer = control_batch(0, "SnapshotHeaderRecord", LastContainedLogTimestamp=77), "SnapshotFooterRecord"
    return header + topics(1, *names) + control_batch(1 + len(names), footer)


def snapshot_name(end: int, epoch: int = 1) -> str:
    return f"{end:020}-{epoch:010}"


def write_epochs(folder: Path, *starts: tuple[int, int]) -> None:
    """(epoch, first offset) of each leader, as the node's own checkpoint has them."""
    lines = ["0", str(len(starts)), *(f"{epoch} {start}" for epoch, start in starts)]
    (folder / LEADER_EPOCHS).write_text("\n".join(lines) + "\n")


def names(entries: Iterable[object]) -> list[str]:
    """The topics that some records create."""
    return [e.text("Name") for e in entries if isinstance(e, Record) and e.kind == "TopicRecord"]
