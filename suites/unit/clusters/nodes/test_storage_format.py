"""Copies of formatted folders get new identities; a class-data archive belongs to exactly one build."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.clusters.nodes.storage_format import build_key, copy_formatted, format_node, reformat
from harness.clusters.processes.class_data_archive import _adopt
from harness.kafka.release.release import Release
from harness.kafka.storage.uuids import new_uuid
from harness.model.errors import HarnessFailure

META = "#\nversion=1\nnode.id=101\ncluster.id=old\ndirectory.id=older\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "formatted"
    folder.mkdir()
    (folder / "meta.properties").write_text(META)
    (folder / "bootstrap.checkpoint").write_bytes(b"\0\1")
    return folder


def _meta(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_each_copy_has_an_identity_of_its_own(source: Path, tmp_path: Path) -> None:
    for node in (1, 2):
        copy_formatted(source, tmp_path / str(node), node=node, cluster_id="new")
    one, two = _meta(tmp_path / "1"), _meta(tmp_path / "2")
    assert (one["version"], one["node.id"], one["cluster.id"]) == ("1", "1", "new")
    assert two["node.id"] == "2"
    assert len({one["directory.id"], two["directory.id"], "older"}) == 3
    assert (tmp_path / "1" / "bootstrap.checkpoint").read_bytes() == b"\0\1"
    assert sorted(path.name for path in (tmp_path / "1").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_directories_without_ids_get_none(source: Path, tmp_path: Path) -> None:
    """Before 3.7 they had none (KIP-858)."""
    (source / "meta.properties").write_text(META.replace("directory.id=older\n", ""))
    copy_formatted(source, tmp_path / "1", node=1, cluster_id="new")
    assert "directory.id" not in _meta(tmp_path / "1")


def test_a_folder_without_a_node_id_is_refused(source: Path, tmp_path: Path) -> None:
    (source / "meta.properties").write_text("version=2\n")
    with pytest.raises(HarnessFailure, match=r"has no line for node\.id"):
        copy_formatted(source, tmp_path / "1", node=1, cluster_id="new")


def test_a_wiped_disk_is_empty_and_belongs_to_the_same_node(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_formatted(source, data, node=102, cluster_id="new")
    before = _meta(data)
    (data / "t-0").mkdir()
    (data / "t-0" / "00000000000000000000.log").write_bytes(b"records")
    reformat(source, [data])
    after = _meta(data)
    assert sorted(path.name for path in data.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]
    assert (after["node.id"], after["cluster.id"]) == ("102", "new")
    assert after["directory.id"] != before["directory.id"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "formatted"]


def test_each_log_directory_has_an_id_and_only_the_first_has_metadata(source: Path, tmp_path: Path) -> None:
    directories = [tmp_path / "data", tmp_path / "data-2"]
    format_node(source, directories, node=1, cluster_id="new")
    before = [_meta(directory) for directory in directories]
    assert [(meta["node.id"], meta["cluster.id"]) for meta in before] == [("1", "new")] * 2
    assert sorted(path.name for path in directories[1].iterdir()) == ["meta.properties"]
    (directories[1] / "t-0").mkdir()
    reformat(source, directories)
    after = [_meta(directory) for directory in directories]
    assert [path.name for path in directories[1].iterdir()] == ["meta.properties"]
    assert [(meta["node.id"], meta["cluster.id"]) for meta in after] == [("1", "new")] * 2
    assert len({meta["directory.id"] for meta in (*before, *after)}) == 4


def test_a_wiped_directory_stays_because_it_may_be_a_mount(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_formatted(source, data, node=1, cluster_id="new")
    inode = data.stat().st_ino
    reformat(source, [data])
    assert data.stat().st_ino == inode


def test_a_disk_without_a_node_id_is_not_wiped(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    copy_formatted(source, data, node=1, cluster_id="new")
    (data / "meta.properties").write_text("version=1\ncluster.id=new\n")
    (data / "t-0").mkdir()
    with pytest.raises(HarnessFailure, match=r"has no line for node\.id"):
        reformat(source, [data])
    assert (data / "t-0").is_dir()


def test_ids_have_the_form_of_kafkas_uuids() -> None:
    made = {new_uuid() for _ in range(200)}
    assert len(made) == 200
    assert all(len(text) == 22 and not text.startswith("-") for text in made)


def test_any_change_of_the_class_path_is_another_build(tmp_path: Path) -> None:
    jar, patches = tmp_path / "a.jar", tmp_path / "patches" / "kafka"
    jar.write_bytes(b"one")
    patches.mkdir(parents=True)
    release = Release("4.3.1", "abc", "here", (jar, tmp_path / "patches"))
    keys = [build_key(release)]
    jar.write_bytes(b"two")  # same name, same size
    os.utime(jar, ns=(1, 1))
    keys.append(build_key(release))
    (patches / "Broker.class").write_bytes(b"patched")
    keys.append(build_key(release))
    keys.append(build_key(Release("4.3.1", "abc", "here", (tmp_path / "patches", jar))))
    assert len(set(keys)) == 4
    assert build_key(release) == keys[2]


def test_an_archive_appears_complete(tmp_path: Path) -> None:
    (tmp_path / "made").write_bytes(b"classes")
    _adopt(tmp_path / "made", tmp_path / "classes-1.jsa")
    assert (tmp_path / "classes-1.jsa").read_bytes() == b"classes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes-1.jsa", "made"]
