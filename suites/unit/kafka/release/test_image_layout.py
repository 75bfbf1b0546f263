"""Images of brokers are recognised by the paths in them; an incomplete one is refused in one sentence."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.kafka.release.image_layout import LAYOUTS, Layout, find_kafka, java_in
from harness.kafka.release.release import Release
from harness.model.errors import BadInput
from suites.unit.kafka.release.maven_repository import COMMIT, clients_jar, jar, libs

APACHE, CONFLUENT = LAYOUTS


@dataclass
class Inside:
    """The files of an image by their paths. Bytes are content; a string is the target of a link."""

    files: Mapping[str, bytes | str]
    asked: list[str] = field(default_factory=list)

    def archive(self, path: str, target: Path) -> bool:
        self.asked.append(path)
        below = {name: it for name, it in self.files.items() if name == path or name.startswith(f"{path}/")}
        if not below:
            return False
        above = path.rpartition("/")[0]
        with tarfile.open(target, "w") as archive:
            if path not in self.files:
                folder = tarfile.TarInfo(path.removeprefix(f"{above}/"))
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)
            for name, content in below.items():
                member = tarfile.TarInfo(name.removeprefix(f"{above}/"))
                if isinstance(content, str):
                    member.type, member.linkname = tarfile.SYMTYPE, content
                    archive.addfile(member)
                else:
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        return True


def laid_out(layout: Layout, jars: Mapping[str, bytes | str] | None = None) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {f"{layout.jars}/{name}": it for name, it in (jars or libs()).items()}
    return found | {layout.start: b"#!/bin/sh", layout.storage: b"#!/bin/sh"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_each_layout_is_recognised(layout: Layout, tmp_path: Path) -> None:
    others = {"/usr/bin/java": b"", f"{layout.jars}/kafka_2.13-4.3.1-test.jar": b"", f"{layout.jars}/NOTICE": b""}
    found = find_kafka(Inside(laid_out(layout) | others), "image:x", tmp_path)
    assert found.layout == layout
    assert (found.version, found.commit) == ("4.3.1", COMMIT)
    assert found.jars == tuple(Path(layout.jars) / name for name in sorted(libs()))
    assert not found.has_run


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.makers)
def test_the_makers_entry_point_is_found(layout: Layout, tmp_path: Path) -> None:
    found = find_kafka(Inside(laid_out(layout) | {layout.run: b"#!/bin/sh"}), "image:x", tmp_path)
    assert found.has_run


def test_confluents_version_names_and_links_among_the_jars_are_read(tmp_path: Path) -> None:
    jars: dict[str, bytes | str] = {
        f"{name}-7.9.1-ccs.jar": jar({"id": name}) for name in ("kafka_2.13", "kafka-tools")
    }
    jars |= {"kafka-server-common-7.9.1-ccs.jar": jar({}), "kafka.jar": "kafka_2.13-7.9.1-ccs.jar"}
    jars |= {"kafka-clients-7.9.1-ccs.jar": clients_jar("7.9.1-ccs")}
    found = find_kafka(Inside(laid_out(CONFLUENT, jars)), "image:x", tmp_path)
    assert found.version == "7.9.1-ccs"
    assert Path("/usr/share/java/kafka/kafka.jar") in found.jars


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("4.3.1", (4, 3, 1)),
        ("4.4.0-SNAPSHOT", (4, 4, 0)),
        ("7.9.1-ccs", (3, 9, 1)),
        ("8.0.0-ccs", (4, 0, 0)),
        ("8.1.0-ce", (4, 1, 0)),
        ("3.9.1-cesium", (3, 9, 1)),
    ],
)
def test_confluents_versions_become_those_of_apache_kafka(version: str, numbers: tuple[int, ...]) -> None:
    assert Release(version, "c", "here", ()).numbers == numbers


def test_an_image_without_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        find_kafka(Inside({"/opt/kafka/kafka.Kafka": b"native", "/bin/sh": b""}), "image:some/thing:1", tmp_path)
    assert str(refused.value) == (
        "image:some/thing:1 holds no Kafka that can be run: it has neither /opt/kafka/libs (apache/kafka) nor "
        "/usr/share/java/kafka (confluentinc/cp-kafka); give an image with one of them"
    )


@pytest.mark.parametrize("missing", ["kafka_2.13", "kafka-clients", "kafka-server-common", "kafka-tools"])
def test_an_image_that_lacks_a_jar_is_refused(missing: str, tmp_path: Path) -> None:
    jars = {name: it for name, it in libs().items() if not name.startswith(missing)}
    with pytest.raises(BadInput, match=r"^image:x in /opt/kafka/libs holds no .* the build is incomplete"):
        find_kafka(Inside(laid_out(APACHE, jars)), "image:x", tmp_path)


@pytest.mark.parametrize("script", ["start", "storage"])
def test_an_image_that_lacks_a_script_is_refused(script: str, tmp_path: Path) -> None:
    files = laid_out(CONFLUENT)
    del files[getattr(CONFLUENT, script)]
    with pytest.raises(BadInput, match=rf"where confluentinc/cp-kafka has them but lacks /usr/bin/kafka-.*{script}"):
        find_kafka(Inside(files), "image:x", tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"cut off", r"in /opt/kafka/libs: kafka-clients-4\.3\.1\.jar is damaged or is not a build of Kafka"),
        (clients_jar("unknown"), r"kafka-clients-4\.3\.1\.jar does not say which version it is"),
        ("../gone.jar", r"cannot be read \(.*gone\.jar.*\): pull or build the image again"),
    ],
    ids=["damaged", "nameless", "link to nowhere"],
)
def test_an_image_without_a_version_is_refused(content: bytes | str, sentence: str, tmp_path: Path) -> None:
    jars: dict[str, bytes | str] = {**libs(), "kafka-clients-4.3.1.jar": content}
    with pytest.raises(BadInput, match=sentence):
        find_kafka(Inside(laid_out(APACHE, jars)), "image:x", tmp_path)


def test_the_java_of_an_image_is_that_of_its_release_file(tmp_path: Path) -> None:
    said = b'IMPLEMENTOR="Eclipse Adoptium"\nJAVA_VERSION="21.0.8"\nMODULES="java.base"\n'
    files: dict[str, bytes | str] = {
        "/opt/java/release": said,
        "/empty/release": b"",
        "/link/release": "/opt/java/release",
    }
    assert java_in(Inside(files), "/opt/java", tmp_path) == "21.0.8 (Eclipse Adoptium)"
    assert [java_in(Inside(files), home, tmp_path) for home in ("/empty", "/link", "/none")] == [None] * 3
