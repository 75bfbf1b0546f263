"""Keys of keyed producers by the partition that they belong to: by the harness's choice, or by a client's partitioner.

A stream belongs to one partition, so each of its sequences gets a key of that partition. With a client's partitioner
the record is sent without a partition; if it is found in another partition than its stream's, that is `misrouted`.

Most keys come again and again. Some come once, so that their record is the last of its key from the start: a cleaner
that removes it loses it, whenever that happens. The next record of a key that comes again would hide that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import count as count_up
from itertools import repeat
from typing import Final

import numpy as np

from harness.workload.records.payload import Int64s

_KEYS_PER_PARTITION: Final = 64
_ONCE_EVERY: Final = 50  # so many sequences, one has a key that no other one has
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_BITS: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The hash of the Java producer (org.apache.kafka.common.utils.Utils.murmur2), as an unsigned number."""
    h, whole = _SEED ^ len(key), len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _BITS
        h = (h * _M & _BITS) ^ ((k ^ k >> 24) * _M & _BITS)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _BITS
    h = (h ^ h >> 13) * _M & _BITS
    return h ^ h >> 15


def _of_java(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


# The hash of each of librdkafka's partitioners. "" = the harness's own choice.
HASH_OF: Final[dict[str, Callable[[bytes], int]]] = {
    "": zlib.crc32,
    "consistent": zlib.crc32,
    "consistent_random": zlib.crc32,
    "murmur2": _of_java,
    "murmur2_random": _of_java,
}


class Keys:
    """Keys by partition: a key's partition is its hash modulo the number of partitions.

    owner: of the keys that come once, such as the name of a producer.
    """

    def __init__(self, partitions: int, partitioner: str = "", owner: str = "") -> None:
        hash_of = HASH_OF[partitioner]
        self._partitions, self._hash_of, self._owner = partitions, hash_of, owner.encode()
        self._keys: list[list[bytes]] = [[] for _ in repeat(None, partitions)]
        number, missing = 0, partitions * _KEYS_PER_PARTITION
        while missing:
            key = b"key-%d" % number
            bucket = self._keys[hash_of(key) % partitions]
            if len(bucket) < _KEYS_PER_PARTITION:
                bucket.append(key)
                missing -= 1
            number += 1
        self._hashes = [np.array([zlib.crc32(key) for key in bucket], np.int64) for bucket in self._keys]

    def of(self, partition: int, first_seq: int, count: int) -> tuple[list[bytes], Int64s]:
        """`count` keys of a partition with their CRC-32; a sequence always gets the same key."""
        seqs = np.arange(first_seq, first_seq + count)
        turns = seqs % _KEYS_PER_PARTITION
        bucket = self._keys[partition]
        keys, hashes = [bucket[turn] for turn in turns.tolist()], self._hashes[partition][turns]
        for at in np.flatnonzero(seqs % _ONCE_EVERY == _ONCE_EVERY - 1).tolist():
            keys[at] = self._once(partition, first_seq + at)
            hashes[at] = zlib.crc32(keys[at])
        return keys, hashes

    def _once(self, partition: int, seq: int) -> bytes:
        tried = (b"%s-%d-%d" % (self._owner, seq, number) for number in count_up())
        return next(key for key in tried if self._hash_of(key) % self._partitions == partition)
