"""The retention of a topic as numbers, and whether it may have deleted records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.audit.engine.view import View

UNLIMITED: Final = -1
POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_LONGER_UNITS: Final = {
    RETENTION_MS: (("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.hours", _HOUR_MS),),
}
KEYS: Final = (POLICY, RETENTION_MS, RETENTION_BYTES)


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits that delete records of a topic. A negative limit = without limit."""

    deletes: bool
    ms: int
    bytes: int

    @property
    def by_time(self) -> bool:
        return self.deletes and self.ms >= 0

    @property
    def by_size(self) -> bool:
        return self.deletes and self.bytes >= 0

    def __str__(self) -> str:
        if not self.deletes:
            return "cleanup.policy does not delete"
        return f"retention.ms={self.ms}, retention.bytes={self.bytes}"


def setting_of(topic: str, key: str, view: View) -> str | None:
    """The effective setting of a topic, or of a topic without settings of its own ("")."""
    value = view.setting(topic, key)
    return _of_longer_unit(key, view) if value is None else value


def _of_longer_unit(key: str, view: View, *, dynamic: bool = True) -> str | None:
    """Brokers have some times in longer units, too; the shortest unit that is set counts."""
    for name, unit_ms in _LONGER_UNITS.get(key, ()):
        number = whole(view.broker_setting(name, dynamic=dynamic))
        if number is not None:
            return str(number * unit_ms if number >= 0 else UNLIMITED)
    return None


def broker_default(name: str, key: str, view: View) -> str | None:
    """The value that brokers have in their files for a setting of topics."""
    value = view.broker_setting(name, dynamic=False)
    return _of_longer_unit(key, view, dynamic=False) if value is None else value


def retention_from(policy: str | None, ms: str | None, size: str | None) -> Retention | None:
    limits = whole(ms), whole(size)
    if policy is None or limits[0] is None or limits[1] is None:
        return None
    return Retention("delete" in policy, limits[0], limits[1])


def has_partitions(topic: str, view: View) -> bool:
    """Whether a topic exists and its creation is over: the settings of a new topic come before its partitions."""
    topic_id = view.topic_id(topic)
    return topic_id is not None and view.partition(topic_id, 0) is not None


def whole(text: str | None) -> int | None:
    """The number of a setting; None if it is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
