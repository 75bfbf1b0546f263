"""Files that are whole or absent, whoever else is at work in the same cache."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from harness.kafka.release.cache import Cache, Digest, default_cache
from harness.model.errors import BadInput


def test_a_digest_reads_back_and_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    digest = Digest.of_file(tmp_path / "file", "sha1")
    assert digest == Digest.of(b"content", "sha1") == Digest("sha1", hashlib.sha1(b"content").hexdigest())
    assert Digest.parse(str(digest)) == digest


def test_the_same_name_with_other_content_is_another_file(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    paths = [cache.put(content, Digest.of(content), "x.jar") for content in (b"one", b"two")]
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]


def test_the_place_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/kafka-durability")
    monkeypatch.setenv("HOME", "/home/me")
    for invalid in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", invalid)
        assert default_cache() == Path("/home/me/.cache/kafka-durability")


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match=r"file/cache cannot be used \(Not a directory\): free some space or point XDG"):
        Cache(tmp_path / "file" / "cache")


def test_what_a_killed_harness_left_is_swept_after_a_day(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    old, fresh = tmp_path / "tmp" / "old", tmp_path / "tmp" / "fresh"
    old.mkdir()
    fresh.mkdir()
    yesterday = time.time() - 100_000
    os.utime(old, (yesterday, yesterday))
    with cache.scratch() as scratch:
        assert set((tmp_path / "tmp").iterdir()) == {fresh, scratch}
    assert set((tmp_path / "tmp").iterdir()) == {fresh}


def test_a_second_harness_waits_and_says_so(tmp_path: Path) -> None:
    cache, order, holding = Cache(tmp_path), list[str](), threading.Event()

    def second() -> None:
        holding.wait(10)
        with Cache(tmp_path).locked("4.3.1", order.append):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with cache.locked("4.3.1", order.append):
        holding.set()
        while not order:
            time.sleep(0.01)
        order.append("first")
    thread.join(10)
    assert order == ["waiting for another harness that is preparing 4.3.1", "first", "second"]


@pytest.mark.parametrize("part", ["locks/4.3.1.lock", "store/{digest}/x.jar"])
def test_a_directory_where_a_file_should_be(tmp_path: Path, part: str) -> None:
    """A lock cannot be taken there, and says so; content is stored anew."""
    cache, digest = Cache(tmp_path), Digest.of(b"content")
    (tmp_path / part.format(digest=digest) / "below").mkdir(parents=True)
    if part.startswith("locks"):
        with pytest.raises(BadInput, match=r"the cache .* cannot be used \(.*point XDG"), cache.locked("4.3.1", print):
            pytest.fail("locked")
    assert cache.put(b"content", digest, "x.jar").read_bytes() == b"content"
    assert cache.find(digest, "x.jar") is not None


def test_locks_that_may_not_be_made_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(BadInput, match=r"cannot be used \(Permission denied\)"), Cache(tmp_path).locked("k", print):
        pytest.fail("locked")
