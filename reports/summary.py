"""The sentences of all reports: the verdict, what it means, which records were lost, where and why, and the score."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from harness.evidence.gate import PROVED_PERCENT, GateSummary, ScenarioResult, Try
from harness.evidence.thinned import JUDGED_BEFORE
from harness.model.bound import loss_bound
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import LongestStall, ReadBack, ReadFromTier
from harness.model.finding import (
    ADMIN_KINDS,
    CLUSTER_KINDS,
    ELECTION_KINDS,
    GROUP_KINDS,
    METADATA_KINDS,
    NODE_KINDS,
    PRODUCER_KINDS,
    SEEN_KINDS,
    Finding,
)
from harness.model.verdict import Score, Status, Verdict, overall
from reports.notation import kafka_notation
from reports.terminal import Line

FINDINGS_SHOWN: Final = 6
MISSING_SHOWN: Final = 5
STALLS_SHOWN: Final = 3
EPISODES_LEAST: Final = 5  # with fewer, the bound on the chance of loss is above 50 % even without a loss
FLAKY: Final = "FLAKY"  # the word for a scenario with different verdicts on one release; it softens no verdict
# A run that never began has no evidence that could tell one from the other.
_NO_VERDICT: Final = "No verdict, because the harness failed or a cluster did not start"
_SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999
_WITH_TOPIC: Final = "the deletion of their topic"
# What deleted records, by its word in `deleted_by`; everything else there is a setting.
_REQUESTS: Final = {
    "DeleteRecords": "by DeleteRecords",
    "the end of tiered storage": "by the end of tiered storage",
    "compaction": "by compaction",
    _WITH_TOPIC: "with their topic",
    "an unknown cause": "by an unknown cause",
}
_STYLE: Final = {Status.PASS: "bold green", Status.INCONCLUSIVE: "bold yellow", Status.FAIL: "bold red"}


def covered_by_none(verdicts: Sequence[Verdict]) -> list[str]:
    """The entries of `not_covered` that all verdicts share."""
    first, *others = [v.not_covered for v in verdicts] or [()]
    return [what for what in first if all(what in other for other in others)]


def release_name(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> str:
    """The name of the release, such as "Kafka 4.3.1 (commit 1234abcd)", as far as it is known."""
    reported = (verdict.facts.release for verdict in verdicts.values())
    known = (release for release in (summary.release, *reported) if release is not None and release != NamedRelease())
    return _named(next(known, NamedRelease()))


def _named(release: NamedRelease) -> str:
    known = release.commit if release.commit not in (None, "", "unknown") else None
    return f"Kafka {release.version or 'of unknown version'}" + (f" (commit {known})" if known else "")


def began_lines(verdict: Verdict) -> list[Line]:
    """Names the release that nodes ran before an upgrade; no line without an upgrade."""
    began = verdict.facts.starts_on
    return [(f"  upgraded from {_named(began)}", "dim")] if began else []


def counted(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts that figures are about: planted episodes of a night are in none."""
    planted = summary.night.planted if summary.night is not None else ()
    return {name: verdict for name, verdict in verdicts.items() if name not in planted}


def status_of(summary: GateSummary, without: Mapping[str, str]) -> Status:
    """The status of a summary without its known findings; bundles `without` a verdict prove nothing."""
    return overall([summary.outcome, *(Status.INCONCLUSIVE for _ in without)])


def headline_lines(summary: GateSummary, verdicts: Mapping[str, Verdict], without: Mapping[str, str]) -> list[Line]:
    """The verdict, the reason for it in one sentence, and what has no verdict."""
    word = _with_gaps(summary, without) if without else _word(summary)
    lines: list[Line] = [(f"{word}: {release_name(summary, verdicts)}", _STYLE[status_of(summary, without)])]
    if summary.results or not without:
        lines.append((f"  {'For the judged bundles: ' if without else ''}{_meaning(summary, verdicts)}", ""))
        lines += _deleted(counted(summary, verdicts))
    if without:
        lines.append(("  These bundles could not be judged and prove nothing:", ""))
        lines += [(f"    {bundle}: {sentence}", "bold magenta") for bundle, sentence in without.items()]
    if missing := summary.missing if summary.part else summary.lacking:
        named = ", ".join(missing[:MISSING_SHOWN])
        more = f" and {len(missing) - MISSING_SHOWN} more" if len(missing) > MISSING_SHOWN else ""
        lines.append((f"  without a verdict: {named}{more}", ""))
    if summary.flaky:
        lines.append(
            (f"  {FLAKY}, as tries on this release have different verdicts: {', '.join(summary.flaky)}", "yellow")
        )
    lines += _of_night(summary)
    lines += _plugins(verdicts)
    lines += [(f"  not applicable: {reason}", "dim") for reason in summary.not_applicable.values()]
    lines += [(f"  not run: {reason}", "bold magenta") for reason in summary.not_run.values()]
    return lines


