"""Values of settings, as two sides may write them, and those that brokers report."""

from __future__ import annotations

from harness.verify.engine.case import Case


def longest_ms(case: Case, key: str, default_ms: int) -> int:
    """The longest value of a time that any broker reported at any time; Kafka's default where none is known."""
    of_brokers = [settings for of in case.cluster.snapshots for settings in (of.broker_configs or {}).values()]
    values = [settings.get(key) or "" for settings in of_brokers]
    return max((int(value) for value in values if value.isdecimal()), default=default_ms)


def same_value(served: str | None, value: str | None) -> bool:
    """Brokers write a value as they understand it: 0.50 as 0.5, and lists without spaces."""
    if served is None or value is None:
        return served is value
    return _plain(served) == _plain(value)


def _plain(value: str) -> str:
    try:
        return repr(float(value))
    except ValueError:
        return ",".join(part.strip() for part in value.lower().split(","))
