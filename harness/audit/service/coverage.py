"""Which sources an auditor has, and why it lacks the others: by its options, and by what the cluster allows it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Coverage:
    """The names of sources, as in `View.covers`.

    covered: they are there from the start. asked: they count from their first answer on. missing: why others are not
    there.
    """

    covered: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, source: str, missing: str | None = None) -> None:
        """A source that is there, or the reason why it is not."""
        if missing is None:
            self.covered.add(source)
        else:
            self.missing[source] = missing