def _of_night(summary: GateSummary) -> list[Line]:
    """The figures that decide on a night; no line for a gate."""
    if summary.night is None:
        return []
    proved, of = summary.proved
    lines: list[Line] = [
        (
            f"  proved something: {proved} of {of} episodes ({summary.proved_percent:.0f} %; a PASS needs "
            f"{PROVED_PERCENT} %)",
            "",
        )
    ]
    if doubted := summary.with_release_doubts:
        lines.append((f"  doubts about the release, so this is no PASS: {', '.join(doubted)}", "bold yellow"))
    if planted := summary.night.planted:
        met = [name for name in planted if name not in summary.not_failed]
        lines.append((f"  planted losses that were found, as they must be: {len(met)} of {len(planted)}", ""))
    if summary.thinned:
        lines.append((f"  {JUDGED_BEFORE}: {len(summary.thinned)} of {of + len(planted)} episodes", "dim"))
    return lines


def _plugins(verdicts: Mapping[str, Verdict]) -> list[Line]:
    """Names the plugins that judged with checks of their own."""
    known = {plugin.name: plugin.checks for v in verdicts.values() for plugin in v.facts.plugins}
    judged = [f"{name} ({', '.join(checks)})" for name, checks in sorted(known.items()) if checks]
    return [(f"  judged by plugins, too: {', '.join(judged)}", "")] if judged else []


def _word(summary: GateSummary) -> str:
    """The verdict and how many scenarios of the gate it covers."""
    asked, came = len(summary.required), len(summary.results)
    outcome = summary.outcome
    if summary.night is not None:
        return f"{summary.word} of a night of {asked} episode{'' if asked == 1 else 's'}"
    after = [summary.status_after(result) for result in summary.results]
    if asked == 1 and not summary.missing:
        return f"{summary.word} of scenario {summary.required[0]}"
    if outcome is Status.PASS:
        return summary.subset or f"{summary.word} of all {asked} scenarios"
    if summary.lacking and came and all(status is Status.PASS for status in after):
        return f"INCONCLUSIVE: {came} of {asked} scenarios PASS, {len(summary.lacking)} without a verdict"
    so = sum(status is outcome or (status is None and outcome is not Status.FAIL) for status in after)
    return f"{summary.word} in {so} of {came} scenarios" + (f" that ran, of {asked}" if came < asked else "")


def _with_gaps(summary: GateSummary, without: Mapping[str, str]) -> str:
    """The verdict when some bundles could not be judged; it never covers all bundles."""
    judged = {name for result in summary.results for name in result.bundles} - without.keys()
    gaps = f"{len(without)} could not be judged"
    if summary.outcome is Status.PASS or not judged:
        return f"{summary.word} of {len(judged)} of {len(judged) + len(without)} bundles; {gaps}"
    return f"{_word(summary)}; {len(without)} bundle{'s' if len(without) > 1 else ''} could not be judged"


