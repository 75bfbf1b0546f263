"""A partition of a topic."""

from __future__ import annotations

Place = tuple[str, int]  # topic, partition
