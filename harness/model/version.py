"""Versions of Kafka: their form, and their numbers for comparison."""

from __future__ import annotations

import re
from typing import Final

# In place of the version that a cluster starts on: the newest release of an earlier minor version than the one under
# test, such as 4.3.1 for 4.4.0.
PREVIOUS_MINOR: Final = "previous minor"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+([.-][\w.-]+)?")
# Confluent's builds have numbers of their own: 7.9.1-ccs is Kafka 3.9, 8.0.0-ce is Kafka 4.0.
_CONFLUENT: Final = re.compile(r"-(ccs|ce)\b")


def numbers_of(version: str) -> tuple[int, ...]:
    """The version of Apache Kafka as numbers, (4, 3, 1), without what follows a dash. Empty if it has none, as in
    evidence by hand that does not name its release."""
    numbers = [int(part) for part in re.findall(r"\d+", version.split("-")[0])]
    if not numbers:
        return ()
    major, *rest = numbers
    return (major - 4 if _CONFLUENT.search(version) else major, *rest)
