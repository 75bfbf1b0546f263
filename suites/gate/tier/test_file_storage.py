"""The remote tier in a folder: FileStorage alone, and on brokers, compared with Kafka's own LocalTieredStorage."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.kafka.release.cache import Cache, default_cache
from harness.kafka.release.java import find_java
from harness.kafka.release.java_compiler import API, compiled
from harness.kafka.release.maven import KAFKA_GROUP
from harness.kafka.release.pom import Dependency
from harness.kafka.release.published import fetched
from harness.kafka.release.release import Release
from harness.kafka.release.storage_plugins import FILE
from harness.kafka.storage.local_tier import LOG, ROOT, objects_of
from harness.model.scenario.scenario import ClusterShape, Producer, RemoteTier, Transactions
from suites.gate.cluster_probes import RELEASE, RELEASES, WITH_TEST_JARS
from suites.gate.playing import playing, running
from suites.gate.tier.far_topic import FAR, REPLAY, TIERED, acks, end_of, heal, store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SINCE = "3.8.0"  # the first release that runs scenarios with a tier
PROBE = Path(__file__).with_name("FileStorageProbe.java")
# The segment that FileStorageProbe copies.
OBJECT = f"far-7-AAAAAAAAAAEAAAAAAAAAAg/{1000:020d}-AAAAAAAAAAMAAAAAAAAABA"
INDEXES = {
    "OFFSET": "index",
    "TIMESTAMP": "timeindex",
    "TRANSACTION": "txnindex",
    "PRODUCER_SNAPSHOT": "snapshot",
    "LEADER_EPOCH": "leader_epoch_checkpoint",
}
RECORDS = "".join(f"{n:09d}," for n in range(10))
READS = ("from 0", "range 0 9", *(f"index {kind}" for kind in INDEXES))
UNAVAILABLE, MISSING = "RemoteStorageException", "RemoteResourceNotFoundException"

Ask = Callable[[str], str]


@pytest.fixture(params=[SINCE, *RELEASES])
def ask(request: pytest.FixtureRequest, folder: Path, files: Path) -> Iterator[Ask]:
    """A function that runs one operation of the storage, compiled and run with a release, and returns the answer."""
    version, cache = request.param, default_cache()
    wanted = [Dependency(KAFKA_GROUP, artifact, version) for artifact in API]
    api = fetched(wanted, f"storage-api-{version}", None, Cache(cache), print)
    release = Release(version, "", "Maven Central", ())
    jar = compiled(PROBE, release, also=[FILE], maven_repo=None, cache=cache, progress=print)
    classes, java = ":".join(map(str, (jar, *api))), find_java(version).executable
    command: list[str | Path] = [java, "-cp", classes, "durability.FileStorageProbe", folder, files]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, bufsize=1, stdin=pipe, stdout=pipe) as probe:

        def asked(operation: str) -> str:
            assert probe.stdin
            assert probe.stdout
            probe.stdin.write(f"{operation}\n")
            answer = probe.stdout.readline()
            assert answer.endswith("\n"), f"the probe exited during {operation}"
            return answer.rstrip("\n")

        yield asked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tier" / ROOT
    made.mkdir(parents=True)
    return made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder with the files of a segment, as a broker has them."""
    made = tmp_path / "segment"
    made.mkdir()
    for kind in ("index", "timeindex", "txnindex", "snapshot"):
        (made / kind).write_text(f"the {kind}")
    (made / LOG).write_text(RECORDS)
    return made


