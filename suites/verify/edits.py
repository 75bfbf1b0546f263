"""Defects, as edits of a log before all readers read it, or of what one reader reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.verify.history import Built, Entry, History

Edit = Callable[[History], None]


def lose(offset: int, partition: int = 0) -> Edit:
    """The record is missing for every reader; a control record is at its offset."""

    def edit(history: History) -> None:
        history.logs[partition][offset].stream = -1

    return edit


def taken(*offsets: int, partition: int = 0) -> Edit:
    """A cleaner removed the records from every copy: nothing is at their offsets."""

    def edit(history: History) -> None:
        for offset in offsets:
            history.logs[partition][offset].stream = -2

    return edit


def cut(end: int, partition: int = 0) -> Edit:
    """Every replica's log ends there."""

    def edit(history: History) -> None:
        del history.logs[partition][end:]

    return edit


def append(stream: int, seq: int, partition: int = 0, **more: Any) -> Edit:
    """One more record at the end of a log."""

    def edit(history: History) -> None:
        history.logs[partition].append(Entry(stream, seq, history.now_ns, **more))

    return edit


def swap(first: int, second: int, partition: int = 0) -> Edit:
    """Two records are exchanged, for every reader; their acknowledgements had no offsets."""

    def edit(history: History) -> None:
        log = history.logs[partition]
        log[first], log[second] = log[second], log[first]
        for row in history.ledger:
            row["offset"] = None if row["partition"] == partition else row["offset"]

    return edit


def start_at(offset: int, partition: int = 0) -> Edit:
    """The log of every replica starts there; live readers had read before."""

    def edit(history: History) -> None:
        history.starts[partition] = offset

    return edit


def show(offset: int, partition: int = 0) -> Edit:
    """read_committed readers receive a record of an aborted transaction."""

    def edit(history: History) -> None:
        history.logs[partition][offset].visible = True

    return edit


def hide(offset: int, partition: int = 0) -> Edit:
    """read_committed readers do not receive a record that they should receive."""

    def edit(history: History) -> None:
        history.logs[partition][offset].visible = False

    return edit


def contract(built: Built, **settings: Any) -> Built:
    """Changes the contract of the topic."""
    built.run["contract"]["topics"]["t"].update(settings)
    return built


def stuck(built: Built, position: int) -> Built:
    """The drain stopped at a position, and returns nothing from there on."""
    built.tables["observations"] = [
        row for row in built.tables["observations"] if row["kind"] != "drain" or row["offset"] < position
    ]
    for read in built.reads:
        if read["kind"] == "drain":
            read.update(position=position, reached=False, stuck_reason=f"stuck at {position}")
    return built


def refused(built: Built, position: int, error: str | None = None) -> Built:
    """The drain stopped at a position, and its leader refused the next records for a minute."""
    answer = {"offset": position, "error": error, "high_watermark": -1, "first_ns": 0, "last_ns": 60 * 10**9}
    for read in stuck(built, position).reads:
        if read["kind"] == "drain":
            read["refused"] = answer
    return built


def after_healing(built: Built, **reported: object) -> Built:
    """What run.json says of the end of the run."""
    built.run.update(reported)
    return built


def without_drain(built: Built, offset: int) -> Built:
    """Both drains pass an offset without returning it; batches show a control record there."""
    built.drop("observations", kind="drain", offset=offset)
    return built.change("batches", {"control": "other"}, base_offset=offset)


def only_live(built: Built, offset: int) -> Built:
    """After healing only the live readers had received the record."""
    built.drop("observations", kind="replica", offset=offset)
    return without_drain(built, offset)


def run_finished(built: Built, *, finished: bool) -> Built:
    """A run that finished, or not."""
    built.run["finished"] = built.complete = finished
    return built


def sealed_by_other_client(history: Built) -> Built:
    """Another client sealed the bundle."""
    history.manifest["sealed_by"] = "hand"
    history.run["groups_resume"] = False
    return history
