"""Dynamic voters (KIP-853): formatting of disks, settings, and requests to controllers. Feature levels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from harness.clusters.nodes.storage_format import Formatted, first_directory, formatted, identity_of
from harness.kafka.admin import quorum
from harness.kafka.admin.features import supported_features, update_features
from harness.kafka.admin.quorum import add_voter, remove_voter
from harness.kafka.admin.wire import Unanswered
from harness.kafka.messages import AddRaftVoterRequest, RemoveRaftVoterRequest
from harness.kafka.release.cache import Cache
from harness.kafka.release.release import Release
from harness.kafka.settings.node_settings import Node, node_properties
from harness.kafka.storage.uuids import kafka_uuid, uuid_of
from harness.model.errors import BadInput, HarnessTimeout
from harness.model.scenario.scenario import ClusterShape
from suites.unit.kafka.storage.test_bootstrap_records import FORMATTED
from suites.unit.model.scenario.test_toml import SMALL, read, refused

DYNAMIC = ClusterShape(controllers=3, voters="dynamic")


# --- disks and settings ---


class Tool:
    """In place of the release's StorageTool: makes the folder that its settings name, and keeps its arguments."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str], directory: Path) -> tuple[int, str]:
        self.asked.append(list(arguments))
        (directory / "data").mkdir()
        (directory / "data" / "meta.properties").write_text("node.id=101\ncluster.id=c\ndirectory.id=d\n")
        (directory / "data" / "bootstrap.checkpoint").write_bytes(FORMATTED)
        return 0, ""

    def voters(self) -> list[list[str]]:
        return [arguments[arguments.index("-c") + 2 :] for arguments in self.asked]


def made(shape: ClusterShape, tool: Tool, tmp_path: Path, version: str = "4.3.1") -> Formatted:
    return formatted(Release(version, "abc", "here", ()), shape, tool, Cache(tmp_path), print)


def test_initial_controllers_are_formatted_with_the_voters_and_later_nodes_without(tmp_path: Path) -> None:
    tool = Tool()
    folders = made(DYNAMIC, tool, tmp_path)
    first, later = tool.voters()
    option, voters = first
    assert option == "--initial-controllers"
    assert voters.split(",")[1] == f"102@kafka-102:21093:{first_directory(102)}"
    assert later == ["--no-initial-controllers"]
    assert folders.beginning != folders.later
    assert identity_of(folders.later)["directory.id"] == "d"
    assert made(DYNAMIC, tool, tmp_path) == folders
    assert len(tool.asked) == 2


def test_static_voters_need_one_folder(tmp_path: Path) -> None:
    tool = Tool()
    folders = made(ClusterShape(controllers=3), tool, tmp_path)
    assert tool.voters() == [[]]
    assert folders.beginning == folders.later


def test_different_voters_are_formatted_separately(tmp_path: Path) -> None:
    assert (
        made(DYNAMIC, Tool(), tmp_path).beginning
        != made(ClusterShape(controllers=1, voters="dynamic"), Tool(), tmp_path).beginning
    )


def test_dynamic_voters_are_refused_before_3_9(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"Kafka 3\.8\.1 has only static voters .*from 3\.9 on"):
        made(DYNAMIC, Tool(), tmp_path, "3.8.1")


def test_directory_ids_have_kafkas_form_and_are_unique() -> None:
    ids = {first_directory(controller) for controller in range(101, 151)}
    assert len(ids) == 50
    assert all(kafka_uuid(uuid_of(text)) == text for text in ids)


@pytest.mark.parametrize(
    ("voters", "wanted"),
    [
        ("static", {"controller.quorum.voters": "101@kafka-101:21093,102@kafka-102:21093"}),
        ("dynamic", {"controller.quorum.bootstrap.servers": "kafka-101:21093,kafka-102:21093"}),
    ],
)
def test_nodes_are_configured_with_their_voters_or_bootstrap_servers(voters: Any, wanted: dict[str, str]) -> None:
    node = Node(
        node=1, address="127.0.0.1", advertised=None, controllers=(101, 102), brokers=1, data=Path("d"), voters=voters
    )
    reported = node_properties(Release("4.3.1", "abc", "here", ()), node)
    assert {
        key: value for key, value in reported.items() if key.startswith("controller.quorum") and "kafka-" in value
    } == wanted


def test_a_scenario_decides_the_kind_of_voters() -> None:
    assert read(f'{SMALL}\n[shape]\nvoters = "dynamic"').shape.voters == "dynamic"
    assert "unknown value 'moving'" in refused(f'{SMALL}\n[shape]\nvoters = "moving"')
    level = 'voters = "dynamic"\nfeatures = { "kraft.version" = 0 }'
    assert "needs kraft.version 1 (KIP-853)" in refused(f"{SMALL}\n[shape]\n{level}")


# --- requests ---

DIRECTORY = kafka_uuid(UUID(int=5))


