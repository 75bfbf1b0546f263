"""The partition of each key, by the harness's own choice and by a client's partitioner."""

from __future__ import annotations

import zlib

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
def test_each_partition_has_64_keys_that_hash_to_it(partitioner: str) -> None:
    keys = Keys(3, partitioner)
    of = [set(keys.of(partition, 0, 64)[0]) for partition in range(3)]
    assert [len(mine) for mine in of] == [64] * 3
    assert len(set.union(*of)) == 3 * 64
    assert all(HASH_OF[partitioner](key) % 3 == partition for partition, mine in enumerate(of) for key in mine)


def test_key_hashes_are_crc32_with_any_partitioner() -> None:
    keys, hashes = Keys(3, "murmur2").of(1, 10, 5)
    assert hashes.tolist() == [zlib.crc32(key) for key in keys]
