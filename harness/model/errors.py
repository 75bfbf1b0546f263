"""Errors of the harness. Findings are data and never exceptions.

HarnessError
├── BadInput            wrong usage, bad input, a missing capability: exit 2
│   └── BadEvidence     a bundle that is damaged, truncated or of another program: exit 2
└── HarnessFailure      the harness itself could not continue: exit 3; inside a run it is a doubt
    └── HarnessTimeout  a wait reached its time limit; the text says what was last seen
"""

from __future__ import annotations


class HarnessError(Exception):
    """Root of all errors that this package raises on purpose. `str()` is one sentence for the user."""


class BadInput(HarnessError):  # noqa: N818 - the field says "bad input", and the tree above is the vocabulary
    """The user's input cannot be used. The text names the cause and the remedy in one sentence."""


class BadEvidence(BadInput):
    """A bundle cannot be judged: it is damaged, truncated, or of another format or version."""


class HarnessFailure(HarnessError):  # noqa: N818
    """The harness failed. The user is not the cause."""


class HarnessTimeout(HarnessFailure):
    """A wait reached its time limit, because of the cluster or the machine. The text says what was last seen."""
