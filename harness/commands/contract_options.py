"""The settings that `durability contract` asks for: of a producer, a consumer and a topic, each with its default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from harness.model.contract.configuration import ACKS, AS_RETENTION, COMMITS, ISOLATIONS, RESETS
from harness.model.contract.contract import DELETE_RETENTION_MS_DEFAULT, RETENTION_MS_DEFAULT
from harness.model.scenario.scenario import RETRIES_MAX

F = TypeVar("F", bound=Callable[..., Any])
POLICIES: Final = ("delete", "compact", "compact,delete")
TIMES: Final = ("CreateTime", "LogAppendTime")


class _Reset(click.Choice[str]):
    """Kafka's words; and the one by which librdkafka, and so every scenario, calls `none`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).startswith("by_duration:"):
            self.fail(
                f"no rule speaks of {value} (KIP-1106): what it does lies between earliest and latest", param, ctx
            )
        return super().convert("none" if value == "error" else value, param, ctx)


_PRODUCER: Final = (
    click.option("--acks", type=click.Choice(ACKS), default="all", show_default=True, help="Of the producer."),
    click.option(
        "--idempotent/--no-idempotent",
        default=None,
        help="enable.idempotence. Default: it is, unless --acks or --retries exclude it.",
    ),
    click.option(
        "--retries", type=int, default=RETRIES_MAX, help=f"Of the producer. Default: without end ({RETRIES_MAX})."
    ),
    click.option("--in-flight", type=int, default=5, show_default=True, help="max.in.flight.requests.per.connection."),
    click.option("--transactional", is_flag=True, help="The producer writes in transactions. Default: it does not."),
    click.option(
        "--transaction-version",
        type=click.IntRange(0, 2),
        default=2,
        show_default=True,
        help="Of transactions (KIP-890). Kafka's own: 2 in clusters formatted by 4.0 or later, 0 before; with "
        "--bootstrap the cluster's.",
    ),
    click.option(
        "--id-outlives",
        is_flag=True,
        help="transactional.id.expiration.ms is above the longest pause. Default: it is not; Kafka's own is 7 days.",
    ),
    click.option(
        "--remembered",
        is_flag=True,
        help="producer.id.expiration.ms is above delivery.timeout.ms. Default: it is not; Kafka's own are.",
    ),
    click.option(
        "--patient",
        is_flag=True,
        help="delivery.timeout.ms is above the longest failover. Default: it is not; Kafka's own is two minutes.",
    ),
)
_CONSUMER: Final = (
    click.option(
        "--isolation",
        type=click.Choice(ISOLATIONS),
        default="read_committed",
        show_default=True,
        help="Of the consumer. Kafka's own: read_uncommitted.",
    ),
    click.option(
        "--commits",
        type=click.Choice(COMMITS),
        default="after",
        show_default=True,
        help="When the consumer commits what it was given. Kafka's own: auto.",
    ),
    click.option("--reset", type=_Reset(RESETS), default="latest", show_default=True, help="auto.offset.reset."),
    click.option(
        "--stays", is_flag=True, help="Somebody is in the consumer's group all the while. Default: it is left at times."
    ),
    click.option(
        "--within-lag",
        is_flag=True,
        help="Whoever reads does so within --min-compaction-lag-ms. Default: some come later.",
    ),
)
_TOPIC: Final = (
    click.option(
        "--rf",
        "replicas",
        type=int,
        default=3,
        show_default=True,
        help="Replication factor. Kafka's own (default.replication.factor): 1.",
    ),
    click.option("--min-isr", type=int, default=1, show_default=True, help="min.insync.replicas."),
    click.option("--unclean", is_flag=True, help="unclean.leader.election.enable=true. Default: false."),
    click.option(
        "--elr",
        is_flag=True,
        help="eligible.leader.replicas.version=1 (KIP-966). Default: 0; Kafka's own: 1 in clusters formatted by 4.1 or "
        "later, 0 in others.",
    ),
    click.option("--flush-messages", type=int, default=-1, help="Default: -1, when the system likes."),
    click.option("--flush-ms", type=int, default=None, help="Default: as --flush-scheduler-ms. -1: never."),
    click.option(
        "--flush-scheduler-ms",
        type=int,
        default=-1,
        help="log.flush.scheduler.interval.ms: so often brokers look whether --flush-ms is over. Default: -1, never.",
    ),
    click.option(
        "--cleanup-policy", type=click.Choice(POLICIES), default="delete", show_default=True, help="Of the topic."
    ),
    click.option("--compacted", is_flag=True, help="As --cleanup-policy compact."),
    click.option(
        "--retention-ms", type=int, default=RETENTION_MS_DEFAULT, show_default=True, help="-1: no limit by age."
    ),
    click.option("--retention-bytes", type=int, default=-1, show_default=True, help="-1: no limit by size."),
    click.option("--tiered", is_flag=True, help="remote.storage.enable=true (KIP-405). Default: false."),
    click.option("--local-retention-ms", type=int, default=AS_RETENTION, help="Default: -2, as --retention-ms."),
    click.option("--local-retention-bytes", type=int, default=AS_RETENTION, help="Default: -2, as --retention-bytes."),
    click.option(
        "--delete-retention-ms",
        type=int,
        default=DELETE_RETENTION_MS_DEFAULT,
        show_default=True,
        help="For so long a compacted topic keeps tombstones.",
    ),
    click.option(
        "--min-compaction-lag-ms",
        type=int,
        default=0,
        show_default=True,
        help="For so long a compacted topic keeps what was written again.",
    ),
    click.option(
        "--timestamp-type",
        type=click.Choice(TIMES),
        default="CreateTime",
        show_default=True,
        help="message.timestamp.type.",
    ),
)


def settings_options(command: F) -> F:
    """Adds them all."""
    for option in reversed((*_PRODUCER, *_CONSUMER, *_TOPIC)):
        command = option(command)
    return command
