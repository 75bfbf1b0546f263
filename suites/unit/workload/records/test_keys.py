"""The partition of each key, by the harness's own choice and by a client's partitioner."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from harness.workload.records.keys import HASH_OF, Keys, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_kafkas_java_hash(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("partitioner", HASH_OF)
def test_each_partition_has_64_keys_that_come_again_and_all_keys_hash_to_it(partitioner: str) -> None:
    keys = Keys(3, partitioner)
    of = [Counter(keys.of(partition, 0, 6400)[0]) for partition in range(3)]
    assert [Counter(n > 1 for n in mine.values()) for mine in of] == [{True: 64, False: 128}] * 3
    assert len(set.union(*map(set, of))) == 3 * 192
    assert all(HASH_OF[partitioner](key) % 3 == partition for partition, mine in enumerate(of) for key in mine)


def test_two_owners_share_no_key_that_comes_once() -> None:
    one, other = ({*Keys(3, owner=owner).of(1, 0, 200)[0]} for owner in ("one", "other"))
    assert len(one & other) == 64


def test_key_hashes_are_crc32_with_any_partitioner() -> None:
    keys, hashes = Keys(3, "murmur2").of(1, 45, 10)
    assert hashes.tolist() == [zlib.crc32(key) for key in keys]
