"""Kafka's defaults of the settings that decide what is promised."""

from __future__ import annotations

from typing import Final

PRODUCER_EXPIRATION_MS_DEFAULT: Final = 24 * 3600 * 1000
OFFSETS_RETENTION_DEFAULT: Final = 7 * 24 * 60  # minutes
DELETE_RETENTION_MS_DEFAULT: Final = 24 * 3600 * 1000
# How often brokers write their log start offsets to disk.
START_CHECKPOINT_MS_DEFAULT: Final = 60_000
DELIVERY_LIMIT_DEFAULT: Final = 5
LOCK_MS_DEFAULT: Final = 30_000
RETENTION_MS_DEFAULT: Final = 7 * 24 * 3600 * 1000
SEGMENT_BYTES_DEFAULT: Final = 1 << 30
PRODUCER_CODEC: Final = "producer"  # of batches on disk: as they were sent