class Leader:
    """Controller 101 leads. It gives the answers in turn; None is no answer. Nodes support `levels`."""

    controllers = (101,)
    brokers = (1,)

    def __init__(self, *answers: Any, knows: Sequence[dict[str, int]] = ()) -> None:
        self.answers = list(answers)
        self.knows = knows
        self.asked: list[Any] = []
        self.directory: UUID | None = UUID(int=5)

    def gather(self, questions: Any, timeout_s: float, *, often: bool = False) -> Any:
        if not often:
            features = [
                [SimpleNamespace(name=name, max_version=level) for name, level in each.items()] for each in self.knows
            ]
            return {n: (SimpleNamespace(supported_features=reported),) for n, reported in enumerate(features)}
        voter = SimpleNamespace(replica_id=101, log_end_offset=9, replica_directory_id=self.directory)
        part = SimpleNamespace(
            error_code=0, leader_id=101, leader_epoch=1, high_watermark=9, current_voters=[voter], observers=[]
        )
        return {101: (SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[part])]),)}

    def ask(self, node: int, question: Any, timeout_s: float) -> Any:
        self.asked.append(question.build(0))
        answer = self.answers.pop(0)
        if answer is None:
            raise Unanswered("node 101 gave no answer")
        return answer


def reported(code: int, message: str = "") -> SimpleNamespace:
    return SimpleNamespace(error_code=code, error_message=message, results=None)


VOTER_NOT_FOUND, DUPLICATE_VOTER, REQUEST_TIMED_OUT, INVALID_UPDATE_VERSION = 127, 126, 7, 95


def test_changes_of_voters_are_sent_to_the_leader() -> None:
    wire: Any = Leader(reported(0), reported(0))
    remove_voter(wire, 102, DIRECTORY, 5.0)
    add_voter(wire, 102, DIRECTORY, 5.0)
    removed, added = wire.asked
    assert isinstance(removed, RemoveRaftVoterRequest)
    assert isinstance(added, AddRaftVoterRequest)
    assert {(ask.voter_id, ask.voter_directory_id) for ask in (removed, added)} == {(102, UUID(int=5))}
    (listener,) = added.listeners
    assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "kafka-102", 21093)


@pytest.mark.parametrize(("change", "already"), [(remove_voter, VOTER_NOT_FOUND), (add_voter, DUPLICATE_VOTER)])
def test_a_change_of_voters_whose_answer_was_lost_counts_as_done(change: Any, already: int) -> None:
    wire: Any = Leader(reported(REQUEST_TIMED_OUT), None, reported(already))
    change(wire, 102, DIRECTORY, 5.0)
    assert len(wire.asked) == 3


def test_a_change_of_voters_that_times_out_names_the_last_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "_POLL_S", 0.1)
    wire: Any = Leader(*[reported(VOTER_NOT_FOUND, "no such")] * 9)
    with pytest.raises(HarnessTimeout, match=r"102 among the voters; last saw .* VOTER_NOT_FOUND \(no such\)"):
        add_voter(wire, 102, DIRECTORY, 0.2)


def test_the_request_for_a_voter_has_the_bytes_of_kafkas_protocol() -> None:
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=5000,
        voter_id=102,
        voter_directory_id=UUID(int=5),
        listeners=[AddRaftVoterRequest.Listener(name="C", host="h", port=21093)],
    )
    request.API_VERSION = 0
    body = request.encode(header=False, framed=False)
    assert (
        bytes(body).hex()
        == "00" + "00001388" + "00000066" + f"{5:032x}" + "02" + "0243" + "0268" + "5265" + "00" + "00"
    )


@pytest.mark.parametrize(("directory", "known"), [(UUID(int=5), {101: DIRECTORY}), (None, {})])
def test_only_dynamic_voters_have_directory_ids(directory: UUID | None, known: dict[int, str]) -> None:
    wire: Any = Leader()
    wire.directory = directory  # kafka-python reads an empty id as None
    assert quorum.quorum(wire, 1.0).directories == known


# --- feature levels ---


def test_a_feature_level_is_supported_if_every_node_supports_it() -> None:
    wire: Any = Leader(knows=[{"metadata.version": 30, "group.version": 1}, {"metadata.version": 21}])
    assert supported_features(wire) == {"metadata.version": 21}
    assert supported_features(Leader()) == {}  # type: ignore[arg-type]


def test_levels_are_finalized_or_the_refusal_is_returned() -> None:
    failed = SimpleNamespace(error_code=INVALID_UPDATE_VERSION, error_message="it might delete metadata")
    wire: Any = Leader(
        reported(REQUEST_TIMED_OUT), reported(0), SimpleNamespace(error_code=0, error_message=None, results=[failed])
    )
    assert update_features(wire, {"metadata.version": 30}, "up", 5.0) is None
    refusal = update_features(wire, {"metadata.version": 21}, "down", 5.0)
    assert refusal == "INVALID_UPDATE_VERSION (it might delete metadata)"
    assert [ask.feature_updates[0].upgrade_type for ask in wire.asked] == [1, 1, 2]
