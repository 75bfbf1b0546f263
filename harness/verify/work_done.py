"""How much work clients completed. A cluster that serves no client loses nothing, so too little work is a doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from harness.model.documents.run import Floors
from harness.model.documents.scenario import PlannedReader
from harness.model.documents.steps import PartitionsAdded
from harness.model.doubt_names import DoubtName, DoubtOrigin, floor_of
from harness.model.outcome import TxnOutcome
from harness.model.scenario.scenario import SHARE
from harness.model.verdict import Doubt
from harness.verify.checks.commit_regressed.offset_loss import refusals
from harness.verify.engine.case import Case
from harness.verify.engine.counts import Counts

# From this many transactions on, a scenario that aborts some must have aborted one.
_ENOUGH_ENDS: Final = 20
_WAITED_S: Final = 30.0  # a reader that is no further by then does not go on
_WINDOWS: Final = ("before", "during", "after")


def work_done(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Doubts about the load: acknowledgements, transactions, group commits and live readers, in total and after the
    faults."""
    yield from _load(case, counts)
    yield from _transactions(case, counts)
    yield from _groups(case, counts)
    yield from _readers(case, counts)


def _load(case: Case, counts: Counts) -> Iterator[Doubt]:
    if not counts.totals.acked:
        yield Doubt(DoubtName.EMPTY_LEDGER, "no record was acknowledged")
    by_name: dict[tuple[str, int], Counter[str]] = {}
    for (topic, _, partition), of in counts.sent.items():  # a topic that was deleted and created again has two ids
        acks = {window: of.within(window) for window in _WINDOWS}
        by_name.setdefault((topic, partition), Counter()).update(acks)
    floors, added = case.run.floors or Floors(), _added(case)
    wanted = {"before": floors.before, "during": floors.during, "after": floors.after}
    for topic, partition in case.run.targets or ():
        figures = by_name.get((topic, partition), Counter())
        for window in ("after",) if (topic, partition) in added else _WINDOWS:
            floor = wanted[window] or 0
            if figures[window] < floor:
                acked = f"{figures[window]} records were acknowledged {window} the faults on {topic}/{partition}"
                text = f"{acked}, and {floor} are required"
                yield too_few(window, text, figures[window])


def too_few(window: str, text: str, acked: int) -> Doubt:
    """The doubt about too few acknowledgements in a window. With none at all, the brokers may have refused them."""
    name = floor_of(window)
    return Doubt(name, text, name.origin if acked else DoubtOrigin.RELEASE)


def _added(case: Case) -> set[tuple[str, int]]:
    """Partitions that a step added to a topic: there was no load on them before it."""
    events = [event for event, _ in case.events(PartitionsAdded)]
    return {(event.topic, p) for event in events for p in range(event.partition, event.partitions)}


def _wants_load_after(case: Case) -> bool:
    """Whether the scenario requires load after the faults."""
    windows, floors = case.run.windows, case.run.floors
    return bool(windows and windows.after and floors and floors.after)


def _transactions(case: Case, counts: Counts) -> Iterator[Doubt]:
    for producer in case.scenario.producers or ():
        name, plan = producer.name, producer.transactions
        ends = counts.ends.get(name)
        if plan is None:
            continue
        if not ends or not ends[TxnOutcome.COMMITTED]:
            yield Doubt(DoubtName.NO_TRANSACTION, f"no transaction of producer {name} was committed for certain")
            continue
        decided = ends[TxnOutcome.COMMITTED] + ends[TxnOutcome.ABORTED]
        if ends[TxnOutcome.UNKNOWN] > decided:
            unknown = f"{ends[TxnOutcome.UNKNOWN]} transactions of producer {name} have an unknown outcome"
            text = f"{unknown}, and {decided} a known one"
            yield Doubt(DoubtName.TRANSACTIONS_UNANSWERED, text)
        if plan.abort_share and decided >= _ENOUGH_ENDS and not ends[TxnOutcome.ABORTED]:
            yield Doubt(
                DoubtName.NO_ABORT,
                f"none of {decided} transactions of producer {name} was aborted, and the scenario aborts some",
            )
        if producer.when == "always" and _wants_load_after(case) and not ends["after"]:
            yield Doubt(DoubtName.NO_TRANSACTION, f"no transaction of producer {name} was committed after the faults")


