"""`audit privileges`: commands that a shell can run, and what each level does not see."""

from __future__ import annotations

import shlex

import pytest

from harness.audit.queries.privileges import LEVELS, privileges


def commands(level: str, topics: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> list[str]:
    lines = privileges(level, "User:x", "h:9092", topics, groups)
    head = "kafka-acls.sh --bootstrap-server h:9092 --add --allow-principal User:x "
    return [line.removeprefix(head) for line in lines if not line.startswith("#")]


def test_observe_only_describes() -> None:
    assert commands("observe") == [
        "--operation Describe --operation DescribeConfigs --cluster",
        "--operation Describe --operation DescribeConfigs --topic '*'",
    ]


def test_read_reads_and_only_the_last_level_may_act_as_a_broker() -> None:
    assert commands("read")[2:] == ["--operation Read --topic '*'", "--operation Describe --transactional-id '*'"]
    assert commands("controller")[-1] == "--operation ClusterAction --cluster"
    assert not any("Write" in row or "Alter" in row for level in LEVELS for row in commands(level))


def test_chosen_topics_and_groups() -> None:
    rows = commands("read", ("orders*", "bills"), ("g",))
    assert "--operation Read --topic orders --resource-pattern-type prefixed" in rows
    assert "--operation Read --topic bills" in rows
    assert "--operation Read --topic __remote_log_metadata" in rows
    assert "--operation Describe --group g" in rows


@pytest.mark.parametrize("level", LEVELS)
def test_a_shell_reads_it_and_what_is_not_seen_is_named(level: str) -> None:
    lines = [*privileges(level, "User:x y", "h:9092", (), ())]
    assert all(line.startswith("#") or "User:x y" in shlex.split(line) for line in lines)
    assert f"# {level} does not see:" in lines
    assert ("metadata log" in "\n".join(lines[lines.index(f"# {level} does not see:") :])) == (level != "controller")
