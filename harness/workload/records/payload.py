"""Self-checking values: each shows its stream and sequence, its topic and partition, and that every byte came back.

A value is a fixed-width prefix, a body, and the CRC-32 (little-endian) of both. The CRC of data followed by its own CRC
is a constant, so `crc32(value) == INTACT` holds for each intact value in zlib, Spark and DuckDB, without parsing.
A record with a null or empty value has a certificate in a header: a value without a body, with a magic that says which
one it stands for. Values are built in chunks and decoded one poll at a time, as arrays.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import Final, cast

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

MAGIC: Final = b"DUR1"
MAGIC_OF_HEADED: Final = b"DUR2"  # the value of a record with headers
MAGIC_OF_EMPTY: Final = b"DUR3"  # the certificate of an empty value
MAGIC_OF_NULL: Final = b"DUR4"  # the certificate of a null value
WHOLE, EMPTY, NULL = 0, 1, 2  # forms of a value
SELF: Final = "self"  # the only header of a record with an empty or null value: its certificate
INTACT: Final = 558161692
PREFIX: Final = np.dtype(
    [
        ("magic", "<u4"),
        ("run", "<u8"),
        ("stream", "<u4"),
        ("seq", "<u8"),
        ("topic_tag", "<u4"),
        ("partition", "<u4"),
        ("key_hash", "<u4"),
    ]
)
PREFIX_BYTES: Final = PREFIX.itemsize
VALUE_BYTES_MIN: Final = PREFIX_BYTES + 4
UNDECODABLE: Final = -1

_HEAD: Final = itemgetter(slice(PREFIX_BYTES))
_MAGIC_WORD: Final = int.from_bytes(MAGIC, "little")
_HEADED_WORD: Final = int.from_bytes(MAGIC_OF_HEADED, "little")
_WORDS: Final = np.array([int.from_bytes(m, "little") for m in (MAGIC, MAGIC_OF_EMPTY, MAGIC_OF_NULL)], np.uint32)
_POOL_BYTES: Final = 1 << 17


def tag_of(topic: str) -> int:
    """The hash of a topic's name in the prefix."""
    return zlib.crc32(topic.encode())


