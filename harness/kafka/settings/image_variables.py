"""Settings as environment variables of a container, as images of brokers read them: KAFKA_LOG_DIRS for log.dirs.

A dot becomes `_`, an underscore `__` and a hyphen `___`, all in capitals. That is not reversible for every name. So the
code of the images is imitated, and a setting that they would read under another name has no variable.
"""

from __future__ import annotations

import re
from typing import Final

PREFIX: Final = "KAFKA_"
_WRITTEN: Final = str.maketrans({".": "_", "_": "__", "-": "___"})
# Variables for the JVM and for logging, which are not settings of Kafka.
_NO_SETTINGS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("VERSION", "HEAP_OPTS", "LOG4J_OPTS", "OPTS", "JMX_OPTS", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS"),
        *("LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL", "JMX_HOSTNAME", "JMX_PORT", "DATA_DIRS"),
    )
)


def variable_of(setting: str) -> str | None:
    """The variable that every image reads as this setting; None when there is none."""
    variable = f"{PREFIX}{setting.translate(_WRITTEN).upper()}"
    return variable if setting == setting_of(variable) else None


def setting_of(variable: str) -> str | None:
    """The setting of a variable; None when it is not one, or when images read it as different settings."""
    if not variable.startswith(PREFIX) or variable in _NO_SETTINGS:
        return None
    name = variable.removeprefix(PREFIX)
    by_turns = name.replace("_", ".").replace("...", "-").replace("..", "_").lower()
    # Where one letter stands between two underscores, it belongs to the first match, and the second stays unchanged.
    by_pairs = re.sub("[^_]_[^_]", lambda match: match[0].replace("_", "."), name)
    by_pairs = by_pairs.replace("___", "-").replace("__", "_").lower()
    return by_turns if by_turns == by_pairs else None
