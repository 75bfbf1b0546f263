"""The verdict on one bundle: findings, doubts, notes and figures, and the status that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from harness.model.contract.contract import SENTINEL
from harness.model.documents.steps import Step
from harness.model.documents.verdict_facts import ShownStep, VerdictFacts
from harness.model.excuse import Excused
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind, kind_of
from harness.model.outcome import JAVA_CLIENTS, LIBRDKAFKA
from harness.model.plugin import active
from harness.model.scenario.scenario import JAVA, STREAMS
from harness.model.verdict import Doubt, Status, Verdict
from harness.verify import plugins
from harness.verify.addition import Added, in_order
from harness.verify.availability import figures
from harness.verify.doubts import doubts_of, history_problem
from harness.verify.engine.case import Case
from harness.verify.engine.counts import Counts
from harness.verify.engine.known import Known
from harness.verify.engine.rows import LEADER_UNKNOWN, NOT_READ, NOTED
from harness.verify.engine.runs import RecordRange
from harness.verify.engine.steps import episodes_of, step_at
from harness.verify.excusing import excused_findings
from harness.verify.read_back import copies_read
from harness.verify.score import LOSSES, score
from harness.verify.sentences import note, promise, seen
from harness.verify.unreadable import holes, unreadable

# No verdict covers these, so every verdict lists them.
NOT_COVERED: Final = (
    "disks that report a flush which did not happen",
    "offset lookups by time on topics in the remote tier that retention may shorten",
)
# Tested only by some scenarios, with the facts that show it.
_COVERED_BY: Final[Mapping[str, frozenset[FactKind | Stop]]] = {
    "power loss: a SIGKILL keeps the page cache of the operating system": frozenset({Stop.POWER}),
    "disks that fail, become read-only or stall while a broker runs": frozenset(
        {FactKind.DISK_FAILED, FactKind.DISK_SLOW}
    ),
    "disks whose contents change while a broker is down": frozenset({FactKind.DISK_DAMAGED}),
    "disks that fill up": frozenset({FactKind.DISK_FILLED}),
    "upgrades from an earlier release, and downgrades": frozenset({FactKind.UPGRADED}),
    "changes of the controller quorum's voters (KIP-853)": frozenset({FactKind.VOTERS_CHANGED}),
    "wrong broker clocks": frozenset({FactKind.CLOCK_CHANGED}),
}
# Shown by files of brokers alone, which the harness reads on clusters that it has started.
OF_FILES: Final = (
    "files of brokers: segments, indexes and checkpoints were not read, only what brokers answer",
    "decisions of controllers that no client sees, such as each change of an ISR: the metadata log was not read",
    "the logs of coordinators, with which their answers are compared: they were not read",
)
UNWATCHED: Final = "nodes that end by themselves: their processes were not watched"
_DISK_READ: Final = "disk.read"
OWN_CLIENT: Final = "the release's own Java client: {}"
_COPIES: Final = (Kind.DUPLICATED, Kind.REORDERED)


def conclude(known: Known, added: Sequence[Added]) -> Verdict:
    """The verdict on one case. added: by each check."""
    case = known.case
    reported = known.reported
    of_records = (*(_finding(run, case, _details(run, added)) for run in reported), *_not_listed(reported))
    without_records = in_order((one.order.findings, one.what.findings) for one in added)
    findings = (*excused_findings(known, without_records), *of_records)
    doubts = [*doubts_of(known, added), *plugins.doubts(case), *holes(case, unreadable(known))]
    lost, excused = _losses(reported)
    promised = known.counts.totals.promised
    facts = _facts(known, added)
    unknown = _unknown(known, max(0, promised - lost - facts.deleted_records))
    scored = score(
        acked=promised,
        lost=lost,
        excused=excused,
        unknown=unknown,
        episodes=episodes_of(case.steps),
        findings=findings,
    )
    return Verdict(
        scenario=case.scenario.name or case.manifest.scenario or case.name,
        status=status_of(findings, doubts),
        findings=findings,
        doubts=tuple(doubts),
        notes=tuple(_notes(known, added)),
        score=replace(scored, **{name: figure for one in added for name, figure in one.what.score.items()}),
        promised=promised - excused,
        durable=promised - lost - unknown,
        not_covered=tuple(_not_covered(known, added)),
        facts=facts,
    )


def _not_covered(known: Known, added: Sequence[Added]) -> list[str]:
    """Everything that the run did not test."""
    of_checks = [(one.order.not_covered, one.what.not_covered) for one in added]
    general = [*NOT_COVERED, *_own_client(known.case, known.counts)]
    return in_order([(10, general), (5, _out_of_reach(known.case)), (30, _without_fact(known.case)), *of_checks])


def _out_of_reach(case: Case) -> list[str]:
    """What the harness could not see of a cluster, because it did not start it."""
    if case.run.capabilities is None or _DISK_READ in case.run.capabilities:
        return []
    return [*OF_FILES, *([UNWATCHED] if case.run.exits is None else [])]


def _own_client(case: Case, counts: Counts) -> list[str]:
    """Work that the release's own client did not do. Kafka Streams uses it too, but only for its own input and output,
    and the harness writes the sentinels."""
    streams = {p.name for p in case.scenario.producers or () if p.client == STREAMS}
    wrote = {
        _known(client)
        for producer, clients in counts.clients.items()
        if producer not in streams | {SENTINEL}
        for client in clients
    }
    readers = {reader.client for reader in case.scenario.readers or ()}
    if JAVA_CLIENTS in wrote and JAVA in readers:
        return []
    said = _of_load(wrote) if JAVA_CLIENTS not in wrote else _of_readers(case)
    return [OWN_CLIENT.format(f"except in Kafka Streams, {said}" if streams else said)]


def _known(client: str) -> str:
    """The name of a known client; the whole text of any other one."""
    name = client.partition(" ")[0]
    return name if name in (JAVA_CLIENTS, LIBRDKAFKA) else client


def _of_load(wrote: Collection[str]) -> str:
    return (
        f"{' and '.join(sorted(wrote))} wrote all records" if wrote else "it is unknown which client wrote the records"
    )


def _of_readers(case: Case) -> str:
    """Only the harness is sure to name the client of each reader; it reads with librdkafka and the own client."""
    known = case.manifest.by_harness
    return f"{LIBRDKAFKA} read all records" if known else "it is unknown which client read the records"


def _without_fact(case: Case) -> list[str]:
    """Things that other scenarios test and this run did not: no fault with such a fact had an effect."""
    effective = [step for step in case.steps if step.is_fault and step.effect and step.effect.held]
    shown = {word for step in effective for fact in step.facts for word in (fact.kind, fact.how)}
    return [what for what, facts in _COVERED_BY.items() if not shown & facts]


def status_of(findings: Sequence[Finding], doubts: Sequence[Doubt]) -> Status:
    """A finding that condemns outweighs every doubt; a doubt outweighs a clean result."""
    if any(finding.condemns for finding in findings):
        return Status.FAIL
    return Status.INCONCLUSIVE if doubts else Status.PASS


def _finding(run: RecordRange, case: Case, details: Sequence[str]) -> Finding:
    one_stream = run.stream_min is not None and run.stream_min == run.stream_max and run.stream_min >= 0
    return Finding(
        kind=kind_of(run.kind),
        topic=run.topic,
        topic_id=run.topic_id,
        partition=run.partition,
        offset_first=run.offset_first,
        offset_last=run.offset_last,
        stream=run.stream_min if one_stream else None,
        seq_first=run.seq_first if one_stream else None,
        seq_last=run.seq_last if one_stream else None,
        count=run.count,
        first_ns=run.first_ns,
        last_ns=run.last_ns,
        step=step_at(case.steps, run.returned_first_ns),
        reader=run.reader,
        detail="; ".join(words for words in (seen(run), *details) if words),
        contract=promise(kind_of(run.kind), run.topic, run.producer, case.contract, run.reason),
        excused_by=run.excused_by,
        excuse=run.excuse,
        explained_by=run.explained_by,
    )


def _details(run: RecordRange, added: Sequence[Added]) -> list[str]:
    return [one.what.details[run] for one in added if run in one.what.details]


def _not_listed(runs: Sequence[RecordRange]) -> tuple[Finding, ...]:
    """One more finding for each kind and partition of which not every range is listed, with the other records.

    The first range of each fate is listed, and has the records of all of them.
    """
    rest: Counter[tuple[str, str | None, str | None, str, str, int]] = Counter()
    excuses: dict[str | None, Excused | None] = {None: None}
    for run in runs:
        excuses.setdefault(run.excused_by, run.excuse)
        rest[run.kind, run.excused_by, run.explained_by, run.topic, run.topic_id, run.partition] += (
            run.fate_records - run.count
        )
    return tuple(
        Finding(
            kind=kind_of(kind),
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            count=count,
            detail="more ranges of offsets of this partition; findings.parquet has every record",
            excused_by=excused,
            excuse=excuses[excused],
            explained_by=explained,
        )
        for (kind, excused, explained, topic, topic_id, partition), count in rest.items()
        if count
    )


def _losses(runs: Sequence[RecordRange]) -> tuple[int, int]:
    """Acknowledged records that are missing: all of them, and those that the contract permits to be lost."""
    fates = {
        (run.kind, run.excused_by, run.explained_by): run.all_records
        for run in runs
        if run.kind in LOSSES and run.stream_min is not None
    }
    return sum(fates.values()), sum(n for (_, excused, _), n in fates.items() if excused is not None)


def _unknown(known: Known, others: int) -> int:
    """Promised records of which it is unknown whether they are lost. others: those neither lost nor deleted.

    All of the others are unknown if the run ended early or the check failed: then the ledger and the drain were not
    compared. What a live reader received earlier proves nothing about the log after the faults.
    """
    if not known.case.complete or Kind.LOST in known.failed:
        return others
    in_doubt = (run for run in known.runs if run.kind in (NOT_READ, LEADER_UNKNOWN) and run.stream_min is not None)
    return sum(run.fate_records for run in in_doubt)


def _notes(known: Known, added: Sequence[Added]) -> list[str]:
    of_checks = [(one.order.notes, one.what.notes) for one in added]
    general = [(5, _of_agent(known.case)), (10, known.case.run.notes or ()), (20, _of_judging(known))]
    return in_order([*general, *of_checks])


def _of_agent(case: Case) -> Iterator[str]:
    """The agent that changed the release's own code: a finding may be due to it."""
    if case.manifest.agent:
        yield f"the nodes ran with an agent ({case.manifest.agent}) in their JVMs; confirm a finding without it"


