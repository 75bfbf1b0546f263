"""The backends that run the brokers, by the names that users give."""

from __future__ import annotations

from typing import Final

PROCESSES: Final = "processes"
CONTAINERS: Final = "containers"
ATTACHED: Final = "attached"  # an existing cluster; --bootstrap chooses it
AUTO: Final = "auto"  # containers if the machine can run them
BACKENDS: Final = (AUTO, PROCESSES, CONTAINERS)
