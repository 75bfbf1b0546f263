"""A thread of the auditor that failed: by a defect, since brokers that do not answer are results."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from harness.model.errors import HarnessFailure


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine ends with it. An auditor that went on without the thread would be blind without a word."""

    what: str
    error: Exception

    def failure(self) -> HarnessFailure:
        """One sentence, with the place in the code."""
        at = traceback.extract_tb(self.error.__traceback__)[-1]
        said = f"{type(self.error).__name__}: {self.error}"
        return HarnessFailure(f"the auditor cannot go on, because {self.what} failed at {at.name}:{at.lineno}: {said}")
