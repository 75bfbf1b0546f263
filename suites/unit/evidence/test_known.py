"""Known findings applied to a gate: the one place where a finding may not condemn, so each way to misuse it is here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.evidence.documents import read_json
from harness.evidence.gate import (
    GATE,
    PASS_WITH_KNOWN,
    GateSummary,
    NightRule,
    ScenarioResult,
    decided,
    read_gate,
    try_of,
    write_gate,
)
from harness.evidence.known import with_known
from harness.evidence.verdicts import read_verdict
from harness.model.documents.manifest import NamedRelease
from harness.model.documents.verdict_facts import VerdictFacts
from harness.model.doubt_names import DoubtOrigin
from harness.model.exits import Exit
from harness.model.finding import Finding, Kind
from harness.model.known_findings import EPISODES, KnownFile, KnownFinding
from harness.model.verdict import Doubt, Status, Verdict
from suites.unit.evidence_examples import judged, lost, verdict

RELEASE = NamedRelease(version="4.3.1", commit="c", source="here")
DAY = date(2026, 12, 1)


def entry(**changes: object) -> KnownFinding:
    fields: dict[str, object] = {
        "scenario": "a",
        "kind": "lost",
        "first_release": "4.3.0",
        "last_release": "4.3.1",
        "records": 50,
        "owner": "a team",
        "reason": "It is open.",
        "link": "https://example.org/1",
        "failed": 1,
        "tries": 1,
        "expires": "2026-12-01",
    }
    return KnownFinding(**{**fields, **changes})  # type: ignore[arg-type]


def of(*entries: KnownFinding, day: date = DAY) -> KnownFile:
    return KnownFile(file="known.toml", sha256="0" * 64, entries=entries, day=day)


def gate(out: Path, *tries: Verdict, release: NamedRelease = RELEASE) -> GateSummary:
    """A gate of one scenario with these tries."""
    names = ["a", "a-again"][: len(tries)]
    for name, one in zip(names, tries, strict=True):
        judged(out / name, one)
    result = decided("a", [try_of(name, one) for name, one in zip(names, tries, strict=True)])
    return GateSummary(required=("a",), results=(result,), release=release)


def failed(*findings: Finding, doubts: Sequence[Doubt] = (), facts: VerdictFacts | None = None) -> Verdict:
    found = verdict("a", Status.FAIL, *(findings or (lost(50),)))
    return replace(found, doubts=tuple(doubts), facts=facts or VerdictFacts())


def test_a_known_finding_changes_the_word_and_the_exit_code_and_no_verdict(tmp_path: Path) -> None:
    summary = with_known(gate(tmp_path, failed()), tmp_path, of(entry()))
    assert (summary.word, summary.exit, summary.outcome) == (PASS_WITH_KNOWN, Exit.PASS, Status.PASS)
    assert summary.status is Status.FAIL
    assert summary.results[0].status is Status.FAIL
    assert read_verdict(tmp_path / "a").findings[0].condemns
    assert summary.known is not None
    (match,) = summary.known.matched
    assert (match.entry, match.bundle, match.records, match.findings) == (entry(), "a", 50, 1)
    assert summary.known.unused == ()
    write_gate(tmp_path, summary)
    assert read_gate(tmp_path) == summary
    document = read_json(tmp_path / GATE)
    assert isinstance(document, dict)
    assert (document["verdict"], document["word"]) == ("FAIL", PASS_WITH_KNOWN)


def test_without_a_file_those_of_an_earlier_gate_do_not_count(tmp_path: Path) -> None:
    before = with_known(gate(tmp_path, failed()), tmp_path, of(entry()))
    assert before.exit is Exit.PASS
    after = with_known(before, tmp_path, None)
    assert (after.word, after.exit, after.known) == ("FAIL", Exit.FAIL, None)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"scenario": "b"}, "the scenario was not played"),
        ({"kind": "vanished"}, "the scenario had no such finding"),
        ({"topic": "other"}, "the scenario had no such finding"),
        ({"records": 49}, "more than its 49 (a: 50 condemn)"),
        ({"first_release": "4.4.0", "last_release": "4.4.0"}, "Kafka 4.3.1 is not in its range"),
        ({"last_release": "4.3.0"}, "Kafka 4.3.1 is not in its range"),
        ({"expires": "2026-11-30"}, "it expired on 2026-11-30 (a: 50 condemn)"),
    ],
)
def test_an_entry_that_differs_in_one_point_covers_nothing_and_is_named(
    tmp_path: Path, other: dict[str, object], why: str
) -> None:
    summary = with_known(gate(tmp_path, failed()), tmp_path, of(entry(**other)))
    assert (summary.word, summary.exit, summary.status) == ("FAIL", Exit.FAIL, Status.FAIL)
    assert summary.known is not None
    assert (summary.known.matched, summary.known.results) == ((), {})
    (unused,) = summary.known.unused
    assert unused.why == why


@pytest.mark.parametrize(
    "findings",
    [
        (lost(50), lost(1, first=900)),  # one record beyond the limit, in another range
        (lost(50), replace(lost(1), topic="internal", partition=3)),  # no topic is named, so its sum counts, too
        (lost(20), replace(lost(1), kind=Kind.VANISHED)),  # another kind
        (lost(20), Finding(kind=Kind.LOST, count=31, detail="31 more ranges of offsets")),
        (replace(lost(1), count=0),),
        (lost(50), replace(lost(1), count=-1)),
    ],
)
def test_anything_beyond_an_entry_condemns(tmp_path: Path, findings: tuple[Finding, ...]) -> None:
    summary = with_known(gate(tmp_path, failed(*findings)), tmp_path, of(entry()))
    assert (summary.word, summary.exit) == ("FAIL", Exit.FAIL)


def test_ranges_that_verdict_json_only_counts_are_not_of_a_named_topic(tmp_path: Path) -> None:
    found = (lost(20), Finding(kind=Kind.LOST, count=5, detail="5 more ranges of offsets"))
    assert with_known(gate(tmp_path, failed(*found)), tmp_path, of(entry(topic="plain"))).exit is Exit.FAIL
    assert with_known(gate(tmp_path, failed(*found)), tmp_path, of(entry())).exit is Exit.PASS


def test_permitted_findings_need_no_entry_and_do_not_count(tmp_path: Path) -> None:
    found = (lost(50), lost(999, first=2000, excused_by="an election"))
    assert with_known(gate(tmp_path, failed(*found)), tmp_path, of(entry())).exit is Exit.PASS


def test_a_fail_without_a_condemning_finding_stays_one(tmp_path: Path) -> None:
    odd = failed(lost(50, excused_by="an election"))
    assert with_known(gate(tmp_path, odd), tmp_path, of(entry())).exit is Exit.FAIL


@pytest.mark.parametrize("origin", list(DoubtOrigin))
def test_a_doubt_beside_a_known_finding_is_inconclusive(tmp_path: Path, origin: DoubtOrigin) -> None:
    doubted = failed(doubts=[Doubt("floor_after", "12 acks", origin)])
    summary = with_known(gate(tmp_path, doubted), tmp_path, of(entry()))
    assert (summary.word, summary.exit, summary.status) == ("INCONCLUSIVE", Exit.INCONCLUSIVE, Status.FAIL)
    followed = with_known(gate(tmp_path, doubted, verdict("a", Status.PASS)), tmp_path, of(entry()))
    assert followed.exit is Exit.INCONCLUSIVE  # also when another run is PASS


def test_an_inconclusive_stays_one(tmp_path: Path) -> None:
    summary = with_known(gate(tmp_path, verdict("a", Status.INCONCLUSIVE)), tmp_path, of(entry()))
    assert (summary.word, summary.exit) == ("INCONCLUSIVE", Exit.INCONCLUSIVE)
    after = with_known(gate(tmp_path, failed(), verdict("a", Status.INCONCLUSIVE)), tmp_path, of(entry()))
    assert after.exit is Exit.INCONCLUSIVE  # its doubts are about the release, by default


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (failed(), Exit.PASS),  # the limit is for one try
        (failed(lost(51)), Exit.FAIL),
        (failed(replace(lost(1), kind=Kind.VANISHED)), Exit.FAIL),
        (verdict("a", Status.PASS), Exit.PASS),
    ],
)
def test_every_try_is_looked_at(tmp_path: Path, second: Verdict, code: Exit) -> None:
    assert with_known(gate(tmp_path, failed(), second), tmp_path, of(entry())).exit is code
    if second.status is Status.FAIL:
        assert with_known(gate(tmp_path, second, failed()), tmp_path, of(entry())).exit is code


def test_a_try_without_a_verdict_stays_a_fail(tmp_path: Path) -> None:
    judged(tmp_path / "a", failed())
    tries = [try_of("a", failed()), try_of("a-again", None, "damaged")]
    summary = GateSummary(required=("a",), results=(decided("a", tries),), release=RELEASE)
    assert with_known(summary, tmp_path, of(entry())).exit is Exit.FAIL


def test_a_bundle_that_could_not_be_judged_again_has_no_known_finding(tmp_path: Path) -> None:
    summary = gate(tmp_path, failed())
    assert with_known(summary, tmp_path, of(entry()), without=["a"]).exit is Exit.FAIL
    assert with_known(summary, tmp_path, of(entry()), without=["b"]).exit is Exit.PASS


@pytest.mark.parametrize("changed", ["missing", "damaged", "another status", "another scenario"])
def test_verdict_json_must_be_what_gate_json_names(tmp_path: Path, changed: str) -> None:
    summary, file = gate(tmp_path, failed()), tmp_path / "a" / "verdict.json"
    if changed == "missing":
        file.unlink()
    elif changed == "damaged":
        file.write_text("{")
    elif changed == "another status":
        judged(tmp_path / "a", verdict("a", Status.PASS))
    else:
        judged(tmp_path / "a", replace(failed(), scenario="b"))
    assert with_known(summary, tmp_path, of(entry(), entry(scenario="b"))).exit is Exit.FAIL


@pytest.mark.parametrize(
    ("of_gate", "of_verdict", "code"),
    [
        ("4.3.1", "4.3.1", Exit.PASS),
        (None, "4.3.1", Exit.PASS),  # a bundle without its gate.json
        ("4.3.1", None, Exit.PASS),
        (None, None, Exit.FAIL),
        ("4.3.1", "4.4.0", Exit.FAIL),
        ("4.4.0", "4.3.1", Exit.FAIL),
    ],
)
def test_every_release_that_is_named_is_in_the_range(
    tmp_path: Path, of_gate: str | None, of_verdict: str | None, code: Exit
) -> None:
    facts = VerdictFacts(release=NamedRelease(version=of_verdict))
    summary = gate(tmp_path, failed(facts=facts), release=NamedRelease(version=of_gate))
    assert with_known(summary, tmp_path, of(entry())).exit is code


def test_a_negative_control_has_no_known_finding(tmp_path: Path) -> None:
    control = failed(facts=VerdictFacts(negative_control="acks=1"))
    summary = with_known(gate(tmp_path, control), tmp_path, of(entry()))
    assert summary.exit is Exit.FAIL
    assert summary.known is not None
    assert "a negative control must FAIL" in summary.known.unused[0].why


@pytest.mark.parametrize(
    ("other", "required", "code", "word"),
    [
        (ScenarioResult(name="b", status=Status.PASS, bundle="b"), ("a", "b"), Exit.PASS, PASS_WITH_KNOWN),
        (
            ScenarioResult(name="b", status=Status.INCONCLUSIVE, bundle="b"),
            ("a", "b"),
            Exit.INCONCLUSIVE,
            "INCONCLUSIVE",
        ),
        (ScenarioResult(name="b", status=Status.FAIL, bundle="b"), ("a", "b"), Exit.FAIL, "FAIL"),
        (ScenarioResult(name="b", status=None, error="no slot"), ("a", "b"), Exit.HARNESS, "INCONCLUSIVE"),
        (ScenarioResult(name="b", status=Status.PASS, bundle="b"), ("a", "b", "c"), Exit.INCONCLUSIVE, "INCONCLUSIVE"),
    ],
)
def test_a_known_finding_hides_nothing_of_other_scenarios(
    tmp_path: Path, other: ScenarioResult, required: tuple[str, ...], code: Exit, word: str
) -> None:
    summary = gate(tmp_path, failed())
    summary = replace(summary, results=(*summary.results, other), required=required)
    after = with_known(summary, tmp_path, of(entry()))
    assert (after.exit, after.word) == (code, word)


def test_results_of_known_findings_never_improve_anything_but_a_fail(tmp_path: Path) -> None:
    """The results may be written into gate.json by hand."""
    summary = with_known(gate(tmp_path, failed()), tmp_path, of(entry()))
    doubtful = ScenarioResult(name="a", status=Status.INCONCLUSIVE, bundle="a")
    broken = ScenarioResult(name="a", status=None, error="x")
    assert replace(summary, results=(doubtful,)).exit is Exit.INCONCLUSIVE
    assert replace(summary, results=(broken,)).exit is Exit.HARNESS


FINDINGS = st.lists(
    st.builds(
        lambda kind, topic, count, excused: replace(
            lost(1), kind=kind, topic=topic, count=count, excused_by="an event" if excused else None
        ),
        st.sampled_from([Kind.LOST, Kind.TORN_TRANSACTION]),
        st.sampled_from(["half", "plain", None]),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
TOPICS = st.sampled_from([("half",), ("half", "plain"), (None,), ()])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(findings=FINDINGS, lost_topics=TOPICS, torn_topics=TOPICS, most=st.integers(1, 6), doubted=st.booleans())
def test_the_word_is_that_of_a_plain_reading_of_the_rules(
    tmp_path: Path,
    findings: list[Finding],
    lost_topics: tuple[str | None, ...],
    torn_topics: tuple[str | None, ...],
    most: int,
    doubted: bool,
) -> None:
    entries = [
        entry(kind=kind, topic=topic, records=most)
        for kind, topics in (("lost", lost_topics), ("torn_transaction", torn_topics))
        for topic in topics
    ]
    doubts = [Doubt("floor_after", "12 acks")] if doubted else []
    summary = with_known(gate(tmp_path, failed(*findings, doubts=doubts)), tmp_path, of(*entries))
    condemning = [finding for finding in findings if finding.condemns]

    def is_known(one: Finding) -> bool:
        for accepted in entries:
            if accepted.kind == one.kind.value and accepted.topic in (None, one.topic):
                whole = [f for f in condemning if f.kind == one.kind and accepted.topic in (None, f.topic)]
                return sum(f.count for f in whole) <= most
        return False

    if not condemning or not all(is_known(one) for one in condemning):
        assert summary.exit is Exit.FAIL
    else:
        assert summary.exit is (Exit.INCONCLUSIVE if doubted else Exit.PASS)


# --- the episodes of a night ---

CAUSE = "is likely deleted"
LINE = "[2026-11-29 22:20:19,593] INFO partitions Set({}) to_paid1, {} (kafka.Manager)\n"


def night(out: Path, logged: str, *findings: Finding) -> GateSummary:
    """A night with an episode that failed, and with this in the log of a broker."""
    failed = verdict("episode_000007", Status.FAIL, *(findings or (of_place(),)))
    judged(out / "episode_000007", failed)
    (out / "episode_000007" / "logs").mkdir()
    (out / "episode_000007" / "logs" / "server-1.log").write_text(logged)
    result = decided("episode_000007", [try_of("episode_000007", failed)])
    return GateSummary(required=("episode_000007",), results=(result,), release=RELEASE, night=NightRule())


def of_place(partition: int = 1, count: int = 50) -> Finding:
    return replace(lost(count), topic="paid1", partition=partition)


def of_episodes(**changes: object) -> KnownFile:
    return of(entry(**{"scenario": EPISODES, "log": CAUSE, **changes}))


@pytest.mark.parametrize("places", ["paid1-1", "plain-0, paid1-1", "paid1-1, plain-0"])
def test_a_line_that_names_the_partition_and_the_cause_covers_a_finding_of_an_episode(
    tmp_path: Path, places: str
) -> None:
    summary = with_known(night(tmp_path, LINE.format(places, CAUSE)), tmp_path, of_episodes())
    assert (summary.word, summary.exit) == (PASS_WITH_KNOWN, Exit.PASS)


@pytest.mark.parametrize(
    ("logged", "found", "changes"),
    [
        (LINE.format("paid1-10", CAUSE), of_place(), {}),
        (LINE.format("unpaid1-1", CAUSE), of_place(), {}),
        (LINE.format("paid1-1", "is late"), of_place(), {}),
        (LINE.format("paid1-0", CAUSE) + LINE.format("paid1-1", "is late"), of_place(), {}),
        ("", of_place(), {}),
        (LINE.format("paid1-1", CAUSE), of_place(count=51), {}),
        (LINE.format("paid1-1", CAUSE), of_place(), {"last_release": "4.3.0"}),
        (LINE.format("paid1-1", CAUSE), of_place(), {"kind": "vanished"}),
        (LINE.format("paid1-1", CAUSE), replace(of_place(), partition=None), {}),
    ],
)
def test_no_other_finding_of_an_episode_is_known(
    tmp_path: Path, logged: str, found: Finding, changes: dict[str, object]
) -> None:
    summary = with_known(night(tmp_path, logged, found), tmp_path, of_episodes(**changes))
    assert (summary.outcome, summary.exit) == (Status.FAIL, Exit.FAIL)


REFUSED = r"Static member (\S+) cannot join, owned by member \1\."


@pytest.mark.parametrize(
    ("group", "member", "owner", "is_known"),
    [
        ("readers", "m-1", "m-1", True),
        ("readers", "m-2", "m-1", False),  # another member
        ("others", "m-1", "m-1", False),
        ("readers-2", "m-1", "m-1", False),
    ],
)
def test_a_finding_about_a_group_is_covered_by_a_line_that_names_the_group(
    tmp_path: Path, group: str, member: str, owner: str, is_known: bool
) -> None:
    line = (
        f"INFO [GroupCoordinator id=2] [GroupId {group}] Static member {member} cannot join, owned by member {owner}.\n"
    )
    found = Finding(kind=Kind.GROUP_UNSETTLED, count=7, reader="group readers")
    of_group = of_episodes(kind="group_unsettled", log=REFUSED)
    assert (with_known(night(tmp_path, line, found), tmp_path, of_group).exit is Exit.PASS) is is_known


def test_an_entry_for_episodes_covers_no_scenario_of_a_gate(tmp_path: Path) -> None:
    summary = gate(tmp_path, failed(of_place()))
    (tmp_path / "a" / "logs").mkdir()
    (tmp_path / "a" / "logs" / "server-1.log").write_text(LINE.format("paid1-1", CAUSE))
    assert with_known(summary, tmp_path, of_episodes()).exit is Exit.FAIL
