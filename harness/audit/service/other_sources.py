"""Sources that are asked now and then: committed offsets, transactions, and the reasons in the logs of brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harness.audit.feeds.broker_logs import BrokerLogs
from harness.audit.feeds.commits import CommitSeen, GroupNotRead, committed_offsets
from harness.audit.feeds.transactions import TransactionSeen, long_transactions
from harness.audit.look import CommitLook, LogStartReason, TransactionLook
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import HarnessFailure

LONG_MS: Final = 60_000  # transactions that are open for less are no matter
TopicId = Callable[[str], str | None]


class GroupSource:
    """The committed offsets of chosen groups. An offset that was there and is no more makes a row, too, at two polls:
    rules believe it when the second one shows it again."""

    covers: Final = "groups"
    every_s: Final = 5.0

    def __init__(self, brokers: Brokers, groups: Sequence[str], topic_id: TopicId = lambda _topic: None) -> None:
        self.topic_id = topic_id
        self._brokers = brokers
        self._groups = groups
        self._known: dict[str, tuple[set[tuple[str, int]], set[tuple[str, int]]]] = {}  # at the last two polls

    def poll(self) -> Iterator[CommitLook]:
        """Groups that were not read make no rows. HarnessFailure if none was."""
        _refresh(self._brokers)
        seen: dict[str, dict[tuple[str, int], int]] = {group: {} for group in self._groups}
        errors = {}
        for row in committed_offsets(self._brokers, self._groups):
            match row:
                case CommitSeen():
                    seen[row.group][row.topic, row.partition] = row.offset
                case GroupNotRead():
                    errors[row.group] = row.error
        if len(errors) == len(self._groups):
            raise HarnessFailure("; ".join(f"group {group}: {error}" for group, error in errors.items()))
        answered_ns = time.time_ns()
        for group in seen.keys() - errors.keys():
            yield from self._rows(group, seen[group], answered_ns)

    def close(self) -> None:
        self._brokers.close()

    def _rows(self, group: str, offsets: dict[tuple[str, int], int], answered_ns: int) -> Iterator[CommitLook]:
        last, before = self._known.get(group, (set(), set()))
        for topic, partition in sorted(offsets.keys() | last | before):
            yield CommitLook(
                group=group,
                topic=topic,
                topic_id=self.topic_id(topic) or "",
                partition=partition,
                answered_ns=answered_ns,
                **({"offset": offsets[topic, partition]} if (topic, partition) in offsets else {}),
            )
        self._known[group] = set(offsets), last


class TransactionSource:
    """Transactions that have been open for long, of every coordinator."""

    covers: Final = "transactions"
    every_s: Final = 10.0

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def poll(self) -> Iterator[TransactionLook]:
        """HarnessFailure if no coordinator answers; those that do not are asked again later."""
        _refresh(self._brokers)
        silent = []
        for broker in self._brokers.ids:
            try:
                found = [*long_transactions(self._brokers, broker, LONG_MS)]
            except Unanswered as why:
                silent.append(str(why))
                continue
            yield from map(_transaction, found)
        if len(silent) == len(self._brokers.ids):
            raise HarnessFailure("; ".join(silent) or "no broker is known")

    def close(self) -> None:
        self._brokers.close()


class LogSource:
    """Reasons for moved log starts, from the logs of brokers. A folder without any is no coverage: else a request of a
    client, which these logs would explain, would look like a loss."""

    covers: Final = "logs"
    every_s: Final = 1.0

    def __init__(self, logs: BrokerLogs) -> None:
        self._logs = logs

    def poll(self) -> Iterator[LogStartReason]:
        """HarnessFailure if the folder has no log."""
        yield from self._logs.poll()
        if not self._logs.files:
            raise HarnessFailure(f"{self._logs.name}: no file *.log is in it, or in a folder in it")

    def close(self) -> None:
        self._logs.close()


def _refresh(brokers: Brokers) -> None:
    """Learns the addresses of brokers. A coordinator may be one that is new."""
    try:
        brokers.refresh()
    except Unanswered:
        if not brokers.ids:
            raise


def _transaction(of: TransactionSeen) -> TransactionLook:
    return TransactionLook(
        transactional_id=of.transactional_id,
        producer_id=of.producer_id,
        producer_epoch=of.producer_epoch,
        state=of.state,
        timeout_ms=of.timeout_ms,
        started_ms=of.started_ms,
        answered_ns=time.time_ns(),
        places=of.partitions,
    )
