"""The high watermark of the metadata log, as brokers report it (DescribeQuorum), for a feed that reads a disk."""

from __future__ import annotations

from typing import Final

from harness.audit.feeds.directory_feed import CommittedEnd
from harness.audit.feeds.states import quorum_seen
from harness.kafka.admin.brokers import Brokers
from harness.kafka.admin.wire import Unanswered
from harness.model.errors import BadInput

_ASK_S: Final = 1.0
_CHECK_S: Final = 5.0
_FORBIDDEN: Final = "CLUSTER_AUTHORIZATION_FAILED"


class QuorumEnd:
    """Asks brokers, beginning with the one that answered last. Needs DESCRIBE on the cluster."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def __call__(self) -> CommittedEnd | None:
        """None if no broker reports it now."""
        try:
            seen = quorum_seen(self._brokers, _ASK_S)
        except Unanswered:
            return None
        return CommittedEnd(seen.high_watermark, seen.leader_epoch)

    def check(self) -> None:
        """BadInput if the brokers refuse to report it to this client. Other failures may pass."""
        try:
            quorum_seen(self._brokers, _CHECK_S)
        except Unanswered as refused:
            if _FORBIDDEN in str(refused):
                raise BadInput(
                    "--metadata-dir needs the high watermark of the quorum, and the brokers do not report it to this "
                    "client: give it DESCRIBE on the cluster"
                ) from None

    def close(self) -> None:
        self._brokers.close()