def stored(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_objects_of_a_copy_have_the_names_of_local_tiered_storage(ask: Ask, folder: Path) -> None:
    assert ask("copy") == "done"
    assert stored(folder) == {f"{OBJECT}.{kind}" for kind in (LOG, *INDEXES.values())}
    (log,) = (one for one in objects_of(folder.parent, ["far"]) if one.kind == LOG)
    assert (log.partition, log.base_offset, log.path.read_text()) == (7, 1000, RECORDS)
    indexes = {kind: ask(f"index {kind}") for kind in INDEXES}
    assert indexes == {kind: f"the {name}" for kind, name in INDEXES.items()} | {"LEADER_EPOCH": "epochs"}


def test_a_range_is_read_exactly(ask: Ask) -> None:
    ask("copy")
    assert ask("from 0") == RECORDS
    assert ask("from 30") == RECORDS[30:]
    assert [ask("range 0 0"), ask("range 13 57"), ask("range 95 99")] == [RECORDS[0], RECORDS[13:58], RECORDS[95:]]
    # The interface requires that a stream ends with the object, also when the range ends later.
    assert [ask("range 95 2147483647"), ask("range 200 300"), ask("from 200")] == [RECORDS[95:], "", ""]


def test_a_missing_object_is_reported_as_missing_and_a_second_deletion_succeeds(ask: Ask, folder: Path) -> None:
    assert {ask(read) for read in READS} == {MISSING}
    ask("copy")
    (folder / f"{OBJECT}.txnindex").unlink()
    assert [ask("index TRANSACTION"), ask("index OFFSET")] == [MISSING, "the index"]
    assert [ask("delete"), ask("delete")] == ["done", "done"]
    assert stored(folder) == set()
    assert {ask(read) for read in READS} == {MISSING}


def test_an_interrupted_copy_cannot_be_read(ask: Ask, folder: Path, files: Path) -> None:
    """The broker deletes its replica during the copy, or dies: some objects are stored, one of them in part."""
    (files / LOG).unlink()
    assert ask("copy") == UNAVAILABLE
    assert stored(folder) == set()
    incomplete = folder / f"{OBJECT}.log.incomplete"
    incomplete.write_text(RECORDS[:50])
    assert ask("from 0") == MISSING
    assert objects_of(folder.parent, ["far"]) == []
    (files / LOG).write_text(RECORDS)
    assert [ask("copy"), ask("from 0")] == ["done", RECORDS]
    incomplete.write_text(RECORDS[:50])
    assert ask("delete") == "done"
    assert stored(folder) == set()


@pytest.mark.parametrize("by", ["nothing", "a file"])
def test_without_its_folder_the_storage_is_unavailable_and_not_empty(ask: Ask, folder: Path, by: str) -> None:
    """A broker treats a missing transaction index as empty, and the deletion of missing objects as done."""
    ask("copy")
    before = stored(folder)
    away = folder.rename(folder.with_name("away"))
    if by == "a file":
        folder.touch()
    assert {operation: ask(operation) for operation in (*READS, "delete", "copy")} == dict.fromkeys(
        (*READS, "delete", "copy"), UNAVAILABLE
    )
    assert not folder.is_dir()
    folder.unlink(missing_ok=True)
    away.rename(folder)
    assert stored(folder) == before
    assert ask("from 0") == RECORDS


PAID = Transactions(records=200)
PRODUCERS = (Producer(name="paid", topics=("far",), value_bytes=4000, rate_per_s=1000, transactions=PAID),)


@pytest.mark.parametrize(
    ("tier", "version"), [("local", RELEASE), ("local", WITH_TEST_JARS), ("kafka_local", WITH_TEST_JARS)]
)
def test_both_storages_in_a_folder_store_the_same_objects(
    backend: str, tmp_path: Path, tier: RemoteTier, version: str
) -> None:
    with (
        running(backend, ClusterShape(tier=tier), version) as cluster,
        playing(cluster, tmp_path / "bundle", (FAR,), PRODUCERS) as play,
    ):
        _, _, replay, *_ = play(
            acks(3000),
            TIERED,
            REPLAY,
            heal("replay"),
        )
        assert replay["effect"]["seen"]["far/0"] > 0
        local_start = min(replica.local_log_start for replica in play.stage.admin.tiered_replicas(["far"]).values())
        objects = [one for one in objects_of(store(play), ["far"]) if one.base_offset < local_start]
        assert {one.kind for one in objects} == {LOG, *INDEXES.values()}
        assert end_of([one for one in objects if one.kind == LOG]) == local_start > 0
