"""The file of known findings: what is refused before anything is played, and what an entry means."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness import scenarios
from harness.model.errors import BadInput
from harness.model.finding import OwnKind, with_kinds
from harness.model.known_findings import EPISODES, SHIPPED, KnownFinding, read_known

ENTRY = """
[[known]]
scenario = "kafka_20734"
kind = "lost"
topic = "half"
first_release = "4.3.0"
last_release = "4.3.1"
records = 20
owner = "a team"
reason = "It is open."
link = "https://issues.apache.org/jira/browse/KAFKA-20734"
failed = 2
tries = 3
expires = 2027-02-28
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "known.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_an_entry_is_read_as_it_stands(tmp_path: Path) -> None:
    known = read_known(written(tmp_path, ENTRY), date(2026, 12, 1))
    (entry,) = known.entries
    assert entry == KnownFinding(
        scenario="kafka_20734",
        kind="lost",
        topic="half",
        first_release="4.3.0",
        last_release="4.3.1",
        records=20,
        owner="a team",
        reason="It is open.",
        link="https://issues.apache.org/jira/browse/KAFKA-20734",
        failed=2,
        tries=3,
        expires="2027-02-28",
    )
    assert (known.day, len(known.sha256)) == (date(2026, 12, 1), 64)
    assert "seen in 2 of 3 tries" in entry.terms


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "lost"', 'kind = "*"', "there is no kind of finding '*'"),
        ('kind = "lost"', 'kind = "lost"\nlog = "gone"', 'scenario = "episodes" and log belong together'),
        ('"kafka_20734"\nkind', '"episodes"\nkind', 'scenario = "episodes" and log belong together'),
        (
            '"kafka_20734"\nkind = "lost"',
            '"episodes"\nkind = "lost"\nlog = "gone("',
            "log = 'gone(' is no regular expression",
        ),
        ('kind = "lost"', 'kind = "los"', "did you mean 'lost'"),
        ('kind = "lost"', 'kind = ""', "kind is not a text, or it is empty"),
        ('kind = "lost"', 'kind = ["lost"]', "kind is not a text"),
        ('kind = "lost"\n', "", "'kind' is missing"),
        ('"kafka_20734"\nkind', '"kafka_*"\nkind', "wildcards are refused"),
        ('"kafka_20734"\nkind', '".*"\nkind', "wildcards are refused"),
        ('topic = "half"', 'topic = "ha*"', "wildcards are refused"),
        ('topic = "half"', 'tpoic = "half"', "unknown key 'tpoic'; did you mean 'topic'"),
        ("[[known]]", "[[knwon]]", "unknown key 'knwon'; did you mean 'known'"),
        ("[[known]]", "[known]", "it has no entry"),
        ("[[known]]", "date = 1\n[[known]]", "unknown key 'date'"),
        ("records = 20", "records = 0", "records is not a whole number from 1"),
        ("records = 20", "records = true", "records is not a whole number"),
        ("records = 20", "records = 20.0", "records is not a whole number"),
        ("records = 20", "records = -1", "records is not a whole number"),
        ("records = 20", "records = 9999999999999", "records is not a whole number"),
        ("failed = 2", "failed = 4", "failed = 4 is more than tries = 3"),
        ("failed = 2", "failed = 0", "failed is not a whole number from 1"),
        ('first_release = "4.3.0"', 'first_release = "4.3"', "is not a version with three numbers"),
        ('first_release = "4.3.0"', 'first_release = "*"', "is not a version with three numbers"),
        ('first_release = "4.3.0"', 'first_release = "4.3.2"', "first_release 4.3.2 is after last_release 4.3.1"),
        ('last_release = "4.3.1"\n', "", "'last_release' is missing"),
        ("expires = 2027-02-28", 'expires = "2027-02-28"', "is not a date; write it without quotes"),
        ("expires = 2027-02-28", "expires = 2027-02-28T00:00:00Z", "is not a date"),
        ("expires = 2027-02-28", "expires = 2027-02-30", "not valid TOML"),
        ("expires = 2027-02-28\n", "", "'expires' is missing"),
        ('owner = "a team"', 'owner = " "', "owner is not a text, or it is empty"),
        (
            'link = "https://issues.apache.org/jira/browse/KAFKA-20734"',
            'link = "javascript:alert(1)"',
            "is not an address",
        ),
        ('link = "https://issues.apache.org/jira/browse/KAFKA-20734"', 'link = "KAFKA-20734"', "is not an address"),
        ('link = "https://issues.apache.org/jira/browse/KAFKA-20734"', 'link = "https://[x"', "is not an address"),
        ("[[known]]", "known = 1\n[x]", "unknown key 'x'"),
    ],
)
def test_anything_wrong_is_refused_with_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert ENTRY.count(old) == 1
    with pytest.raises(BadInput) as refused:
        read_known(written(tmp_path, ENTRY.replace(old, new)))
    assert said in str(refused.value)
    assert "known.toml" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "it has no entry"), (b"known = []", "it has no entry"), (b"\xff", "not UTF-8"), (b"[[", "not valid TOML")],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "known.toml"
    file.write_bytes(content)
    with pytest.raises(BadInput, match=said):
        read_known(file)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(BadInput, match="cannot be read"):
            read_known(path)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, True),
        ({'topic = "half"\n': ""}, True),  # any topic is also this one
        ({'first_release = "4.3.0"': 'first_release = "4.3.1"'}, True),
        ({'topic = "half"': 'topic = "other"'}, False),
        ({'kind = "lost"': 'kind = "vanished"'}, False),
        ({'"4.3.0"': '"4.4.0"', '"4.3.1"': '"4.4.0"'}, False),
    ],
)
def test_limits_of_two_entries_never_add_up(tmp_path: Path, changes: dict[str, str], refused: bool) -> None:
    second = ENTRY
    for old, new in changes.items():
        second = second.replace(old, new)
    file = written(tmp_path, ENTRY + second)
    if refused:
        with pytest.raises(BadInput, match="entries 1 and 2 match the same findings"):
            read_known(file)
    else:
        assert len(read_known(file).entries) == 2


