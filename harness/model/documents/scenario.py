"""scenario.json: what the judge reads of the scenario as it ran. The document has everything that its TOML says."""

from __future__ import annotations

from typing import Annotated

from harness.model.documents.record import Acks, Record, meaning
from harness.model.documents.run import Floors


class PlannedTransactions(Record, frozen=True, kw_only=True):
    """The transactions of a producer."""

    offsets_of: Annotated[str | None, meaning("a group with offsets in some of the transactions")] = None
    abort_share: Annotated[int | float | None, meaning("the share of transactions that the producer aborts")] = None


class PlannedProcessing(Record, frozen=True, kw_only=True):
    """The input of a producer that makes its records of others."""

    group: Annotated[str, meaning("the group in which it reads")]


class PlannedProducer(Record, frozen=True, kw_only=True):
    """One producer of the load."""

    name: Annotated[str, meaning("its name")]
    topics: Annotated[tuple[str, ...], meaning("the topics that it writes to")]
    acks: Annotated[Acks | None, meaning("as in `reservations`; not judged")] = None
    idempotent: Annotated[bool | None, meaning("not judged")] = None
    when: Annotated[str | None, meaning("`always` = during the whole load")] = None
    client: Annotated[str | None, meaning("its client; `kafka-streams` writes only what it reads")] = None
    transactions: Annotated[PlannedTransactions | None, meaning("its transactions; null = none")] = None
    processes: Annotated[PlannedProcessing | None, meaning("its input; null = none")] = None
    config: Annotated[dict[str, str] | None, meaning("settings of its client; null = none")] = None


class PlannedReader(Record, frozen=True, kw_only=True):
    """One live reader of the load."""

    name: Annotated[str, meaning("its name")]
    topics: Annotated[tuple[str, ...] | None, meaning("the topics that it reads")] = None
    group: Annotated[str | None, meaning("its group; null = it assigns partitions itself")] = None
    protocol: Annotated[str | None, meaning("of its group: `classic`, `consumer` or `share`")] = None
    isolation: Annotated[str | None, meaning("as in `observations`")] = None
    client: Annotated[str | None, meaning("its client; `java` = the release's own")] = None


class PlannedTopic(Record, frozen=True, kw_only=True):
    """One topic of the load."""

    name: Annotated[str, meaning("its name")]
    config: Annotated[dict[str, str] | None, meaning("the settings with which it is created, as Kafka writes them")] = (
        None
    )


class PlannedAdmin(Record, frozen=True, kw_only=True):
    """One admin of the load."""

    name: Annotated[str, meaning("its name")]
    floors: Annotated[Floors | None, meaning("with fewer acknowledged operations the run proved nothing")] = None


class PlannedShape(Record, frozen=True, kw_only=True):
    """The cluster."""

    brokers: Annotated[int | None, meaning("how many brokers it has, with ids from 1 on")] = None
    secure: Annotated[bool | None, meaning("true: clients use TLS, and `secured` of run.json has to prove it")] = None
    starts_on: Annotated[str | None, meaning("the release that runs until a step upgrades it")] = None


class PlayedScenario(Record, frozen=True, kw_only=True):
    """The whole document, as far as it is judged."""

    name: Annotated[str | None, meaning("name of the scenario")] = None
    topics: Annotated[tuple[PlannedTopic, ...] | None, meaning("the topics")] = None
    producers: Annotated[tuple[PlannedProducer, ...] | None, meaning("the producers")] = None
    readers: Annotated[tuple[PlannedReader, ...] | None, meaning("the live readers")] = None
    admin: Annotated[tuple[PlannedAdmin, ...] | None, meaning("the admins")] = None
    shape: Annotated[PlannedShape | None, meaning("the cluster")] = None
    steps: Annotated[
        tuple[dict[str, Annotated[object, meaning("not judged")]], ...] | None,
        meaning("the steps; steps.json must have as many"),
    ] = None