class Payloads:
    """Builds values of `value_bytes` bytes (at least 40) for one run.

    Bodies are windows into a pool of hexadecimal digits: they differ between records, and any codec halves them.
    """

    def __init__(self, run: int, value_bytes: int, seed: int, *, headed: bool = False) -> None:
        self._run = run
        self._magic = _HEADED_WORD if headed else _MAGIC_WORD
        self._body_bytes = max(value_bytes, VALUE_BYTES_MIN) - VALUE_BYTES_MIN
        pool_bytes = max(_POOL_BYTES, 2 * self._body_bytes)
        self._pool = random.Random(f"{seed}/payload").randbytes(pool_bytes // 2).hex().encode()

    def build(
        self,
        stream: int,
        first_seq: int,
        count: int,
        topic: str,
        partition: int,
        key_hashes: Int64s | None = None,
        forms: Int8s | None = None,
        sizes: Int64s | None = None,
    ) -> list[bytes]:
        """`count` values in sequence order; `key_hashes` are the CRC-32 of their keys, None = no keys.

        `forms`: where a form is not WHOLE, the certificate is returned; None = all are WHOLE. `sizes`: bytes of each
        value, at most `value_bytes`; None = `value_bytes` for all.
        """
        heads = np.zeros(count, PREFIX)
        heads["magic"] = self._magic
        heads["run"] = self._run
        heads["stream"] = stream
        heads["seq"] = np.arange(first_seq, first_seq + count)
        heads["topic_tag"] = tag_of(topic)
        heads["partition"] = partition
        if key_hashes is not None:
            heads["key_hash"] = key_hashes
        bodies = np.full(count, self._body_bytes) if sizes is None else (sizes - VALUE_BYTES_MIN).clip(0)
        if forms is not None:
            heads["magic"] = np.where(forms == WHOLE, self._magic, _WORDS[forms])
            bodies = np.where(forms == WHOLE, bodies, 0)
        packed, pool, body_bytes, crc32 = heads.tobytes(), self._pool, self._body_bytes, zlib.crc32
        starts = ((np.arange(first_seq, first_seq + count) * 31 + stream) % (len(pool) - body_bytes)).tolist()
        contents = [
            packed[at : at + PREFIX_BYTES] + pool[start : start + body]
            for at, start, body in zip(range(0, len(packed), PREFIX_BYTES), starts, bodies.tolist(), strict=True)
        ]
        sums = np.fromiter(map(crc32, contents), "<u4", count).tobytes()
        return [content + sums[at : at + 4] for at, content in zip(range(0, 4 * count, 4), contents, strict=True)]


Headers = list[tuple[str, str | bytes | None]]


def headers_of(value: bytes) -> Headers:
    """The headers of a record with this value; one of them has the value null."""
    return [("crc", value[-4:]), ("stream", value[12:16]), ("nothing", None)]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A poll's values as arrays. `stream` and `seq` are -1 where magic or run show that it is not a value of this run.

    `intact`: CRC, magic, run, key and headers are right. It does not compare the topic and the partition with those of
    the read: a record in the wrong place is another finding (`misrouted`), which the ledger decides.
    """

    stream: Int32s
    seq: Int64s
    intact: Bools


def decode(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    run: int,
    headers: Sequence[Headers | None] | None = None,
) -> Decoded:
    """Decodes one poll; `headers` None = no record has any. A missing or short value is undecodable, not an error."""
    count = len(values)
    whole, forms = _certified(values, headers)
    sums = np.fromiter(map(zlib.crc32, whole), np.uint32, count)
    lengths = np.fromiter(map(len, whole), np.int64, count)
    if count and lengths.min() < PREFIX_BYTES:
        whole = [value.ljust(PREFIX_BYTES, b"\0") for value in whole]
    heads = heads_of(whole)
    headed = heads["magic"] == _HEADED_WORD
    known = headed | np.isin(heads["magic"], _WORDS)
    ours = known & (heads["run"] == np.uint64(run)) & (lengths >= VALUE_BYTES_MIN)
    intact = ours & (sums == INTACT) & (_hashes(keys) == heads["key_hash"])
    if forms is None:
        intact &= (headed | (heads["magic"] == _MAGIC_WORD)) & _right_headers(headers, headed, whole)
    else:
        right = _right_headers(headers, headed, whole) | (forms != WHOLE)
        intact &= right & ((headed & (forms == WHOLE)) | (heads["magic"] == _WORDS[forms]))
    return Decoded(
        stream=np.where(ours, heads["stream"], UNDECODABLE).astype(np.int32),
        seq=np.where(ours, heads["seq"].astype(np.int64), UNDECODABLE),
        intact=intact,
    )


def _certified(
    values: Sequence[bytes | None], headers: Sequence[Headers | None] | None
) -> tuple[Sequence[bytes], Int8s | None]:
    """Values, with certificates in place of null and empty ones; and their forms, None = all are WHOLE."""
    if all(values):
        return values, None  # type: ignore[return-value]
    forms = (WHOLE if value else NULL if value is None else EMPTY for value in values)
    certificates = map(_certificate, headers or repeat(None, len(values)))
    whole = [value or certificate for value, certificate in zip(values, certificates, strict=True)]
    return whole, np.fromiter(forms, np.int8, len(values))


def _certificate(headers: Headers | None) -> bytes:
    name, value = headers[0] if headers and len(headers) == 1 else ("", None)
    return value if name == SELF and isinstance(value, bytes) else b""


def heads_of(values: Iterable[bytes | None]) -> npt.NDArray[np.void]:
    """The prefixes of values. No length check: a client's report returns a value that this process built."""
    return np.frombuffer(b"".join(map(_HEAD, cast(Iterable[bytes], values))), PREFIX)


def _hashes(keys: Sequence[bytes | None]) -> npt.NDArray[np.uint32]:
    if not any(keys):
        return np.zeros(len(keys), np.uint32)
    return np.fromiter((zlib.crc32(key) if key else 0 for key in keys), np.uint32, len(keys))


def _right_headers(headers: Sequence[Headers | None] | None, headed: Bools, values: Sequence[bytes]) -> Bools:
    """Whether each record has exactly the headers with which it was sent, or none if it was sent without."""
    if headers is None or not any(headers):
        return ~headed
    right = (
        (list(there or ()) == headers_of(value)) if wanted else not there
        for there, wanted, value in zip(headers, headed.tolist(), values, strict=True)
    )
    return np.fromiter(right, np.bool_, len(values))