@pytest.mark.parametrize(
    ("release", "covered"),
    [
        ("4.3.0", True),
        ("4.3.1", True),
        ("4.3.1-rc2", True),
        ("4.3.1-SNAPSHOT", True),
        ("4.2.9", False),
        ("4.3.2", False),
        ("4.3.10", False),
        ("4.4.0-SNAPSHOT", False),
        ("8.3.1-ccs", False),  # a vendor's Kafka 4.3
        ("4.3.1-mine", False),
        ("4.3", False),
        ("", False),
        (None, False),
    ],
)
def test_a_range_covers_releases_of_apache_kafka_alone(tmp_path: Path, release: str | None, covered: bool) -> None:
    (entry,) = read_known(written(tmp_path, ENTRY)).entries
    assert entry.covers(release) is covered


def test_an_entry_holds_through_its_last_day(tmp_path: Path) -> None:
    (entry,) = read_known(written(tmp_path, ENTRY)).entries
    assert not entry.expired(date(2027, 2, 28))
    assert entry.expired(date(2027, 3, 1))


def test_a_kind_of_a_plugin_is_known_while_the_plugin_is(tmp_path: Path) -> None:
    file = written(tmp_path, ENTRY.replace('"lost"', '"late_ack"'))
    with pytest.raises(BadInput, match="no kind of finding"):
        read_known(file)
    with with_kinds([OwnKind("late_ack", "too late")]):
        assert read_known(file).entries[0].kind == "late_ack"


def test_the_shipped_file_names_scenarios_that_exist_and_their_issues() -> None:
    known = read_known(SHIPPED)
    assert known.entries
    every = scenarios.every()
    for entry in known.entries:
        issue = entry.link.rsplit("/", 1)[1]
        if entry.scenario == EPISODES:  # a scenario of its own shows the bug, too
            assert any(issue in scenario.tags for scenario in every.values())
            continue
        scenario = every[entry.scenario]
        assert issue in scenario.tags
        assert entry.topic is None or entry.topic in {topic.name for topic in scenario.topics}
        if scenario.regression is not None:
            assert entry.kind in scenario.regression.expect
            assert any(entry.covers(bad) for bad in scenario.regression.bad)
            assert not any(entry.covers(fixed) for fixed in scenario.regression.fixed)
