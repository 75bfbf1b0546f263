"""Parts of the evidence of one run that contradict each other, so that one of them was changed or is not whole.

This harness writes much of what a run did twice: the load counts what it sent, the steps give the times of the faults,
and lookups are asked of every partition. A bundle in which one side is missing may hide a defect, so it is in doubt.
Others may leave optional parts out of their bundles: then the verdict says that these were not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.model.contract.contract import SENTINEL
from harness.model.doubt_names import DoubtName
from harness.model.history.changes import TopicChange, TopicEvent
from harness.model.outcome import TxnOutcome
from harness.model.scenario.scenario import STREAMS
from harness.model.verdict import Doubt
from harness.verify.addition import Addition, Order
from harness.verify.engine.case import Case
from harness.verify.engine.known import Known
from harness.verify.engine.on_driver import OnDriver
from harness.verify.engine.prepared import Prepared
from harness.verify.engine.rows import union
from harness.verify.engine.tables import BUNDLE
from harness.verify.engine.timelines import is_of_run
from harness.verify.excuses.clock_skew import wrong_clocks
from harness.verify.promise import Check

# Tables of requests that are made after healing for every partition with records, and what they are about.
_ASKED: Final[Mapping[str, str]] = {
    "lookups": "offset lookups by time",
    "epoch_ends": "offset lookups by leader epoch",
    "probes": "reads that begin at arbitrary offsets",
}
_ENDLESS: Final = "endless"  # transactions of the ledger without a row of their own
_SENTINELS: Final = "sentinels"
_OPERATIONS: Final = "operations"
COPIES: Final = "copies of single replicas: none of them was read"


@dataclass(slots=True)
class Written:
    """Rows of one bundle. at: partitions with rows, by table; figures: all others, by what they count."""

    at: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)


def written(given: Prepared) -> list[Written]:
    """The rows of each bundle that other parts of it speak of."""
    tables = {"lookups": given.lookups, "epoch_ends": given.epoch_ends, "probes": given.probes}
    parts = [_counted(rows, name, "topic", "partition") for name, rows in tables.items()]
    ids = given.ledger.where("txn_id IS NOT NULL").select(BUNDLE, "txn_id").distinct()
    parts.append(_counted(ids.join(given.transactions, [BUNDLE, "txn_id"], "left_anti"), _ENDLESS))
    of_sentinel = given.streams.where(F.col("producer") == SENTINEL).select(BUNDLE, "stream")
    sentinels = given.sent.join(F.broadcast(of_sentinel), [BUNDLE, "stream"])
    parts.append(_counted(sentinels, _SENTINELS, count=F.sum("acked")))
    parts.append(_counted(given.admin_ops, _OPERATIONS))
    found = [Written() for _ in given.cases]
    for row in union(parts).collect():
        if row["topic"] is None:
            found[row[BUNDLE]].figures[row["what"]] = row["n"]
        else:
            found[row[BUNDLE]].at.setdefault(row["what"], set()).add((row["topic"], row["partition"]))
    return found


def _counted(rows: DataFrame, what: str, *place: str, count: Column | None = None) -> DataFrame:
    counted = rows.groupBy(BUNDLE, *place).agg((F.count("*") if count is None else count).cast("bigint").alias("n"))
    nowhere = {} if place else {"topic": F.lit(None).cast("string"), "partition": F.lit(None).cast("int")}
    counted = counted.withColumns({**nowhere, "what": F.lit(what)})
    return counted.select(BUNDLE, "what", "topic", "partition", "n")


def _evidence(known: Known) -> Addition:
    case, rows = known.case, known.of(WRITTEN)
    if not case.complete:
        return Addition()
    # Documents without a seal over files are not a whole bundle.
    if not case.of_harness or not case.manifest.files:
        return Addition(not_covered=[*_left_out(case, rows)])
    texts = (
        *_of_requests(case, rows),
        *_of_load(known, rows),
        *_of_steps(case),
        *_of_floors(case),
        *_of_brokers(case),
        *_of_history(known),
    )
    return Addition(doubts=[Doubt(DoubtName.EVIDENCE_DIFFERS, text) for text in texts])


def _left_out(case: Case, rows: Written) -> Iterator[str]:
    """Optional parts that a bundle by others lacks."""
    yield from (f"{asked}: there is none" for table, asked in _ASKED.items() if not rows.at.get(table))
    if not any(read.kind == "replica" for read in case.reads):
        yield COPIES
    if endless := rows.figures.get(_ENDLESS):
        yield f"records of {endless} transactions in the ledger that have no row in transactions"


def _of_requests(case: Case, rows: Written) -> Iterator[str]:
    filled = {
        (p.topic, p.partition)
        for p in case.last_partitions
        if p.leader is not None and any(log.log_end > log.log_start for log in p.logs)
    }
    for table, what in _ASKED.items():
        if left := sorted(filled - rows.at.get(table, set())):
            places = ", ".join(f"{topic}/{partition}" for topic, partition in left[:3])
            text = f"brokers reported records in {len(left)} partitions of which {table} has no row ({places})"
            yield f"{text}, and every run asks for {what}"


def _of_load(known: Known, rows: Written) -> Iterator[str]:
    if endless := rows.figures.get(_ENDLESS):
        yield f"the ledger has records of {endless} transactions, and transactions has no row of them"
    load = known.case.run.load if isinstance(known.case.run.load, Mapping) else {}
    acked = known.counts.totals.acked - rows.figures.get(_SENTINELS, 0)
    if load.get("acked") != acked:
        yield f"the load counted {load.get('acked')} acknowledged records, and the ledger has {acked} of its producers"
    counted = known.case.counted_by_load("transactions")
    # Kafka Streams ends its transactions itself, and the load does not count them.
    of_streams = {p.name for p in known.case.scenario.producers or () if p.client == STREAMS}
    for name in sorted({*counted, *known.counts.ends} - of_streams):
        ends, of_load = known.counts.ends.get(name, {}), counted.get(name, {})
        for outcome in TxnOutcome:
            mine, theirs = ends.get(outcome, 0), of_load.get(outcome.value, 0) if isinstance(of_load, Mapping) else None
            if mine != theirs:
                text = f"the load counted {theirs} transactions of producer {name} that are {outcome.value}"
                yield f"{text}, and transactions has {mine}"
    by_admin = known.case.counted_by_load("operations").values()
    done = sum(sum(of.values()) for of in by_admin if isinstance(of, Mapping))
    if done != rows.figures.get(_OPERATIONS, 0):
        yield f"the load counted {done} operations of admins, and admin_ops has {rows.figures.get(_OPERATIONS, 0)}"


def _of_steps(case: Case) -> Iterator[str]:
    run, planned = case.run, case.scenario.steps or ()
    for number, (step, plan) in enumerate(zip(case.steps, planned, strict=False), start=1):
        if plan.get("name") != step.name:
            yield f"step {number} is {step.name}, and {plan.get('name')} in the scenario"
    if len(case.steps) > len(planned):
        yield f"steps.json has {len(case.steps)} steps, and the scenario has {len(planned)}"
    for step in case.steps:
        times = [at_ns for at_ns in (step.started_ns, step.ended_ns, step.healed_ns) if at_ns is not None]
        from_ns, to_ns = run.started_ns or 0, run.ended_ns
        if times and (min(times) < from_ns or (to_ns is not None and max(times) > to_ns)):
            yield f"step {step.name} was at {min(times)} to {max(times)}, and the run at {from_ns} to {to_ns}"
    spans = [
        (step.started_ns, step.healed_ns or step.ended_ns or run.ended_ns)
        for step in case.steps
        if step.is_fault and step.started_ns is not None
    ]
    during = list(run.windows.during or ()) if run.windows else []
    if spans != during:
        text = f"the {len(spans)} faults of steps.json were at {spans}"
        yield f"{text}, and windows of run.json has {len(during)} faults at {during}"


def _of_floors(case: Case) -> Iterator[str]:
    floors, always = case.run.floors, [p.name for p in case.scenario.producers or () if p.when == "always"]
    if floors is None:
        yield "run.json has no floors, and every scenario has some"
    elif always and not case.run.targets and (floors.before or floors.during or floors.after):
        yield f"run.json has floors and no targets for them, and producer {always[0]} writes during the whole load"


def _of_brokers(case: Case) -> Iterator[str]:
    last, shape = case.last_snapshot, case.scenario.shape
    wanted = range(1, ((shape.brokers if shape else None) or 0) + 1)
    if last is not None and (down := sorted(set(wanted) - set(last.brokers_up or ()))):
        recovered = case.run.recovered.ok if case.run.recovered else None
        text = f"brokers {down} of the scenario were not up in the last report of the brokers"
        yield f"{text}, and the wait for the cluster to recover ended with {recovered}"


def _of_history(known: Known) -> Iterator[str]:
    """A run creates its topics, so the metadata log has that at a time of the run. Other times in it are wrong, too."""
    case, run = known.case, known.case.run
    if case.history is None or any(wrong_clocks(case)):
        return
    of_run = {topic_id for _, topic_id, _ in known.counts.sent}
    for row in case.history.of(TopicChange):
        mine = row.event is TopicEvent.CREATED and row.topic_id in of_run and not row.from_snapshot
        if mine and not is_of_run(case, row.time_ns):
            text = f"the metadata log has the creation of topic {row.topic} at {row.time_ns}"
            yield f"{text}, and the run that created it was at {run.started_ns} to {run.ended_ns}"
            return


WRITTEN: Final[OnDriver[Written]] = OnDriver(name="written", read=written, none=Written)
CHECK: Final = Check(
    promise="The parts of the evidence of one run say the same.",
    on_driver=(WRITTEN,),
    adds=_evidence,
    order=Order(doubts=95, not_covered=25),
    planted=(
        "doubt_row_of_a_transaction_taken_away",
        "doubt_acknowledged_records_taken_away",
        "doubt_lookups_taken_away",
        "doubt_probes_taken_away",
        "doubt_fault_that_is_called_none",
        "doubt_fault_that_was_not_healed",
        "doubt_step_outside_the_run",
        "doubt_broker_that_was_down",
        "doubt_floors_without_targets",
        "doubt_history_of_another_hour",
    ),
)