def _meaning(summary: GateSummary, verdicts: Mapping[str, Verdict]) -> str:
    if summary.night is not None:
        return _meaning_of_night(summary)

    def names(status: Status | None) -> str:
        return ", ".join(r.name for r in summary.results if summary.status_after(r) is status)

    known = [r.name for r in summary.results if summary.status_after(r) is not r.status]
    if summary.outcome is Status.FAIL:
        return f"The release broke a promise in: {names(Status.FAIL)}. Do not ship it before the cause is known."
    if broken := names(None):
        return f"{_NO_VERDICT}: {broken}. These scenarios prove nothing."
    if known:
        found = f"Every finding that breaks a promise is a known one, in: {', '.join(known)}"
        if summary.outcome is Status.PASS:
            return f"{found}; there is no other finding and no doubt."
        doubtful = [r.name for r in summary.results if summary.status_after(r) is Status.INCONCLUSIVE]
        return f"{found}; the run proved too little in: {', '.join([*doubtful, *summary.lacking])}."
    if summary.status is Status.INCONCLUSIVE:
        inconclusive, lacking = names(Status.INCONCLUSIVE), len(summary.lacking)
        if lacking and summary.results and not inconclusive:
            return "No broken promise was found, but some scenarios have no verdict; --without NAME leaves one out."
        return f"No broken promise was found, but the run proved too little in: {inconclusive or 'nothing ran'}."
    some_deleted = any(v.facts.deleted_by for v in verdicts.values())
    return _read_back([v.facts.read_back for v in verdicts.values()], some_deleted=some_deleted)


def _meaning_of_night(summary: GateSummary) -> str:
    failed = [r.name for r in summary.results if summary.status_after(r) is Status.FAIL]
    if failed:
        return f"The release broke a promise in: {', '.join(failed)}. Do not ship it before the cause is known."
    if broken := summary.without_verdict:
        return f"{_NO_VERDICT}: {', '.join(broken)}. A finding may be in what was not judged."
    if summary.not_failed:
        return f"A loss that the harness planted was not found in: {', '.join(summary.not_failed)}."
    if summary.outcome is Status.PASS:
        return "No episode has a finding that breaks a promise."
    if summary.with_release_doubts:
        return "No broken promise was found, but a doubt is about the release."
    return "No broken promise was found, but too few episodes proved something."


def _read_back(reads: Sequence[ReadBack | None], *, some_deleted: bool) -> str:
    """The claim of a PASS about records, and the number of copies for which it holds."""
    read = "Every promised record{} was read back{{}}: once, in order and unchanged."
    read = read.format(" that was not deleted" if some_deleted else "")
    known = [one for one in reads if one is not None]
    if not known or len(known) < len(reads):  # verdicts of an earlier harness do not say what was read
        return read.format("")
    partitions, done = sum(one.partitions for one in known), sum(one.copies_read for one in known)
    copies = [one.copies for one in known if one.copies is not None]
    there = sum(copies) if len(copies) == len(known) else None
    if there is not None and done >= there:
        return f"{read.format(' from every copy')} {there:,} copies of {partitions:,} partitions were read."
    if there is None:
        return f"{read.format('')} {done:,} copies were read; no broker reported how many there are."
    return f"{read.format('')} {done:,} of {there:,} copies were read; nothing is known about the others."


def _deleted(verdicts: Mapping[str, Verdict]) -> list[Line]:
    """How many acknowledged records were deleted as configured or requested, and so were not read back."""
    found: Counter[str] = Counter()
    acked = 0
    for verdict in verdicts.values():
        found.update(verdict.facts.deleted_by)
        acked += verdict.facts.records.promised if verdict.facts.records else 0
        acked += verdict.facts.deleted_by.get(_WITH_TOPIC, 0)  # these are not promised any more
    if not found:
        return []
    of = f" of {acked:,}" if acked else ""
    causes = [(records, _REQUESTS.get(cause, f"as {cause} permits")) for cause, records in sorted(found.items())]
    if len(causes) == 1:
        return [(f"  {causes[0][0]:,}{of} deleted, {causes[0][1]}.", "")]
    by = ", ".join(f"{records:,} {why}" for records, why in causes)
    return [(f"  {found.total():,}{of} deleted: {by}.", "")]


def replay_command(summary: GateSummary, verdict: Verdict, other: str = "") -> str:
    """The command that plays a scenario again; empty where it is not known.

    A negative control has no command of its own. other: a release in place of the tested one.
    """
    release = verdict.facts.release or summary.release
    seed = summary.seed if summary.seed is not None else verdict.facts.seed
    kafka = _kafka_of(release)
    if verdict.facts.negative_control or verdict.facts.plugins or seed is None or not kafka:
        return ""
    records = "" if summary.records is None else f" --records {summary.records}"
    backend = f" --backend {summary.backends[0]}" if len(summary.backends) == 1 else ""
    # The plan of an episode is a file in the folder of its night.
    name = verdict.scenario
    scenario = summary.scenario_files.get(name, name) if summary.night is None else f"plans/{name}.toml"
    limits = "" if summary.limits is None else summary.limits.command_line()
    storage = "" if summary.tier_storage is None else f" --tier-storage {shlex.quote(summary.tier_storage)}"
    played = f"durability run {shlex.quote(scenario)} --kafka {other or kafka}"
    return f"{played} --seed {seed}{records}{backend}{limits}{storage}"


