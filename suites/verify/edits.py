"""What may go wrong, as edits of a log before everybody reads it, or of what one reader tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.verify.history import Built, Entry, History

Edit = Callable[[History], None]


def lose(offset: int, partition: int = 0) -> Edit:
    """The record is gone for every reader; a control record stands where it stood."""

    def edit(history: History) -> None:
        history.logs[partition][offset].stream = -1

    return edit


def taken(*offsets: int, partition: int = 0) -> Edit:
    """A cleaner took the records of every copy: nothing stands where they stood."""

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
        history.logs[partition].append(Entry(stream, seq, history.now_ns, 0, **more))

    return edit


def swap(first: int, second: int, partition: int = 0) -> Edit:
    """Two records change places, for every reader; their sends told no offsets."""

    def edit(history: History) -> None:
        log = history.logs[partition]
        log[first], log[second] = log[second], log[first]
        for row in history.ledger:
            row["offset"] = None if row["partition"] == partition else row["offset"]

    return edit


def start_at(offset: int, partition: int = 0) -> Edit:
    """The log of every replica starts there; live readers were before that."""

    def edit(history: History) -> None:
        history.starts[partition] = offset

    return edit


def show(offset: int, partition: int = 0) -> Edit:
    """Committed readers are given a record of a transaction that was aborted."""

    def edit(history: History) -> None:
        history.logs[partition][offset].visible = True

    return edit


def hide(offset: int, partition: int = 0) -> Edit:
    """Committed readers are not given a record that they should be."""

    def edit(history: History) -> None:
        history.logs[partition][offset].visible = False

    return edit


def contract(built: Built, **settings: Any) -> Built:
    """Changes the contract of the topic."""
    built.run["contract"]["topics"]["t"].update(settings)
    return built


def stuck(built: Built, position: int) -> Built:
    """The drain stopped at a position, and shows nothing from there on."""
    built.tables["observations"] = [
        row for row in built.tables["observations"] if row["kind"] != "drain" or row["offset"] < position
    ]
    for read in built.reads:
        if read["kind"] == "drain":
            read.update(position=position, reached=False, stuck_reason=f"stuck at {position}")
    return built


def without_drain(built: Built, offset: int) -> Built:
    """Both drains say nothing of an offset that they went past; batches show a control record there."""
    built.drop("observations", kind="drain", offset=offset)
    return built.change("batches", {"control": "other"}, base_offset=offset)


def only_live(built: Built, offset: int) -> Built:
    """After healing nobody but the live readers ever saw the record."""
    built.drop("observations", kind="replica", offset=offset)
    return without_drain(built, offset)


def run_finished(built: Built, *, finished: bool) -> Built:
    """A run that died half way, or not."""
    built.run["finished"] = built.complete = finished
    return built
