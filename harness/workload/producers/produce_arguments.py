"""The arguments of one `produce` of confluent_kafka."""

from __future__ import annotations

from typing import Any  # Any: confluent_kafka takes the records of a batch as dicts, and adds the error of each

Record = dict[str, Any]  # `value`, `key` and `headers`; the client adds `_error` when it does not take the record
