"""Doubts: why a run proved too little. Each one turns PASS into INCONCLUSIVE; none softens a FAIL.

Those about one promise are with its check (`Addition`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from harness.model.documents.steps import Effect
from harness.model.doubt_names import DoubtName
from harness.model.finding import Kind
from harness.model.history.changes import Problem, ProblemKind
from harness.model.plugin import active
from harness.model.verdict import Doubt
from harness.verify.addition import Added, in_order
from harness.verify.completeness import evidence_gaps
from harness.verify.engine.case import COMMITTED, UNCOMMITTED, Case, places_of
from harness.verify.engine.compare import from_its_own_copy
from harness.verify.engine.counts import Counts
from harness.verify.engine.known import Known
from harness.verify.engine.rows import LEADER_UNKNOWN, NOT_READ, UNATTRIBUTED
from harness.verify.engine.runs import RecordRange
from harness.verify.excuses.topics_deleted import deleted
from harness.verify.sentences import unattributed
from harness.verify.work_done import work_done

Runs = Sequence[RecordRange]


def doubts_of(known: Known, added: Sequence[Added]) -> list[Doubt]:
    """Every doubt about a run, in a stable order and without repetitions."""
    case = known.case
    found = [*_failed_checks(known.failed), *_of_the_run(case), *_without_effect(case)]
    if case.complete:
        general = [(number, of(known)) for number, of in _GENERAL]
        found += in_order([*general, *((one.order.doubts, one.what.doubts) for one in added)])
    else:
        found.append(
            Doubt(
                DoubtName.UNFINISHED,
                "the run ended before its last step, so records that are missing were not judged; run it again",
            )
        )
    return list(dict.fromkeys(found))


def _unattributed(runs: Runs) -> Iterator[Doubt]:
    """Defects that a client of which nothing is known may have caused."""
    records: Counter[tuple[str, str, str]] = Counter()
    for run in runs:
        if run.kind == UNATTRIBUTED:
            records[run.reason, run.reader or "", f"{run.topic}/{run.partition}"] += run.fate_records
    for (kind, client, place), count in records.items():
        yield Doubt(DoubtName.UNATTRIBUTED, unattributed(kind, client, place, count))


def _failed_checks(failed: Mapping[str, str]) -> Iterator[Doubt]:
    owners = {name: f"the plugin {p.name}" for p in active() for name in (*p.queries, *p.checks)}
    for name, error in failed.items():
        owner = owners.get(name, "the harness")
        yield Doubt(
            f"{DoubtName.CHECK_FAILED}:{name}",
            f"the check {name} failed and proves nothing ({error}); please report it as a defect of {owner}",
        )


def _of_the_run(case: Case) -> Iterator[Doubt]:
    yield from case.run.doubts or ()


def _without_effect(case: Case) -> Iterator[Doubt]:
    """Faults without an effect on the data path: they tested nothing. A run that reported them already uses the same
    sentence, so that it is not repeated. A step that was not reached has a doubt about that."""
    for step in case.steps:
        effect = step.effect or Effect()
        reached = step.started_ns is not None or not step.error
        if step.is_fault and reached and not effect.held:
            because = effect.because or "nothing proves an effect"
            yield Doubt(DoubtName.NO_EFFECT, f"step {step.name} had no effect: {because}")


def _drain(known: Known) -> Iterator[Doubt]:
    """Records that the read after healing says nothing about."""
    if not any(kind == "drain" for kind, _, _ in known.counts.read):
        yield Doubt(DoubtName.EMPTY_DRAIN, "the read after healing returned no record at all")
    for run in known.runs:
        if run.kind == LEADER_UNKNOWN:
            place = f"{run.topic}/{run.partition}"
            text = f"{run.fate_records} records or commits of {place} are missing, and it is unknown which leader"
            because = "they were acknowledged after an election, while the deposed leader may not have known of it"
            yield Doubt(DoubtName.LEADER_UNKNOWN, f"{text} acknowledged them: {because}; run it again")


def _reads(known: Known) -> Iterator[Doubt]:
    """Reads that ended early, unless the records that they did not reach are in no log."""
    not_read: Counter[str] = Counter()
    for run in known.runs:
        if run.kind == NOT_READ:
            not_read[f"{run.topic}/{run.partition}"] += run.fate_records
    for place, records in not_read.items():
        yield Doubt(DoubtName.NOT_READ, f"no read reached {records} acknowledged records of {place}")
    for read in known.case.reads:
        if not read.reached or read.position < read.target:
            why = read.stuck_reason or f"position {read.position} of {read.target}"
            what = f"{read.reader} of {read.topic}/{read.partition}"
            yield Doubt(DoubtName.NOT_REACHED, f"the read {what} did not reach its end: {why}")
        elif read.kind == "replica" and read.target > read.start and not from_its_own_copy(read):
            what, served = f"{read.reader} of {read.topic}/{read.partition}", list(read.served_by or ())
            yield Doubt(
                DoubtName.SERVED_BY_ANOTHER,
                f"the read {what} was served by brokers {served}, not only by broker {read.replica}",
            )
    yield from _places_not_read(known.case, known.counts)
    yield from _copies_not_read(known.case)


def _places_not_read(case: Case, counts: Counts) -> Iterator[Doubt]:
    known, gone = {facts.place: facts for facts in places_of(case)}, deleted(case)
    live = {isolation for kind, isolation, _ in counts.read if kind == "live"}
    copies = {read.place for read in case.reads if read.isolation == UNCOMMITTED}
    for place, figures in counts.sent.items():
        facts = known.get(place)
        name = f"{place[0]}/{place[2]}"
        if not figures.acked or place[:2] in gone:
            continue
        if facts is None or facts.committed is None:
            yield Doubt(DoubtName.NO_DRAIN, f"{name} was not read as {COMMITTED} after healing")
        elif facts.uncommitted is None and (UNCOMMITTED in live or place in copies):
            yield Doubt(
                DoubtName.NO_DRAIN,
                f"{name} was not read as {UNCOMMITTED} after healing, so other such reads cannot be compared with it",
            )
        if facts is not None and facts.as_of_ns is None and case.last_snapshot is not None:
            yield Doubt(DoubtName.NO_SNAPSHOT, f"no broker reported {name} after healing")
        if facts is not None and facts.as_of_ns is not None and facts.log_end is None:
            yield Doubt(DoubtName.REPLICA_SILENT, f"not every replica of {name} reported its log end offset")


def _copies_not_read(case: Case) -> Iterator[Doubt]:
    """Copies that this harness always reads and that were not read.

    It reads the leader's copy with both isolations, and a follower's copy with both where there are transactions.
    Without transactions any one copy suffices as read_uncommitted, because the leader may have changed since the read.
    Evidence of other harnesses may lack some.
    """
    if not case.of_harness or case.last_snapshot is None:
        return
    done = {(r.topic, r.partition, r.isolation, r.replica) for r in case.reads}
    for p in case.last_partitions:
        for isolation in (COMMITTED, UNCOMMITTED):
            everybody = isolation == COMMITTED or p.topic in case.transactional_topics
            not_read = [b for b in p.replicas if (p.topic, p.partition, isolation, b) not in done]
            if not_read and (everybody or not_read == list(p.replicas)):
                yield Doubt(
                    DoubtName.COPY_NOT_READ,
                    f"the copies of {p.topic}/{p.partition} on brokers {not_read} were not read as {isolation}",
                )


def _not_asked(case: Case) -> Iterator[Doubt]:
    if case.last_snapshot is None:
        yield Doubt(DoubtName.NO_SNAPSHOT, "the brokers were not asked for their offsets after healing")


def _replicas(case: Case) -> Iterator[Doubt]:
    for p in case.last_partitions:
        topic, partition = p.topic, p.partition
        if set(p.isr) != set(p.replicas):
            isr = f"{sorted(p.isr)} of {list(p.replicas)}"
            yield Doubt(DoubtName.ISR_NOT_FULL, f"the ISR of {topic}/{partition} is {isr}")
        if p.high_watermark is None or p.last_stable_offset is None:
            yield Doubt(
                DoubtName.NO_WATERMARK,
                f"the leader of {topic}/{partition} did not report its high watermark and last stable offset",
            )


_PROBLEMS: Final[Mapping[ProblemKind, str]] = {
    ProblemKind.TORN_END: "the metadata log on the disk of a node cannot be read further",
    ProblemKind.BAD_SNAPSHOT: "a metadata snapshot on the disk of a node cannot be read",
    ProblemKind.MISSING_VOTER: "the metadata log of a voter was not read",
    ProblemKind.MISSING_RECORDS: "no node has kept these records of the metadata log",
    ProblemKind.MISSING_END: "no node has the last records of the metadata log",
    ProblemKind.CONFLICT: "two nodes have different committed records in their metadata logs",
    ProblemKind.IMPOSSIBLE: "a record of the metadata log contradicts the records before it",
}


def _history(case: Case) -> Iterator[Doubt]:
    """Parts of the cluster's history that are missing: an election there, or a loss of ISR members, is unknown."""
    history = case.history
    if history is None:
        if case.run.has_history:
            text = "the run wrote history.json, and the bundle lacks it; restore it, or run the scenario again"
            yield Doubt(DoubtName.NO_HISTORY, text)
        return
    for record in history.unknown[:1]:
        yield Doubt(
            DoubtName.HISTORY_UNKNOWN,
            f"{len(history.unknown)} records of the metadata log cannot be decoded, the first at offset "
            f"{record.offset} ({record.why}), so elections may be missing; use a harness that knows these records",
        )
    for problem in history.gaps:
        yield Doubt(
            DoubtName.HISTORY_INCOMPLETE, f"{history_problem(problem)}; elections may be missing, so run it again"
        )
    hidden = [row for row in history.changes if row.from_snapshot and row.time_ns > (case.run.started_ns or 0)]
    if hidden:
        yield Doubt(
            DoubtName.HISTORY_INCOMPLETE,
            f"the metadata log begins at offset {history.start}, after the run began, so elections are missing; "
            "keep the metadata log longer (metadata.max.retention.ms) and run it again",
        )


