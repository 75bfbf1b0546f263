"""Imports of kafka-python's messages without its clients, for a process that lives long in little memory."""

from __future__ import annotations

import importlib.util
import sys


def import_messages_only() -> None:
    """Makes `import kafka.protocol` leave out the package's own `__init__`, which imports every client of it.

    They would take 7 MiB. It has an effect only before the first import of kafka-python.
    """
    found = importlib.util.find_spec("kafka")
    if found is not None and "kafka" not in sys.modules:
        sys.modules["kafka"] = importlib.util.module_from_spec(found)
