"""The base of all typed objects in the documents of a bundle.

Each field has its meaning beside its type. The reader, FORMAT.md and the JSON Schemas follow from these classes. A
field with a default may be absent or null; keys without a field are ignored.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

TopicIdPartition = tuple[str, str, int]
Acks = Literal["all", "1", "0"]
Isolation = Literal["read_committed", "read_uncommitted"]


def meaning(text: str) -> Meta:
    """The meaning of a field, for FORMAT.md and the JSON Schema. The suffix of its name is its unit: `_ns`, `_ms`."""
    return Meta(description=text)


class Record(Struct, frozen=True, kw_only=True):
    """An object of a document. It is valid once it exists.

    if_said: fields that are not written while they are null or an empty list.
    """

    if_said: ClassVar[Collection[str]] = ()

    @property
    def written(self) -> Collection[str]:
        """The fields that are written."""
        unsaid = [name for name in self.if_said if getattr(self, name) in (None, ())]
        return [name for name in self.__struct_fields__ if name not in unsaid]


class OfPlace(Record, frozen=True, kw_only=True):
    """An object about one partition of whichever topic had the name."""

    topic: Annotated[str, meaning("name of the topic")]
    partition: Annotated[int, meaning("number of the partition")]


class OfPartition(OfPlace, frozen=True, kw_only=True):
    """An object about one partition of one topic."""

    topic_id: Annotated[str, meaning("the id that Kafka gave the topic")]

    @property
    def place(self) -> TopicIdPartition:
        """The partition, with the id of its topic."""
        return self.topic, self.topic_id, self.partition