def replay_with(summary: GateSummary) -> str:
    """The part of a run that the command of `replay_command` repeats."""
    return "with the same release and seed" if replay_lacks(summary) else "with the same release, seed and --records"


def replay_lacks(summary: GateSummary) -> str:
    """What the command of `replay_command` does not repeat, in a sentence; empty where it repeats everything."""
    if summary.records is not None:
        return ""
    return "The evidence does not say --records of this run, so the command plays the default number of records."


def _kafka_of(release: NamedRelease) -> str:
    """The value of --kafka for a release, and the repository that has it; empty where they are not known."""
    if not release.kafka:
        return ""
    repository = "" if release.maven_repo is None else f" --maven-repo {shlex.quote(release.maven_repo)}"
    return f"{shlex.quote(release.kafka)}{repository}"


def try_lines(result: ScenarioResult) -> list[Line]:
    """Each try of a scenario in order, with its own verdict; no line for a single one."""
    if len(result.tries) < 2:
        return []
    return [(f"  try {number}: {_of_try(one, result)}", "dim") for number, one in enumerate(result.tries, 1)]


def _of_try(one: Try, result: ScenarioResult) -> str:
    status = "could not be judged" if one.status is None else one.status.name
    text = f"{status}, {one.bundle}"
    if one.bundle != result.bundle:
        return text
    last = one is result.tries[-1]
    stands = not last and one.status is Status.INCONCLUSIVE
    return f"{text}; it decides" + (", as its doubts may be about the release" if stands else "")


def finding_lines(finding: Finding) -> list[Line]:
    """Says which records have which fate, where and when, and which promise that breaks."""
    head = f"  {finding.kind.value}: {amount_of(finding)}{place_of(finding)}{time_of(finding)}"
    reasons = [kafka_notation(text) for text in (finding.detail, finding.contract) if text]
    return [(head, "bold"), *((f"    {text}", "") for text in reasons)]


def excused_lines(verdict: Verdict) -> list[Line]:
    """One line for each finding that the contract permits or that the client caused."""
    lines: list[Line] = []
    for finding in [f for f in verdict.findings if not f.condemns][:FINDINGS_SHOWN]:
        place = place_of(finding)
        lines.append((f"  {finding.kind.value}: {amount_of(finding)}{place}; {reason_of(finding)}", "dim"))
    return lines


def reason_of(finding: Finding) -> str:
    """Why a finding does not condemn."""
    excuse, cause = finding.excused_by, finding.explained_by
    return kafka_notation(f"permitted: {excuse}" if excuse else f"caused by the client: {cause}")


def amount_of(finding: Finding) -> str:
    """Such as "30 records"."""
    words = (
        ("operation", ADMIN_KINDS),
        ("node", NODE_KINDS),
        ("difference", METADATA_KINDS),
        ("cluster", CLUSTER_KINDS),
        ("producer", PRODUCER_KINDS),
        ("partition", GROUP_KINDS),
        ("election", ELECTION_KINDS),
    )
    what = next((word for word, kinds in words if finding.kind in kinds), "record")
    return f"1 {what}" if finding.count == 1 else f"{finding.count:,} {what}s"


def place_of(finding: Finding) -> str:
    """Such as " of plain-0, offsets 480 to 509"; empty if the finding names no place.

    Records without a known offset are named by their sequence numbers.
    """
    where = "" if finding.topic is None else f" of {finding.topic}"
    if finding.topic is not None and finding.partition is not None:
        where += f"-{finding.partition}"
    if finding.offset_first is not None:
        where += f", offset{_range(finding.offset_first, finding.offset_last)}"
    elif finding.stream is not None and finding.seq_first is not None:
        where += f", record{_range(finding.seq_first, finding.seq_last)} of stream {finding.stream}"
    return where + (f", seen by {finding.reader}" if finding.reader else "")


def _range(first: int, last: int | None) -> str:
    return f" {first}" if last is None or last == first else f"s {first} to {last}"