def history_problem(problem: Problem) -> str:
    """One problem of the cluster's history in a sentence."""
    where = "" if problem.node is None else f" of node {problem.node}"
    return f"{_PROBLEMS[problem.kind]}: offset {problem.offset}{where}, {problem.detail}"


# Topic setting -> field of the contract.
_SETTINGS: Mapping[str, str] = {
    "min.insync.replicas": "min_insync_replicas",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "segment.bytes": "segment_bytes",
}


def _configs(case: Case) -> Iterator[Doubt]:
    """Differences between the cluster's settings, as the run found them, and the contract."""
    snapshots = case.cluster.snapshots
    if case.run.negative_control or not snapshots:
        return
    actual = snapshots[0].topic_configs or {}
    for topic, contract in case.contract.topics.items():
        config = actual.get(topic)
        if config is None:
            yield Doubt(DoubtName.CONFIGS_UNKNOWN, f"no broker reported the settings of topic {topic}")
            continue
        wanted = {key: str(getattr(contract, name)) for key, name in _SETTINGS.items()}
        for key, value in wanted.items():
            if key in config and config[key] != value:
                yield Doubt(
                    DoubtName.CONFIGS_DIFFER,
                    f"{topic}: {key} is {config[key]} on the brokers, and the contract says {value}",
                )
        if config.get("unclean.leader.election.enable") == "true" and not contract.unclean_election:
            yield Doubt(
                DoubtName.CONFIGS_DIFFER,
                f"{topic}: unclean.leader.election.enable is true on the brokers, and the contract says false",
            )
        if "cleanup.policy" in config and ("compact" in (config["cleanup.policy"] or "")) != contract.compacted:
            yield Doubt(
                DoubtName.CONFIGS_DIFFER,
                f"{topic}: cleanup.policy is {config['cleanup.policy']} on the brokers, unlike in the contract",
            )
    for p in snapshots[0].partitions:
        topic_contract = case.contract.topics.get(p.topic)
        if topic_contract is not None and len(p.replicas) != topic_contract.replicas:
            name = f"{p.topic}/{p.partition}"
            yield Doubt(
                DoubtName.CONFIGS_DIFFER,
                f"{name} has {len(p.replicas)} replicas, and the contract says {topic_contract.replicas}",
            )


