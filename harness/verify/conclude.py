"""The verdict on one bundle: findings, doubts, notes and figures, and the status that follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from harness.model.contract.contract import SENTINEL
from harness.model.documents.steps import Step
from harness.model.documents.verdict_facts import ReadFromTier, ShownStep, VerdictFacts
from harness.model.excuse import Excused
from harness.model.facts import FactKind, Stop
from harness.model.finding import Finding, Kind, kind_of
from harness.model.outcome import JAVA_CLIENTS, LIBRDKAFKA
from harness.model.plugin import active
from harness.model.scenario.scenario import JAVA, STREAMS
from harness.model.verdict import Doubt, Status, Verdict
from harness.verify import plugins
from harness.verify.availability import figures
from harness.verify.checks.admin_operations import AdminReport, judged
from harness.verify.checks.commit_regressed.offset_loss import stopped
from harness.verify.checks.log_start import of_documents
from harness.verify.checks.log_start.delete_records import returned, returned_by_design
from harness.verify.checks.recovery import from_documents
from harness.verify.checks.tier.coverage import tiered
from harness.verify.checks.tier.retention import ever_copied
from harness.verify.checks.tier.seam import judged as judged_seam
from harness.verify.checks.tier.state import Tier
from harness.verify.checks.tier.unreadable import holes
from harness.verify.checks.tls import UNSECURED, secured
from harness.verify.checks.unavailable import unavailable
from harness.verify.doubts import doubts_of, history_problem
from harness.verify.engine.case import Case
from harness.verify.engine.counts import Counts
from harness.verify.engine.rows import NOT_FINDINGS, NOTED
from harness.verify.engine.runs import RecordRange
from harness.verify.engine.steps import episodes_of, step_at
from harness.verify.excusing import excused_findings, unreadable
from harness.verify.read_back import copies_read, deleted_by
from harness.verify.score import LOSSES, score
from harness.verify.sentences import note, promise, seen

# No verdict covers these, so every verdict lists them.
NOT_COVERED: Final = (
    "disks that report a flush which did not happen",
    "offset lookups by time or epoch on topics that retention, compaction or DeleteRecords may shorten",
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
OWN_CLIENT: Final = "the release's own Java client: {}"
UNTIERED: Final = "tiered storage"
UNOPERATED: Final = "acknowledged admin operations: topics, settings, ACLs, users and reassignments"
_GONE: Final = (Kind.LOST, Kind.LOG_START)
_COPIES: Final = (Kind.DUPLICATED, Kind.REORDERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResults:
    """Everything known about one case. runs: from the checks; failed: checks that failed, by name; admins:
    operations of admins and what nodes reported of them; below_log_start: see `read_back`; of_checks: doubts that
    checks declare."""

    case: Case
    runs: Sequence[RecordRange]
    counts: Counts
    failed: Mapping[str, str]
    admins: AdminReport = field(default_factory=AdminReport)
    tier: Tier = field(default_factory=Tier)
    below_log_start: Mapping[str, int] = field(default_factory=dict)
    of_checks: Sequence[Doubt] = ()


def conclude(known: CaseResults) -> Verdict:
    """The verdict on one case."""
    case = known.case
    reported = [run for run in known.runs if run.kind not in NOT_FINDINGS]
    operations, seam = judged(case, known.admins), judged_seam(case, known.tier)
    of_records = (*(_finding(run, case, known.tier) for run in reported), *_not_listed(reported))
    without_records = (
        *from_documents(case),
        *of_documents(case),
        *unavailable(case, known.counts.waits.stalls),
        *operations.findings,
        *seam.findings,
    )
    findings = (*excused_findings(case, known.tier, without_records), *of_records)
    doubts = [*doubts_of(case, known.counts, known.runs, known.failed), *operations.doubts, *seam.doubts]
    doubts += [*known.of_checks, *plugins.doubts(case)]
    doubts += holes(case, unreadable(case, known.tier))
    lost, excused = _losses(reported)
    promised = known.counts.totals.promised
    return Verdict(
        scenario=case.scenario.name or case.name,
        status=status_of(findings, doubts),
        findings=findings,
        doubts=tuple(doubts),
        notes=(*_notes(known), *seam.notes),
        score=replace(
            score(acked=promised, lost=lost, excused=excused, episodes=episodes_of(case.steps), findings=findings),
            operations_acked=operations.acked,
            operations_standing=operations.standing,
            operations_held=operations.held,
        ),
        promised=promised - excused,
        durable=promised - lost,
        not_covered=(
            *NOT_COVERED,
            *_own_client(case, known.counts),
            *([] if tiered(case) else [UNTIERED]),
            *([] if secured(case) else [UNSECURED]),
            *_not_covered(case),
            *([] if operations.standing else [UNOPERATED]),
        ),
        facts=_facts(known),
    )


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


def _not_covered(case: Case) -> list[str]:
    """Things that other scenarios test and this run did not: no fault with such a fact had an effect."""
    effective = [step for step in case.steps if step.is_fault and step.effect and step.effect.held]
    shown = {word for step in effective for fact in step.facts for word in (fact.kind, fact.how)}
    return [what for what, facts in _COVERED_BY.items() if not shown & facts]


def status_of(findings: Sequence[Finding], doubts: Sequence[Doubt]) -> Status:
    """A finding that condemns outweighs every doubt; a doubt outweighs a clean result."""
    if any(finding.condemns for finding in findings):
        return Status.FAIL
    return Status.INCONCLUSIVE if doubts else Status.PASS


def _finding(run: RecordRange, case: Case, tier: Tier) -> Finding:
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
        detail="; ".join(words for words in (seen(run), _in_tier(run, case, tier)) if words),
        contract=promise(kind_of(run.kind), run.topic, run.producer, case.contract, run.reason),
        excused_by=run.excused_by,
        excuse=run.excuse,
        explained_by=run.explained_by,
    )


def _in_tier(run: RecordRange, case: Case, tier: Tier) -> str:
    """For missing records of a topic in the remote tier: whether they had been copied there."""
    topic, place = case.contract.topics.get(run.topic), (run.topic, run.topic_id, run.partition)
    first, last = run.offset_first, run.offset_last
    if run.kind not in _GONE or topic is None or not topic.tiered or first is None or last is None:
        return ""
    return ever_copied(tier.partitions[place], first, last)


def _not_listed(runs: Sequence[RecordRange]) -> tuple[Finding, ...]:
    """One more finding for each kind of which not every range is listed, with the number of the others."""
    listed: dict[tuple[str, str | None, str | None], list[int]] = {}
    excuses: dict[str | None, Excused | None] = {None: None}
    for run in runs:
        excuses.setdefault(run.excused_by, run.excuse)
        figures = listed.setdefault((run.kind, run.excused_by, run.explained_by), [0, 0, 0, 0])
        figures[0] += 1
        figures[1] += run.count
        figures[2:] = run.all_runs, run.all_records
    return tuple(
        Finding(
            kind=kind_of(kind),
            count=records - records_listed,
            detail=f"{runs_all - runs_listed} more ranges of offsets; findings.parquet has every record",
            excused_by=excused,
            excuse=excuses[excused],
            explained_by=explained,
        )
        for (kind, excused, explained), (runs_listed, records_listed, runs_all, records) in listed.items()
        if runs_all > runs_listed
    )


def _losses(runs: Sequence[RecordRange]) -> tuple[int, int]:
    """Acknowledged records that are missing: all of them, and those that the contract permits to be lost."""
    fates = {
        (run.kind, run.excused_by, run.explained_by): run.all_records
        for run in runs
        if run.kind in LOSSES and run.stream_min is not None
    }
    return sum(fates.values()), sum(n for (_, excused, _), n in fates.items() if excused is not None)


def _notes(known: CaseResults) -> list[str]:
    case, runs = known.case, known.runs
    notes = list(case.run.notes or ())
    notes += returned_by_design(case)
    notes += plugins.notes(case)
    for kind in NOTED:
        if noted := [run for run in runs if run.kind == kind]:
            places = sorted({f"{run.topic}/{run.partition}" for run in noted})
            notes.append(note(kind, sum(run.fate_records for run in noted), places[:5]))
    if case.history is not None:  # the gaps are doubts
        notes += [history_problem(one) for one in case.history.problems if one not in case.history.gaps]
    condemned = [run for run in runs if run.kind in _COPIES and not (run.excused_by or run.explained_by)]
    if condemned and not known.counts.disks:
        notes.append(
            "no batch headers were read, so it is unknown whether the client caused second copies or their order"
        )
    return notes


def _facts(known: CaseResults) -> VerdictFacts:
    case, counts = known.case, known.counts
    read, of = counts.tier
    return VerdictFacts(
        release=case.manifest.release,
        starts_on=case.manifest.starts_on,
        seed=case.manifest.seed,
        plugins=tuple(plugin.used for plugin in active()),
        negative_control=case.run.negative_control,
        complete=case.complete,
        records=counts.totals,
        availability=figures(case, counts.waits, counts.sent),
        read_from_tier=ReadFromTier(records=read, of=of) if tiered(case) else None,
        redelivered=counts.again,
        missed=counts.missed,
        stopped=stopped(case),
        shown_undecided=counts.undecided,
        deleted=_below_log_start(case),
        deleted_by=deleted_by(case, counts, known.runs, known.below_log_start),
        read_back=copies_read(case, counts),
        returned=returned(case),
        unknown_outcomes={f"{t}/{p}": sent.unknown for (t, _, p), sent in sorted(counts.sent.items()) if sent.unknown},
        observations={" ".join(who): n for who, n in sorted(counts.read.items())},
        steps=tuple(_shown(step) for step in case.steps),
    )


def _shown(step: Step) -> ShownStep:
    return ShownStep(name=step.name, do=step.do, is_fault=step.is_fault, effect=step.effect)


def _below_log_start(case: Case) -> dict[str, int]:
    """By "topic/partition", how many offsets were below the log start at the end."""
    starts = {
        f"{p.topic}/{p.partition}": max((log.log_start for log in p.logs), default=0) for p in case.last_partitions
    }
    return {place: start for place, start in sorted(starts.items()) if start > 0}
