"""UUIDs as Kafka writes them: 22 characters of URL-safe base64."""

from __future__ import annotations

import base64
import uuid


def kafka_uuid(value: uuid.UUID) -> str:
    """A topic id or directory id as Kafka's tools and files write it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_of(text: str) -> uuid.UUID:
    """The UUID in a text of `kafka_uuid`. ValueError when the text is not one."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def new_uuid() -> str:
    """A random UUID that does not begin with a dash, because Kafka's tools would take that for an option."""
    while True:
        text = kafka_uuid(uuid.uuid4())
        if not text.startswith("-"):
            return text
