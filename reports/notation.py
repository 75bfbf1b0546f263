"""One notation of partitions in all reports: "plain-0", as Kafka's own logs and tools have it.

Scenarios, steps and verdict.json write "plain/0", because names of topics may have hyphens.
"""

from __future__ import annotations

import re
from typing import Final

# The name of a topic begins with a letter or "_" here: "31/198 ms" is no partition, and neither is a part of a path.
_PARTITION: Final = re.compile(r"(?<![\w./:-])([A-Za-z_][\w.-]*)/(\d+)(?![\w/-]|\.\d)", re.ASCII)


def kafka_notation(text: str) -> str:
    """A sentence of a verdict with "topic-partition" in place of "topic/partition". Not for commands and paths."""
    return _PARTITION.sub(r"\1-\2", text)
