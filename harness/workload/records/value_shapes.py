"""The shape of the value of each sequence: its size, or empty, or null (a tombstone of its key).

It is computed from stream and sequence, so nothing has to store it. The fractional parts of multiples of the golden
ratio are spread evenly, also among the sequences of one key.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from harness.model.scenario.scenario import Producer
from harness.model.schemas import VALUE_FORMS
from harness.workload.records.payload import EMPTY, NULL, WHOLE, Int8s, Int64s

_GOLDEN: Final = 0.6180339887498949
_WORDS: Final = {NULL: "null", EMPTY: "empty"}
assert tuple(_WORDS.values()) == VALUE_FORMS


class Forms:
    """The shapes of the values of one producer."""

    def __init__(self, spec: Producer) -> None:
        self._nulls = spec.tombstones
        self._bare = spec.tombstones + spec.empty
        self._sizes = np.array(spec.sizes or (spec.value_bytes,), np.int64)

    def of(self, stream: int, sequences: Int64s) -> Int8s | None:
        """WHOLE, EMPTY or NULL for each sequence; None = all are WHOLE."""
        if not self._bare:
            return None
        turn = _turns(stream, sequences)
        return np.select([turn < self._nulls, turn < self._bare], [NULL, EMPTY], WHOLE).astype(np.int8)

    def words(self, stream: int, sequences: Int64s) -> list[str | None] | None:
        """The ledger's column `value`: "null", "empty" or None for each sequence; None = all are WHOLE."""
        forms = self.of(stream, sequences)
        return None if forms is None else [_WORDS.get(form) for form in forms.tolist()]

    def sizes(self, stream: int, sequences: Int64s) -> Int64s | None:
        """Bytes of each value that is WHOLE; None = all have one size."""
        if len(self._sizes) == 1:
            return None
        share = (_turns(stream, sequences) - self._bare) / max(1 - self._bare, 1e-9)
        return self._sizes[(share.clip(0, 0.999999) * len(self._sizes)).astype(np.int64)]


def _turns(stream: int, sequences: Int64s) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each sequence."""
    multiples = (sequences + 31 * stream + 1).astype(np.float64) * _GOLDEN
    return multiples - np.floor(multiples)
