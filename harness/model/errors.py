"""Errors of the harness. Findings are data and never exceptions.

HarnessError
├── BadInput            wrong usage, bad input, a missing capability: exit 2
│   └── BadEvidence     a bundle that is damaged, truncated or not ours: exit 2
└── HarnessFailure      the harness itself could not go on: exit 3
    └── HarnessTimeout  a bounded wait ran out; the text says what was last seen
"""

from __future__ import annotations


class HarnessError(Exception):
    """Root of everything this package raises on purpose. `str()` is one sentence for a person."""


class BadInput(HarnessError):  # noqa: N818 - the field says "bad input", and the tree above is the vocabulary
    """What the user gave cannot be used. The text names the cause and the remedy in one sentence."""


class BadEvidence(BadInput):
    """A bundle cannot be judged: damaged, truncated, of a foreign format or version."""


class HarnessFailure(HarnessError):  # noqa: N818
    """We broke: neither Kafka nor the user is to blame."""


class HarnessTimeout(HarnessFailure):
    """A bounded wait ran out. The text says what was waited for and what was last seen."""
