"""Files of hooks: what is read, what is refused in one sentence, and the commands that come of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.model.errors import BadInput
from harness.model.hooks import CAPABILITIES, Hooks, check_hooks, read_hooks
from harness.model.live_cluster import LiveCluster

ADDRESSES = {1: ("one", 9092), 2: ("two", 9092), 3: ("three", 9093)}
WHOLE = """
[kill]
command = "true {node} {host} {port} {cluster}"
inverse = "true"
in_effect = "true"
undone = "true"
"""
CUT = """
[cut]
command = "true {src} {src_host}:{src_port} {dst} {dst_host}:{dst_port} {mode} {direction}"
inverse = "true"
in_effect = "true"
undone = "true"
"""


def live(voters: tuple[int, ...] = (1, 2, 3)) -> LiveCluster:
    return LiveCluster(
        cluster_id="ID",
        bootstrap="one:9092",
        brokers=ADDRESSES,
        voters=voters,
        settings={broker: {} for broker in ADDRESSES},
        features={},
        internal={},
        log_dirs=1,
    )


def read(folder: Path, text: str) -> Hooks:
    file = folder / "hooks.toml"
    file.write_text(text)
    return read_hooks(file)


def refused(folder: Path, text: str, cluster: LiveCluster | None = None) -> str:
    with pytest.raises(BadInput) as error:
        check_hooks(read(folder, text), cluster or live())
    said = str(error.value)
    assert said.startswith(f"bad hooks {folder / 'hooks.toml'}: ")
    assert "\n" not in said
    return said


def changed(was: str, now: str, text: str = WHOLE) -> str:
    assert was in text
    return text.replace(was, now)


def test_a_command_gets_the_node_and_its_address(tmp_path: Path) -> None:
    hooks = read(tmp_path, WHOLE)
    check_hooks(hooks, live())
    values = hooks.values_of_node(3, live())
    assert hooks.argv("kill", "command", values) == ["true", "3", "three", "9093", "ID"]
    assert hooks.of["kill"].deadline_s == 60


def test_a_command_about_a_link_gets_both_nodes(tmp_path: Path) -> None:
    hooks = read(tmp_path, CUT)
    check_hooks(hooks, live())
    values = hooks.values_of_link(1, 3, live(), mode="refusing", direction="both")
    assert hooks.argv("cut", "command", values) == ["true", "1", "one:9092", "3", "three:9093", "refusing", "both"]


def test_words_of_the_user_win_over_the_address_that_clients_get(tmp_path: Path) -> None:
    words = '[node.1]\nhost = "10.0.0.1"\npod = "kafka-0"\n[node.2]\npod = "kafka-1"\n[node.3]\npod = "kafka-2"\n'
    hooks = read(tmp_path, changed("{node} {host}", "{host} {pod}") + words)
    check_hooks(hooks, live())
    argv = [hooks.argv("kill", "command", hooks.values_of_node(node, live())) for node in (1, 2)]
    assert argv == [["true", "10.0.0.1", "kafka-0", "9092", "ID"], ["true", "two", "kafka-1", "9092", "ID"]]


def test_without_a_shell_no_value_becomes_a_second_word_or_a_command(tmp_path: Path) -> None:
    words = '[node.1]\nhost = "a b; touch x"\n'
    without = read(tmp_path, WHOLE + words)
    assert without.argv("kill", "command", without.values_of_node(1, live()))[2] == "a b; touch x"
    within = read(tmp_path, WHOLE + "shell = true\n" + words)
    assert within.argv("kill", "command", within.values_of_node(1, live())) == [
        "sh",
        "-c",
        "true 1 'a b; touch x' 9092 ID",
    ]


def test_a_doubled_brace_is_a_brace(tmp_path: Path) -> None:
    hooks = read(tmp_path, changed("{host}", "'{{.State}}'"))
    check_hooks(hooks, live())
    assert hooks.argv("kill", "command", hooks.values_of_node(1, live()))[2] == "{.State}"


def test_what_can_be_done_is_what_reaches_every_node(tmp_path: Path) -> None:
    hooks = read(tmp_path, WHOLE + "nodes = [1, 2, 3]\n" + CUT)
    assert hooks.capabilities((1, 2, 3)) == {"kill", "restart", "links", "links.cut"}
    assert hooks.capabilities((1, 9)) == {"links", "links.cut"}
    assert hooks.capabilities(()) == set()


def test_a_hook_for_some_nodes_needs_words_for_those_alone(tmp_path: Path) -> None:
    words = '[node.1]\npod = "p"\n'
    check_hooks(read(tmp_path, changed("{host}", "{pod}") + "nodes = [1]\n" + words), live())
    assert "{pod} has no value for node 2" in refused(tmp_path, changed("{host}", "{pod}") + words)


def test_what_returns_by_itself_needs_no_inverse(tmp_path: Path) -> None:
    hooks = read(tmp_path, changed('inverse = "true"', "returns_by_itself = true"))
    check_hooks(hooks, live())
    assert hooks.argv("kill", "inverse", hooks.values_of_node(1, live())) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no operation is described; add one of kill, terminate, pause, cut, slow"),
        ("[kill", "not valid TOML"),
        ("kill = 1", "[kill]: 1 is not a table"),
        (changed("[kill]", "[kil]"), "'kil'"),
        (changed("in_effect", "in_efect"), "'in_efect'"),
        (changed('in_effect = "true"\n', ""), "in_effect"),
        (changed('undone = "true"', 'undone = " "'), "undone is empty; give a command"),
        (changed('inverse = "true"\n', ""), "inverse is missing; give the command that undoes it"),
        (WHOLE + "returns_by_itself = true\n", "inverse and returns_by_itself exclude each other"),
        (WHOLE + "deadline_s = 0\n", "deadline_s"),
        (WHOLE + 'deadline_s = "a"\n', "deadline_s"),
        (WHOLE + "nodes = [7]\n", "the cluster has no node 7; its nodes are 1, 2, 3"),
        (changed("{node}", "{nod}"), "{nod} has no value for node 1; known are"),
        (changed("{node}", "{src}"), "{src} has no value for node 1"),
        (changed("{mode}", "{latency_ms}", CUT), "{latency_ms} has no value for node 1"),
        (changed("{node}", "{"), "write a doubled brace for a brace"),
        (changed("{node}", "'"), "close every quote"),
        (changed('command = "true', 'command = "no-such-program'), "there is no program 'no-such-program'"),
        (WHOLE + '[node.one]\npod = "x"\n', "'one' is not the id of a node; write for example [node.1]"),
        (WHOLE + '[node.1]\n"a b" = "x"\n', "'a b' cannot be a placeholder"),
        (WHOLE + "[node]\n1 = 2\n", "2 is not a table"),
    ],
)
def test_bad_hooks_are_one_sentence_with_a_remedy(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_a_program_beside_the_file_is_found_by_its_path(tmp_path: Path) -> None:
    script = tmp_path / "down.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    check_hooks(read(tmp_path, changed('command = "true', 'command = "./down.sh')), live())
    assert "there is no program 'down.sh'" in refused(tmp_path, changed('command = "true', 'command = "down.sh'))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=re.escape(f"bad hooks {tmp_path}: cannot be read")):
        read_hooks(tmp_path)


def test_the_address_of_a_controller_is_not_known(tmp_path: Path) -> None:
    said = refused(tmp_path, WHOLE, live(voters=(9,)))
    assert "{host} has no value for node 9" in said
    assert "add words of your own in [node.9]" in said
    check_hooks(read(tmp_path, WHOLE + '[node.9]\nhost = "nine"\nport = "1"\n'), live(voters=(9,)))


def test_every_operation_lets_a_cluster_do_something_of_its_own() -> None:
    own = [
        able - frozenset().union(*(a for op, a in CAPABILITIES.items() if op != one))
        for one, able in CAPABILITIES.items()
    ]
    assert all(own)
