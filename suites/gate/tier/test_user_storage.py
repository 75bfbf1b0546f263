"""A remote tier by a storage manager of the user on real brokers: its objects are read past the brokers, through it.

Kafka's own storage stands in for it, with a folder that the harness does not know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters import Cluster
from harness.evidence import BundleWriter
from harness.kafka.admin.client import AdminView
from harness.kafka.release.cache import default_cache
from harness.kafka.release.release import resolve
from harness.kafka.release.tier_jars import with_tier_jars
from harness.kafka.storage.local_tier import LOG, ROOT, TierObject, objects_of, read_object
from harness.model.backend import PROCESSES
from harness.model.scenario.scenario import ClusterShape, Scenario
from harness.model.user_storage import UserStorage
from harness.run.tier_probe import TierProbe
from suites.gate.cluster_probes import WITH_TEST_JARS
from suites.gate.playing import Play, running
from suites.gate.tier.far_topic import BULK, FAR, acks, heal, store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SHAPE = ClusterShape(tier="user", tier_faults=True)
TOPICS, PRODUCERS = (FAR,), (BULK,)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("theirs")


@pytest.fixture(scope="module")
def cluster(theirs: Path) -> Iterator[Cluster]:
    release = resolve(WITH_TEST_JARS, maven_repo=None, cache=default_cache(), progress=print)
    jars = with_tier_jars(release, maven_repo=None, cache=default_cache(), progress=print).tier_jars
    manager = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    storage = UserStorage(class_name=manager, class_path=":".join(map(str, jars)), config={"dir": str(theirs)})
    # Processes, because containers cannot reach a storage of the user.
    with running(PROCESSES, SHAPE, WITH_TEST_JARS, tier_storage=storage) as started:
        yield started
    assert not started.directory.exists()


@pytest.fixture
def looks(play: Play, admin: AdminView, tmp_path: Path) -> TierProbe:
    scenario = Scenario(name="s", title="", property="", shape=SHAPE, topics=TOPICS, producers=PRODUCERS)
    return TierProbe(play.stage.cluster, admin, scenario, BundleWriter(tmp_path / "looks"))


def held(objects: list[TierObject]) -> dict[str, bytes]:
    return {f"{one.path.parent.name}/{one.path.name}": one.path.read_bytes() for one in objects}


def test_its_objects_are_found_unchanged_and_deleted_ones_are_missing(
    play: Play, looks: TierProbe, theirs: Path
) -> None:
    half = {"do": "tier_errors", "ops": ["copy"], "share": 0.3}
    play(("errors", half), acks(3000), heal("errors"))
    assert looks.filled(5).ok
    play.stage.load.stop_producers()  # type: ignore[attr-defined]
    settled = looks.at_rest()
    assert settled is not None
    assert settled.ok, settled.last_seen
    looks.look("healed")
    there, found = objects_of(theirs, ["far"]), objects_of(store(play), ["far"])
    assert len([one for one in there if one.kind == LOG]) >= 5
    assert held(found) == held(there)
    assert all((content := read_object(one)) is not None and not content.faulty for one in found)
    one = next(one for one in there if one.kind == LOG)
    one.path.unlink()
    looks.look("end")
    assert held(objects_of(store(play), ["far"])) == held(objects_of(theirs, ["far"]))
    assert (theirs / ROOT).is_dir()