def time_of(finding: Finding) -> str:
    """Such as ", sent 12:52:13.567 UTC during kill_leader"; empty if no time is known."""
    if finding.first_ns is None:
        return f", during {finding.step}" if finding.step else ""
    first, last = clock(finding.first_ns), clock(finding.last_ns or finding.first_ns)
    span = first if first == last else f"{first} to {last}"
    words = (("asked", ADMIN_KINDS), ("ended", NODE_KINDS), ("seen", SEEN_KINDS))
    done = next((word for word, kinds in words if finding.kind in kinds), "sent")
    return f", {done} {span} UTC" + (f" during {finding.step}" if finding.step else "")


def clock(at_ns: int, digits: int = 3) -> str:
    """The time of day, to a millisecond or to more digits. A float cannot hold epoch nanoseconds exactly."""
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    if not 0 <= seconds <= _SECONDS_MAX:  # damaged evidence
        return f"{at_ns} ns"
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{f'{rest_ns:09d}'[:digits]}"


def score_lines(verdicts: Collection[Verdict]) -> list[Line]:
    """The score by fault episodes with its bound, and shares of records; no line without a score."""
    scores = [v.score for v in verdicts if v.score is not None]
    if not scores:
        return []
    acked = sum(s.acked for s in scores)
    deleted = sum(v.facts.deleted_records for v in verdicts)
    durable = sum(s.durable_raw for s in scores) - deleted
    promised = sum(v.promised for v in verdicts) - deleted
    kept = sum(v.durable for v in verdicts) - deleted
    unknown = sum(s.unknown for s in scores)
    known = f"{_share(kept, promised - unknown, 'promised records')} are durable"
    if permitted := acked - deleted - promised:
        durable_of_all = _share(durable, acked - deleted - unknown, "records")
        known += f"; with {permitted:,} whose loss the contract permits, {durable_of_all}"
    return [
        (_episodes(scores), "bold"),
        (f"  {_with_unknown(known, promised - unknown, unknown)}", "dim"),
        *_operations(scores),
        *_tier([v.facts.read_from_tier for v in verdicts]),
    ]


def promised_lines(verdicts: Collection[Verdict]) -> list[str]:
    """Why fewer records are promised than were acknowledged; no line where all are, or where that is not known."""
    known = [(v, v.facts.records, v.score) for v in verdicts if v.facts.records is not None and v.score is not None]
    acked = sum(records.acked for _, records, _ in known)
    promised = sum(v.promised - v.facts.deleted_records for v, _, _ in known)
    with_topic = sum(v.facts.deleted_by.get(_WITH_TOPIC, 0) for v, _, _ in known)
    not_committed = acked - sum(records.promised for _, records, _ in known) - with_topic
    reasons = (
        (not_committed, "{} were in transactions that did not commit"),
        (with_topic, "{} were in topics that were deleted on purpose"),
        (sum(v.facts.deleted_records for v, _, _ in known), "{} were deleted, as configured or requested"),
        (sum(score.acked - v.promised for v, _, score in known), "the contract permits the loss of {}"),
    )
    named = [text.format(f"{count:,}") for count, text in reasons if count > 0]
    if not named:
        return []
    others = named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, and {named[-1]}"
    return [f"{acked:,} records were acknowledged, and {promised:,} of them are promised. Of the others, {others}."]


def durable_text(verdict: Verdict) -> str:
    """Such as "98 of 100 promised records durable", without those of which that is unknown, which are named."""
    gone = verdict.facts.deleted_records
    unknown = verdict.score.unknown if verdict.score else 0
    known = verdict.promised - gone - unknown
    return _with_unknown(f"{verdict.durable - gone:,} of {known:,} promised records durable", known, unknown)


def _with_unknown(text: str, known: int, unknown: int) -> str:
    """The text about `known` records, and that nothing is known about others."""
    if not unknown:
        return text
    other, before = ("other ", f"{text}; ") if known > 0 else ("", "")
    what = f"{unknown:,} {other}promised records are lost: no read after healing returned them"
    return f"{before}it is unknown whether {what}"


