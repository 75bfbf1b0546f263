"""Releases get the jars of a remote tier when a shape has one, and otherwise none; the folder of the tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import clusters, scenarios
from harness.clusters import Releases
from harness.clusters.containers.backend import _readable
from harness.clusters.nodes.tier_folder import make_store, store_of, tier_of
from harness.commands.options import GateOptions
from harness.commands.prepare import prepare
from harness.kafka.release.cache import Cache
from harness.kafka.release.release import Release
from harness.kafka.release.tier_needs import NEEDS, equip, equipped
from harness.kafka.settings.tier_settings import BUCKET, ORDERS, REPORTS, Tier
from harness.model.errors import BadInput
from harness.model.scenario.scenario import ClusterShape

PLAIN, TIERED = ClusterShape(), ClusterShape(tier="local", starts_on="3.9.1")
IN_S3, KAFKAS = ClusterShape(tier="s3"), ClusterShape(tier="kafka_local")
FAULTY_SHAPE, FAULTY = replace(TIERED, tier_faults=True), Path("/cache/faulty-storage.jar")
JARS = (Path("/jars/storage-test.jar"), Path("/jars/clients-test.jar"))
FILE = Path("/files/file-storage.jar")


def release(version: str = "4.3.1") -> Release:
    return Release(version, "c", "s", (Path("/libs/kafka.jar"),))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str | None]]:
    """Each request for the jars of a need: the need, the version, and the Maven repository."""
    found: list[tuple[str, str, str | None]] = []

    def giving(what: str, given: dict[str, Any]) -> Callable[..., Release]:
        def give(of: Release, *, maven_repo: str | None, **_: Any) -> Release:
            found.append((what, of.version, maven_repo))
            return replace(of, **given)

        return give

    monkeypatch.setitem(NEEDS, "local", giving("file", {"file_storage": FILE}))
    monkeypatch.setitem(NEEDS, "kafka_local", giving("jars", {"tier_jars": JARS}))
    monkeypatch.setitem(NEEDS, "faults", giving("storage", {"faulty_storage": FAULTY}))
    monkeypatch.setattr(clusters, "find_start", _start)
    return found


def _start(shape: ClusterShape, *_: Any, **__: Any) -> Release | None:
    return release(shape.starts_on) if shape.starts_on else None


PROGRESS: Any = type("Said", (), {"line": lambda self, text: None, "__call__": lambda self, text: None})()
STAGED = GateOptions(seed=1, maven_repo="https://staging")
FROM: dict[str, Any] = {"maven_repo": "https://staging", "cache": Path("/cache"), "progress": PROGRESS}


def prepared(*shapes: ClusterShape) -> Releases:
    """The releases that a gate prepares for scenarios of these shapes; nothing is missing."""
    wanted = [replace(scenarios.load("calm"), shape=shape) for shape in shapes]
    found = prepare(release(), wanted, STAGED, PROGRESS)
    assert found.lacking == {}
    return found.releases


def test_a_run_adds_the_storage_to_all_releases_of_a_tiered_shape(
    asked: list[tuple[str, str, str | None]],
) -> None:
    found = prepared(PLAIN, TIERED)
    assert asked == [("file", "4.3.1", "https://staging"), ("file", "3.9.1", "https://staging")]
    assert (found.tested.file_storage, found.earlier["3.9.1"].file_storage) == (FILE, FILE)
    asked.clear()
    assert equip(release(), [PLAIN], **FROM) == (release(), {})
    assert prepared(PLAIN).tested.file_storage is None
    assert asked == []


def test_only_a_shape_with_kafkas_own_tier_needs_its_test_jars(
    asked: list[tuple[str, str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert equip(release(), [KAFKAS], **FROM)[0].tier_jars == JARS
    assert [what for what, *_ in asked] == ["jars"]

    def unpublished(*_: Any, **__: Any) -> Release:
        raise BadInput("not published")

    monkeypatch.setitem(NEEDS, "kafka_local", unpublished)
    given, lacking = equip(release("4.4.0"), [TIERED, FAULTY_SHAPE, KAFKAS], **FROM)
    assert (given.file_storage, given.faulty_storage) == (FILE, FAULTY)
    assert lacking == {"kafka_local": "not published"}


def test_only_a_shape_with_tier_faults_gets_the_faulty_storage(
    asked: list[tuple[str, str, str | None]],
) -> None:
    assert equip(release(), [TIERED, FAULTY_SHAPE], **FROM)[0].faulty_storage == FAULTY
    asked.clear()
    found = prepared(FAULTY_SHAPE)
    assert found.earlier["3.9.1"].faulty_storage == FAULTY
    assert [of[:2] for of in asked].count(("storage", "3.9.1")) == 1


def test_a_missing_need_is_reported_and_the_others_are_added(
    asked: list[tuple[str, str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any, **__: Any) -> Release:
        raise BadInput("there are none")

    monkeypatch.setitem(NEEDS, "local", none)
    assert equip(release(), [PLAIN, TIERED], **FROM) == (release(), {"local": "there are none"})
    given, lacking = equip(release(), [FAULTY_SHAPE], **FROM)
    assert (given.faulty_storage, lacking) == (FAULTY, {"local": "there are none"})
    with pytest.raises(BadInput, match="there are none"):
        equipped(release(), [TIERED], **FROM)
    before = replace(release(), version="3.5.2")  # it has no remote tier, which check_tier reports
    assert equip(before, [TIERED], **FROM) == (before, {})


def test_making_a_cluster_adds_the_storage_to_its_releases(
    asked: list[tuple[str, str, str | None]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Any] = []
    monkeypatch.setitem(clusters.BACKENDS, "processes", lambda of, shape, **how: given.append((of, how["starts_on"])))
    for shape in (TIERED, PLAIN):
        clusters.make(release(), shape, backend="processes", progress=print, cache=tmp_path, root=tmp_path)
    assert [(of.file_storage, start and start.file_storage) for of, start in given] == [(FILE, FILE), (None, None)]
    assert asked == [("file", "4.3.1", None), ("file", "3.9.1", None)]


def test_the_store_is_a_folder_of_the_run_and_containers_can_read_its_jars(tmp_path: Path) -> None:
    assert make_store(tmp_path, PLAIN) == []
    assert tier_of(tmp_path, PLAIN, release()) is None
    assert make_store(tmp_path, TIERED) == [store_of(tmp_path)]
    assert [path.name for path in store_of(tmp_path).iterdir()] == [BUCKET]
    given = replace(release(), file_storage=FILE)
    assert tier_of(tmp_path, TIERED, given) == Tier((FILE,), store_of(tmp_path))
    assert FILE.parent in _readable([given], TIERED, Cache(tmp_path / "cache"))
    assert FILE.parent not in _readable([given], PLAIN, Cache(tmp_path / "cache"))


def test_kafkas_own_tier_creates_its_subfolder_itself(tmp_path: Path) -> None:
    assert make_store(tmp_path, KAFKAS) == [store_of(tmp_path)]
    assert list(store_of(tmp_path).iterdir()) == []
    given = replace(release(), tier_jars=JARS, file_storage=FILE)
    assert tier_of(tmp_path, KAFKAS, given) == Tier(JARS, store_of(tmp_path), local_tiered=True)
    readable = _readable([given], KAFKAS, Cache(tmp_path / "cache"))
    assert (Path("/jars") in readable, FILE.parent in readable) == (True, False)


def test_the_store_with_tier_faults_has_folders_for_orders_and_reports(tmp_path: Path) -> None:
    make_store(tmp_path, FAULTY_SHAPE)
    assert {path.name for path in store_of(tmp_path).iterdir()} == {BUCKET, ORDERS, REPORTS}
    given = replace(release(), file_storage=FILE, faulty_storage=FAULTY)
    assert tier_of(tmp_path, FAULTY_SHAPE, given) == Tier((FILE, FAULTY), store_of(tmp_path), faulty=True)
    assert tier_of(tmp_path, TIERED, given) == Tier((FILE,), store_of(tmp_path))
    assert FAULTY.parent in _readable([given], FAULTY_SHAPE, Cache(tmp_path / "cache"))
    assert FAULTY.parent not in _readable([given], TIERED, Cache(tmp_path / "cache"))


def test_a_tier_in_s3_has_its_own_jars_and_a_bucket(tmp_path: Path) -> None:
    make_store(tmp_path, IN_S3)
    assert [path.name for path in store_of(tmp_path).iterdir()] == [BUCKET]
    given = replace(release(), file_storage=FILE, s3_jars=(Path("/s3/s3.jar"), Path("/s3/sdk/client.jar")))
    assert tier_of(tmp_path, IN_S3, given, "http://h:1") == Tier(given.s3_jars, store_of(tmp_path), s3="http://h:1")
    readable = _readable([given], IN_S3, Cache(tmp_path / "cache"))
    assert Path("/s3") in readable
    assert FILE.parent not in readable
