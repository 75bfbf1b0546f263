"""The description of a result, as HTML. The evidence is foreign text, so every part of it is escaped."""

from __future__ import annotations

from html import escape
from pathlib import Path

from reports.review.content import Section
from reports.terminal import clean


def description(section: Section, evidence: Path) -> str:
    """The property of the scenario, its figures, missing parts of the evidence, and the folder of the evidence."""
    where = (section.bundle if section.bundle is not None else evidence).absolute()
    texts = (section.promise, *section.facts, *section.missing, f"Evidence: {where}")
    return "\n".join(f"<p>{escape(clean(text))}</p>" for text in texts if text)