def _episodes(scores: Sequence[Score]) -> str:
    """How many fault episodes lost something, and what was lost where there was none."""
    losses, episodes, unknown, without_fault = (
        sum(getattr(s, figure) for s in scores)
        for figure in ("episodes_with_loss", "episodes", "episodes_unknown", "lost_without_fault")
    )
    parts = []
    if episodes:
        parts.append(f"{losses} of {episodes} fault episodes lost promised records; {_bound(losses, episodes)}")
    if unknown:
        other = "other " if episodes else ""
        parts.append(f"it is unknown whether {unknown} {other}fault episodes lost promised records")
    if without_fault:
        parts.append(f"{without_fault:,} promised records or operations were lost where no fault had an effect")
    return "; ".join(parts) or "no fault had an effect, so there is no figure about fault episodes"


def _bound(losses: int, episodes: int) -> str:
    """How likely a loss may still be in one fault episode. Few episodes leave nearly every chance open."""
    if episodes < EPISODES_LEAST:
        return f"{episodes} episode{' is' if episodes == 1 else 's are'} too few to say how likely a loss is"
    chance = loss_bound(losses, episodes) * 100
    return f"with 95 % confidence, at most {chance:.{0 if chance >= 10 else 1}f} % of such episodes lose records"


def _operations(scores: Sequence[Score]) -> list[Line]:
    """Operations of admins. Most are replaced by later ones; the last one on each entity must be visible."""
    acked, standing, held = (
        sum(getattr(s, f"operations_{figure}") for s in scores) for figure in ("acked", "standing", "held")
    )
    if not acked:
        return []
    last = f"{held:,} of {standing:,} last operations of admins on an entity were found in effect"
    return [(f"  {last}; {acked:,} were acknowledged", "dim")]


def _tier(figures: Sequence[ReadFromTier | None]) -> list[Line]:
    """How much was read from the remote tier, in scenarios that have one."""
    reported = [figure for figure in figures if figure]
    if not reported:
        return []
    far, read = sum(figure.records for figure in reported), sum(figure.of for figure in reported)
    return [(f"  {far:,} of {read:,} records read back from tiered topics came from the remote tier", "dim")]


def availability_lines(verdicts: Mapping[str, Verdict]) -> list[Line]:
    """The longest stalls and their faults. Latencies only for a single scenario: percentiles cannot be added up."""
    reported = {name: v.facts.availability for name, v in verdicts.items() if v.facts.availability}
    stalls = {name: figures.longest_stall for name, figures in reported.items() if figures.longest_stall}
    lines: list[Line] = []
    if len(reported) == 1:
        (figures,) = reported.values()
        for what, took in (("acks", figures.ack_ms), ("live reads", figures.read_ms)):
            by_window = [f"{w} {of.p50:,.0f}/{of.p99:,.0f} ms" for w, of in took.items()]
            if by_window:
                lines.append((f"  {what} took p50/p99: {', '.join(by_window)}", "dim"))
        behind = [f"{seconds:.1f} s ({fault})" for fault, seconds in figures.tier_caught_up_s.items()]
        if behind:
            lines.append((f"  the remote tier caught up after healing within: {', '.join(behind)}", "dim"))
    worst = sorted(stalls.items(), key=lambda stall: -stall[1].s)[:STALLS_SHOWN]
    if worst:
        named = ", ".join(
            f"{stall.s:.1f} s in {kafka_notation(stall.place)}"
            + (f" of {name}" if len(reported) > 1 else "")
            + (f" ({_during(stall)})" if stall.fault else "")
            for name, stall in worst
        )
        lines.append((f"  longest without acks: {named}", "dim"))
    return lines


def _during(stall: LongestStall) -> str:
    """The fault that a stall is attributed to, and the other faults that were active."""
    others = stall.also_open
    return (
        f"{stall.fault}, while {' and '.join(others)} {'were' if len(others) > 1 else 'was'} active"
        if others
        else str(stall.fault)
    )


def _share(part: int, whole: int, what: str) -> str:
    """Such as "999,950 of 1,000,000 records (99.995 %, 4.3 nines)"; 100 % has no number of nines."""
    counts = f"{part:,} of {whole:,} {what}"
    if whole == 0 or part in (0, whole):
        return counts + (f" ({100 if part else 0} %)" if whole else "")
    missing = (whole - part) / whole
    digits = max(2, 1 - math.floor(math.log10(missing)))
    return f"{counts} ({100 * (1 - missing):.{digits}g} %, {-math.log10(missing):.1f} nines)"
