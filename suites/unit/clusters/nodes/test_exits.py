"""Every end of a process that the harness did not cause is remembered once, with what its log says of the reason."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from harness.clusters.nodes.exits import Exits
from harness.clusters.nodes.node_files import NodeFiles
from harness.clusters.processes.runner import ProcessState
from harness.model.doubt_names import DoubtName, DoubtOrigin

B1 = "b1"
CRASH = "[2026-11-26 10:00:00,000] ERROR Unexpected (kafka.Log)\njava.lang.IllegalStateException: no such epoch\n"
STARTING = "[2026-11-26 10:00:01,000] INFO starting (kafka.server.KafkaServer)\n"


def ended(at_ns: int, code: int = 1, *, pid: int = 0, out_of_memory: bool = False) -> dict[str, ProcessState]:
    return {B1: ProcessState(pid, code, at_ns, out_of_memory)}


@pytest.fixture
def files(tmp_path: Path) -> NodeFiles:
    files = NodeFiles(tmp_path / B1)
    files.server_log.parent.mkdir(parents=True)
    return files


def exits_of(files: NodeFiles, *, own_disks: bool = False) -> Exits:
    exits = Exits({B1: files}, {"toxiproxy": files.directory / "toxiproxy.log"}, own_disks=own_disks)
    exits.begun(B1)
    return exits


def test_a_node_that_ends_by_itself_is_remembered_with_its_last_error(files: NodeFiles) -> None:
    exits = exits_of(files)
    files.server_log.write_text(STARTING + CRASH)
    exits.note(ended(5))
    exits.note(ended(5))
    (found,) = exits.known()
    assert (found.name, found.node, found.at_ns, found.code, found.signal) == (B1, 1, 5, 1, None)
    assert found.error == "java.lang.IllegalStateException: no such epoch"
    assert found.log[0] == STARTING.strip()
    assert found.machine_doubt is None


def test_a_node_that_had_ended_before_it_was_killed_was_not_killed(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.sent([])  # the signal found no living process
    exits.note(ended(5))
    assert len(exits.known()) == 1


def test_a_node_that_was_killed_did_not_end_by_itself(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.sent([B1])
    exits.note(ended(5, -9))
    assert exits.known() == []
    exits.begun(B1)
    exits.note(ended(9))  # it ends while it starts again
    assert [one.at_ns for one in exits.known()] == [9]


def test_each_end_of_one_container_counts_although_none_has_a_pid(files: NodeFiles) -> None:
    exits = exits_of(files)
    for at_ns in (5, 9):
        exits.begun(B1)
        exits.note(ended(at_ns))
    assert [one.at_ns for one in exits.known()] == [5, 9]


def test_an_end_that_a_fault_may_cause_is_evidence_and_not_unexpected(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.let_end(B1)
    exits.note(ended(5))
    assert (len(exits.known()), exits.known(unexpected=True)) == (1, [])
    exits.begun(B1)
    exits.note(ended(9))
    assert [one.at_ns for one in exits.known(unexpected=True)] == [9]


def test_an_end_that_a_run_has_recorded_is_left_out_of_the_next_run(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.note(ended(5))
    exits.forget()
    exits.note(ended(5))
    assert exits.known() == []
    exits.begun(B1)
    exits.note(ended(9))
    assert [one.at_ns for one in exits.known()] == [9]


def test_what_an_earlier_process_logged_is_not_the_reason(files: NodeFiles) -> None:
    files.console.write_text("Terminating due to java.lang.OutOfMemoryError: Java heap space\n")
    exits = exits_of(files)
    exits.note(ended(5, -9))
    (found,) = exits.known()
    assert (found.out_of_memory, found.error, found.log) == (False, None, ())


@pytest.mark.parametrize(
    ("code", "logged", "of_container", "own_disks", "doubt"),
    [
        (-9, "", False, False, DoubtName.NODE_KILLED),
        (-9, "", True, False, None),
        (-9, "Terminating due to java.lang.OutOfMemoryError: Java heap space", False, False, None),
        (3, "Terminating due to java.lang.OutOfMemoryError: Java heap space", False, False, None),
        (-6, "", False, False, None),
        (0, "", False, False, None),
        (1, "java.io.IOException: No space left on device", False, False, DoubtName.HOST_DISK_FULL),
        (1, "java.io.IOException: No space left on device", False, True, None),
        (
            1,
            "# There is insufficient memory for the Java Runtime Environment",
            False,
            False,
            DoubtName.HOST_MEMORY_FULL,
        ),
        (1, "Caused by: java.net.BindException: Address already in use", False, False, DoubtName.ADDRESS_IN_USE),
    ],
)
def test_only_what_is_certainly_the_machines_is_a_doubt(
    files: NodeFiles, code: int, logged: str, of_container: bool, own_disks: bool, doubt: DoubtName | None
) -> None:
    exits = exits_of(files, own_disks=own_disks)
    files.console.write_text(logged + "\n")
    exits.note(ended(5, code, out_of_memory=of_container))
    (found,) = exits.known()
    assert (found.machine_doubt.name if found.machine_doubt else None) == doubt
    if found.machine_doubt:
        assert found.machine_doubt.origin is DoubtOrigin.MACHINE


def test_a_process_beside_the_nodes_is_the_machines(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.note({"toxiproxy": ProcessState(7, -signal.SIGSEGV, 5), "another": ProcessState(8, 1, 5)})
    (found,) = exits.known()
    assert found.machine_doubt is not None
    assert found.machine_doubt.name == DoubtName.HELPER_ENDED
    assert "toxiproxy ended (signal SIGSEGV)" in found.machine_doubt.text


@pytest.mark.parametrize(("code", "found"), [(97, 0), (1, 1), (-9, 1)])
def test_only_an_end_with_the_code_that_the_harness_chose_is_one_by_the_harness(
    files: NodeFiles, code: int, found: int
) -> None:
    exits = exits_of(files)
    exits.let_halt(B1, 97)
    exits.note(ended(5, code))
    assert len(exits.known()) == found


def test_a_node_that_was_started_again_has_no_longer_an_end_by_the_harness(files: NodeFiles) -> None:
    exits = exits_of(files)
    exits.let_halt(B1, 97)
    exits.begun(B1)
    exits.note(ended(5, 97))
    assert len(exits.known()) == 1
