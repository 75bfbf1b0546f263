"""Versions of Kafka: what is one, and the numbers by which they are compared."""

from __future__ import annotations

import re
from typing import Final

VERSION: Final = re.compile(r"\d+\.\d+\.\d+([.-][\w.-]+)?")
# Confluent's builds count for themselves: 7.9.1-ccs is of Kafka 3.9, 8.0.0-ce of Kafka 4.0.
_CONFLUENT: Final = re.compile(r"-(ccs|ce)\b")


def numbers_of(version: str) -> tuple[int, ...]:
    """As numbers of Apache Kafka, (4, 3, 1); what follows a dash does not count."""
    major, *rest = (int(part) for part in re.findall(r"\d+", version.split("-")[0]))
    return (major - 4 if _CONFLUENT.search(version) else major, *rest)
