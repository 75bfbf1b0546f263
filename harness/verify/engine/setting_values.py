"""Values of settings, as two sides may write them."""

from __future__ import annotations


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
