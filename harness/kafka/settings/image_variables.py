"""Settings as variables of a container, as images of brokers take them: KAFKA_LOG_DIRS for log.dirs.

A dot becomes `_`, an underscore `__` and a hyphen `___`, all in capitals. Not every name comes back as it went: what
reads the variables there is imitated, and a name that would arrive as another has no variable.
"""

from __future__ import annotations

import re
from typing import Final

PREFIX: Final = "KAFKA_"
_WRITTEN: Final = str.maketrans({".": "_", "_": "__", "-": "___"})
# For the JVM and for logging: they are no settings, whoever reads them.
_NO_SETTINGS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("VERSION", "HEAP_OPTS", "LOG4J_OPTS", "OPTS", "JMX_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS"),
        *("LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL", "JMX_HOSTNAME", "JMX_PORT", "DATA_DIRS"),
    )
)


def variable_of(setting: str) -> str | None:
    """The variable by which a setting arrives under its own name with every reader; None where there is none."""
    variable = f"{PREFIX}{setting.translate(_WRITTEN).upper()}"
    return variable if setting == setting_of(variable) else None


def setting_of(variable: str) -> str | None:
    """The setting that a variable gives; None for one that gives none, or that two readers take for different ones."""
    if not variable.startswith(PREFIX) or variable in _NO_SETTINGS:
        return None
    name = variable.removeprefix(PREFIX)
    by_turns = name.replace("_", ".").replace("...", "-").replace("..", "_").lower()
    # Underscores with one letter between them: the letter belongs to the first match, and the second stays as it is.
    by_pairs = re.sub("[^_]_[^_]", lambda match: match[0].replace("_", "."), name)
    by_pairs = by_pairs.replace("___", "-").replace("__", "_").lower()
    return by_turns if by_turns == by_pairs else None
