"""Errors of the harness. Findings are data and never exceptions.

HarnessError
├── BadInput            wrong usage, bad input, a missing capability: exit 2
│   └── BadEvidence     a bundle that is damaged, truncated or of another program: exit 2
└── HarnessFailure      the harness itself could not continue: exit 3; inside a run it is a doubt
    ├── HarnessTimeout  a wait reached its time limit; the text says what was last seen
    └── MachineFailure  this machine or a helper process failed, and no broker can be the cause
"""

from __future__ import annotations

from typing import ClassVar

from harness.model.doubt_names import DoubtOrigin


class HarnessError(Exception):
    """Root of all errors that this package raises on purpose. `str()` is one sentence for the user."""


class BadInput(HarnessError):  # noqa: N818 - the field says "bad input", and the tree above is the vocabulary
    """The user's input cannot be used. The text names the cause and the remedy in one sentence."""


class BadEvidence(BadInput):
    """A bundle cannot be judged: it is damaged, truncated, or of another format or version."""


class HarnessFailure(HarnessError):  # noqa: N818
    """The harness failed. The user is not the cause.

    origin: of the doubt that it becomes inside a run. What is not known to be the machine's may be the brokers'.
    """

    origin: ClassVar[DoubtOrigin] = DoubtOrigin.RELEASE


class HarnessTimeout(HarnessFailure):
    """A wait reached its time limit, because of the cluster or the machine. The text says what was last seen."""


class MachineFailure(HarnessFailure):
    """This machine, or a process beside the brokers, failed. Raise it only where no broker can be the cause."""

    origin: ClassVar[DoubtOrigin] = DoubtOrigin.MACHINE