def _exact_losses(case: Case, runs: Runs) -> Iterator[Doubt]:
    """Fewer losses than the exact number that the scenario must cause: then it did not do what it says."""
    for exact in case.contract.exact_losses:
        lost = sum(
            run.fate_records
            for run in runs
            if run.kind == Kind.LOST and (run.topic, run.partition) == (exact.topic, exact.partition)
        )
        if lost < exact.count:
            place = f"{exact.topic}/{exact.partition}"
            yield Doubt(
                DoubtName.TOO_FEW_LOST,
                f"{lost} acknowledged records of {place} are lost, and the scenario must lose {exact.count}",
            )


# Those of any run that finished, in the order of their numbers; `Order.doubts` says where those of checks stand.
_GENERAL: Final[tuple[tuple[int, Callable[[Known], Iterable[Doubt]]], ...]] = (
    (10, lambda known: work_done(known.case, known.counts)),
    (20, _drain),
    (30, _reads),
    (40, lambda known: _not_asked(known.case)),
    (50, lambda known: _replicas(known.case)),
    (70, lambda known: _unattributed(known.runs)),
    (90, lambda known: evidence_gaps(known.case, known.counts)),
    (100, lambda known: _history(known.case)),
    (110, lambda known: _configs(known.case)),
    (120, lambda known: _exact_losses(known.case, known.runs)),
)
