"""The digests of a release are those that `sha512sum` gives."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from harness.kafka.release.digests import ReleaseFiles, files_of
from harness.kafka.release.image_layout import LAYOUTS, BrokerImage
from harness.kafka.release.release import Release
from harness.model.errors import BadInput

CONTENTS = {"b.jar": b"two", "a.jar": b"one", "c/a.jar": b"three"}


def release(folder: Path, *names: str, **own: str) -> Release:
    """A release with these jars, in this order. own: other contents by the stem of the name."""
    for name, content in CONTENTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(own[name[0]].encode() if name[0] in own else content)
    return Release("4.3.1", "c", "here", tuple(folder / name for name in names or CONTENTS))


def files(*given: tuple[Path, dict[str, str]]) -> list[ReleaseFiles]:
    return [files_of(release(folder, **own)) for folder, own in given]


def sha512(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest()


def test_the_digest_of_jars_is_that_of_their_list(tmp_path: Path) -> None:
    found = files_of(release(tmp_path, "b.jar", "a.jar"))
    assert found.listing == f"{sha512(b'one')}  a.jar\n{sha512(b'two')}  b.jar\n"
    assert (found.digest.of, found.digest.jars) == ("jars", 2)
    assert found.digest.digest == f"sha512:{sha512(found.listing.encode())}"


def test_only_names_and_contents_of_jars_count(tmp_path: Path) -> None:
    here, there, changed = files((tmp_path / "x", {}), (tmp_path / "y", {}), (tmp_path / "z", {"b": "twO"}))
    assert here == there  # two folders with the same jars
    assert files_of(release(tmp_path / "x", "c/a.jar", "b.jar", "a.jar")).digest.jars == 3
    assert changed.digest.digest != here.digest.digest
    assert changed.listing.splitlines()[0] == here.listing.splitlines()[0]
    assert files_of(release(tmp_path / "x", "a.jar")).digest.digest != here.digest.digest


def test_a_tarball_has_its_own_digest_beside_the_list(tmp_path: Path) -> None:
    (tmp_path / "kafka.tgz").write_bytes(b"packed")
    found = files_of(replace(release(tmp_path), tarball=tmp_path / "kafka.tgz"))
    assert (found.digest.of, found.digest.digest, found.digest.jars) == ("tarball", f"sha512:{sha512(b'packed')}", 3)
    assert len(found.listing.splitlines()) == 3


def test_an_image_is_named_by_its_id_and_none_of_its_files_is_read() -> None:
    image = BrokerImage("apache/kafka:4.1.0", "sha256:abc", LAYOUTS[0])
    found = files_of(Release("4.1.0", "c", "here", (Path("/opt/kafka/libs/a.jar"),), image=image))
    assert (found.digest.of, found.digest.digest, found.digest.jars) == ("image", "sha256:abc", 1)
    assert found.listing == ""


def test_a_jar_that_has_gone_is_one_sentence(tmp_path: Path) -> None:
    given = release(tmp_path)
    (tmp_path / "a.jar").unlink()
    with pytest.raises(BadInput, match=r"a\.jar cannot be read \(No such file or directory\): make it readable"):
        files_of(given)
