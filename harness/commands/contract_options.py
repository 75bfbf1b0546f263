"""The options of `durability contract`: settings of a producer, a consumer and a topic, each with its default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypedDict

import click

from harness.model.contract.configuration import ACKS, AS_RETENTION, COMMITS, ISOLATIONS, RESETS
from harness.model.contract.kafka_defaults import DELETE_RETENTION_MS_DEFAULT, RETENTION_MS_DEFAULT
from harness.model.exits import Exit
from harness.model.scenario.scenario import RETRIES_MAX

Command = Callable[..., Exit]
POLICIES: Final = ("delete", "compact", "compact,delete")
TIMES: Final = ("CreateTime", "LogAppendTime")


class Given(TypedDict):
    """The options by name, as far as rules between them read them."""

    acks: str
    idempotent: bool | None
    retries: int
    in_flight: int
    transactional: bool
    commits: str
    cleanup_policy: str
    compacted: bool
    retention_ms: int
    retention_bytes: int
    local_retention_ms: int
    local_retention_bytes: int
    min_compaction_lag_ms: int
    tiered: bool
    flush_ms: int | None
    flush_scheduler_ms: int
    timestamp_type: str
    bootstrap: str | None
    topic: tuple[str, ...]
    command_config: Path | None


class _Reset(click.Choice[str]):
    """Kafka's values of auto.offset.reset, and librdkafka's `error`, which means `none`."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith("by_duration:"):
            self.fail(
                f"{value} (KIP-1106) has no rule; ask for earliest and for latest: its result lies between", param, ctx
            )
        return super().convert("none" if value == "error" else value, param, ctx)


_PRODUCER: Final = (
    click.option("--acks", type=click.Choice(ACKS), default="all", show_default=True, help="acks of the producer."),
    click.option(
        "--idempotent/--no-idempotent",
        default=None,
        help="enable.idempotence. Default: true, unless --acks or --retries exclude it.",
    ),
    click.option("--retries", type=int, default=RETRIES_MAX, help=f"retries of the producer. Default: {RETRIES_MAX}."),
    click.option("--in-flight", type=int, default=5, show_default=True, help="max.in.flight.requests.per.connection."),
    click.option("--transactional", is_flag=True, help="The producer writes in transactions. Default: it does not."),
    click.option(
        "--transaction-version",
        type=click.IntRange(0, 2),
        default=2,
        show_default=True,
        help="transaction.version (KIP-890). Kafka's default: 2 in clusters formatted by 4.0 or later, else 0. With "
        "--bootstrap: the value of the cluster.",
    ),
    click.option(
        "--long-transactional-id-expiration",
        is_flag=True,
        help="transactional.id.expiration.ms is longer than the longest pause of the producer. Default: it is shorter; "
        "Kafka's default is 7 days.",
    ),
    click.option(
        "--long-transaction-timeout",
        is_flag=True,
        help="transaction.timeout.ms is longer than the longest transaction. Default: it is shorter; Kafka's default "
        "is 1 min.",
    ),
    click.option(
        "--long-producer-id-expiration",
        is_flag=True,
        help="producer.id.expiration.ms is longer than delivery.timeout.ms (Kafka's default). Default: it is shorter.",
    ),
    click.option(
        "--long-delivery-timeout",
        is_flag=True,
        help="delivery.timeout.ms is longer than the longest failover. Default: shorter; Kafka's default is 2 min.",
    ),
)
_CONSUMER: Final = (
    click.option(
        "--isolation",
        type=click.Choice(ISOLATIONS),
        default="read_committed",
        show_default=True,
        help="isolation.level of the consumer. Kafka's default: read_uncommitted.",
    ),
    click.option(
        "--commits",
        type=click.Choice(COMMITS),
        default="after",
        show_default=True,
        help="When the consumer commits: before or after it processes a record, automatically, in the transaction of "
        "its output, or as a share group. Kafka's default: auto.",
    ),
    click.option("--reset", type=_Reset(RESETS), default="latest", show_default=True, help="auto.offset.reset."),
    click.option(
        "--group-never-empty",
        is_flag=True,
        help="The consumer group always has a member. Default: it is empty at times.",
    ),
    click.option(
        "--reads-within-compaction-lag",
        is_flag=True,
        help="Every reader reads a record within min.compaction.lag.ms. Default: some read later.",
    ),
)
_TOPIC: Final = (
    click.option(
        "--rf",
        "replicas",
        type=int,
        default=3,
        show_default=True,
        help="Replication factor. Kafka's default (default.replication.factor): 1.",
    ),
    click.option("--min-isr", type=int, default=1, show_default=True, help="min.insync.replicas."),
    click.option("--unclean", is_flag=True, help="unclean.leader.election.enable=true. Default: false."),
    click.option(
        "--elr",
        is_flag=True,
        help="eligible.leader.replicas.version=1 (KIP-966). Default: 0. Kafka's default: 1 in clusters formatted by "
        "4.1 or later, else 0.",
    ),
    click.option(
        "--flush-messages", type=int, default=-1, help="flush.messages. Default: -1, the operating system decides."
    ),
    click.option(
        "--flush-ms", type=int, default=None, help="flush.ms. Default: the value of --flush-scheduler-ms. -1: never."
    ),
    click.option(
        "--flush-scheduler-ms",
        type=int,
        default=-1,
        help="log.flush.scheduler.interval.ms: how often brokers check --flush-ms. Default: -1, never.",
    ),
    click.option(
        "--cleanup-policy",
        type=click.Choice(POLICIES),
        default="delete",
        show_default=True,
        help="cleanup.policy of the topic.",
    ),
    click.option("--compacted", is_flag=True, help="Short for --cleanup-policy compact."),
    click.option(
        "--retention-ms",
        type=int,
        default=RETENTION_MS_DEFAULT,
        show_default=True,
        help="retention.ms. -1: no limit by age.",
    ),
    click.option(
        "--retention-bytes", type=int, default=-1, show_default=True, help="retention.bytes. -1: no limit by size."
    ),
    click.option("--tiered", is_flag=True, help="remote.storage.enable=true (KIP-405). Default: false."),
    click.option(
        "--local-retention-ms",
        type=int,
        default=AS_RETENTION,
        help="local.retention.ms. Default: -2, the value of --retention-ms.",
    ),
    click.option(
        "--local-retention-bytes",
        type=int,
        default=AS_RETENTION,
        help="local.retention.bytes. Default: -2, the value of --retention-bytes.",
    ),
    click.option(
        "--delete-retention-ms",
        type=int,
        default=DELETE_RETENTION_MS_DEFAULT,
        show_default=True,
        help="delete.retention.ms: how long a compacted topic keeps tombstones.",
    ),
    click.option(
        "--min-compaction-lag-ms",
        type=int,
        default=0,
        show_default=True,
        help="min.compaction.lag.ms: how long a compacted topic keeps superseded records.",
    ),
    click.option(
        "--timestamp-type",
        type=click.Choice(TIMES),
        default="CreateTime",
        show_default=True,
        help="message.timestamp.type.",
    ),
)


def settings_options(command: Command) -> Command:
    """Adds all of these options to a command."""
    for option in reversed((*_PRODUCER, *_CONSUMER, *_TOPIC)):
        command = option(command)
    return command