def _groups(case: Case, counts: Counts) -> Iterator[Doubt]:
    live = {r.group for r in case.scenario.readers or () if r.group}
    live |= {p.processes.group for p in case.scenario.producers or () if p.processes}
    stopped = {reader.group for reader, _, _ in refusals(case)}
    plans = [p.transactions for p in case.scenario.producers or () if p.transactions]
    for group in sorted(live | {plan.offsets_of for plan in plans if plan.offsets_of}):
        commits = counts.commits.get(group) or {"acked": 0, "after": 0}
        if not commits["acked"]:
            yield Doubt(DoubtName.NO_COMMIT, f"no offset commit of group {group} was acknowledged")
        elif group in live - stopped and _wants_load_after(case) and not commits["after"]:
            yield Doubt(DoubtName.NO_COMMIT, f"no offset commit of group {group} was acknowledged after the faults")


def _readers(case: Case, counts: Counts) -> Iterator[Doubt]:
    seen = {reader for kind, _, reader in counts.read if kind == "live"}
    for reader in case.scenario.readers or ():
        if reader.name not in seen:
            yield Doubt(DoubtName.READER_SAW_NOTHING, f"live reader {reader.name} received no record")
        else:
            yield from _behind(case, counts, reader)
    yield from _unread(case, counts)


def _behind(case: Case, counts: Counts, reader: PlannedReader) -> Iterator[Doubt]:
    """A reader that received nothing sent after the faults, unless auto.offset.reset made it stop."""
    alone = not reader.group or _members(case, reader.group) == 1
    stopped = {(topic, partition) for of, topic, partition in refusals(case) if of.reader == reader.name}
    for place, figures in counts.sent.items() if _wants_load_after(case) and alone else ():
        first = figures.offset_after
        if (
            place[0] in (reader.topics or ())
            and (place[0], place[2]) not in stopped
            and first is not None
            and counts.seen.get((reader.name, place), -1) < first
        ):
            what = f"{place[0]}/{place[2]} that was sent after the faults"
            yield Doubt(DoubtName.READER_BEHIND, f"live reader {reader.name} received nothing of {what}")


def _unread(case: Case, counts: Counts) -> Iterator[Doubt]:
    """Readers, or groups, that the run waited for before it stopped them, and that had not read all by then."""
    waited = case.run.readers_waited
    if waited is None or not (waited.ok or (waited.waited_s or 0) >= _WAITED_S):
        return
    readers = [reader for reader in case.scenario.readers or () if _was_waited_for(case, reader)]
    ids = {partition.topic_id for partition in case.last_partitions}
    stay = [place for place in counts.sent if place[1] in ids and _stays(case, place[0])]
    anything = {name for name, _ in counts.seen}  # the others are doubts in any case
    for who in dict.fromkeys(reader.group or reader.name for reader in readers):
        members = [reader for reader in readers if who == (reader.group or reader.name)]
        for place in stay:
            reading = [reader.name for reader in members if place[0] in (reader.topics or ())]
            seen = max((counts.seen.get((name, place), -1) for name in reading), default=None)
            last = counts.sent[place].promised_to
            if seen is not None and last is not None and seen < last and any(name in anything for name in reading):
                text = f"live reader or group {who} received nothing of {place[0]}/{place[2]} above offset {seen}"
                yield Doubt(
                    DoubtName.READER_BEHIND, f"{text}, and offset {last} was acknowledged before it was stopped"
                )


def _was_waited_for(case: Case, reader: PlannedReader) -> bool:
    """Not members of share groups, and not readers that may stop as configured."""
    contract = case.contract.readers.get(reader.name)
    return reader.protocol != SHARE and (contract is None or not contract.reset)


def _stays(case: Case, topic: str) -> bool:
    """Whether every acknowledged record of a topic stays, for readers of any isolation."""
    changing = (p for p in case.scenario.producers or () if p.transactions or p.processes or p.acks != "all")
    contract = case.contract.topics.get(topic)
    lasting = contract is not None and contract.lasting
    return lasting and not any(topic in producer.topics for producer in changing)


def _members(case: Case, group: str) -> int:
    return sum(r.group == group for r in case.scenario.readers or ())