def _of_judging(known: Known) -> Iterator[str]:
    """Notes about the plugins, the findings and the history."""
    case, runs = known.case, known.runs
    yield from plugins.notes(case)
    for kind in NOTED:
        if noted := [run for run in runs if run.kind == kind]:
            places = sorted({f"{run.topic}/{run.partition}" for run in noted})
            yield note(kind, sum(run.fate_records for run in noted), places[:5])
    if case.history is not None:  # the gaps are doubts
        yield from (history_problem(one) for one in case.history.problems if one not in case.history.gaps)
    condemned = [run for run in runs if run.kind in _COPIES and not (run.excused_by or run.explained_by)]
    if condemned and not known.counts.disks:
        yield "no batch headers were read, so it is unknown whether the client caused second copies or their order"


def _facts(known: Known, added: Sequence[Added]) -> VerdictFacts:
    case, counts, left_out = known.case, known.counts, VerdictFacts()
    of_checks = {
        name: figure
        for one in added
        for name in VerdictFacts.__struct_fields__
        if (figure := getattr(one.what.facts, name)) != getattr(left_out, name)
    }
    general = VerdictFacts(
        release=case.manifest.release,
        starts_on=case.manifest.starts_on,
        seed=case.manifest.seed,
        plugins=tuple(plugin.used for plugin in active()),
        negative_control=case.run.negative_control,
        complete=case.complete,
        records=counts.totals,
        availability=figures(case, counts.waits, counts.sent),
        read_back=copies_read(case, counts),
        unknown_outcomes={f"{t}/{p}": sent.unknown for (t, _, p), sent in sorted(counts.sent.items()) if sent.unknown},
        observations={" ".join(who): n for who, n in sorted(counts.read.items())},
        counts={one.check: dict(one.what.counts) for one in added if one.what.counts},
        steps=tuple(_shown(step) for step in case.steps),
    )
    return replace(general, **of_checks)


def _shown(step: Step) -> ShownStep:
    return ShownStep(name=step.name, do=step.do, is_fault=step.is_fault, effect=step.effect)
