"""What can run the brokers, by the names that users give."""

from __future__ import annotations

from typing import Final

PROCESSES: Final = "processes"
CONTAINERS: Final = "containers"
AUTO: Final = "auto"  # containers where they can be had
BACKENDS: Final = (AUTO, PROCESSES, CONTAINERS)
