"""The brokers of a user's cluster, found through bootstrap addresses, with one connection to each. For long processes.

A broker that does not answer is a result (Unanswered). Its address is learnt again by `refresh`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.api_message import ApiMessage

from harness.kafka.admin.link import Address, Link, Reusable
from harness.kafka.admin.security import PLAINTEXT, Security
from harness.kafka.admin.wire import ANSWER_S, Call, Refused, Unanswered, call, error_name

_TRY_S: Final = 1.0  # the least time for each of several nodes, any of which may answer


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The cluster as one broker knows it. Brokers that are fenced are not in it."""

    cluster_id: str
    brokers: Mapping[int, Address]


class Brokers:
    """Thread-safe, except for `refresh`, which one thread calls."""

    def __init__(self, bootstrap: Sequence[Address], security: Security = PLAINTEXT) -> None:
        self._security = security
        self._bootstrap = tuple(Link(address, security) for address in bootstrap)
        self._links: Mapping[int, Link] = {}
        self._good: Link | None = None  # the one that answered last

    @property
    def ids(self) -> tuple[int, ...]:
        """Every broker that a `refresh` has seen. Those that are down stay among them."""
        return tuple(sorted(self._links))

    @property
    def received_bytes(self) -> int:
        """All bytes of answers of the known brokers so far."""
        return sum(link.received_bytes for link in self._links.values())

    def refresh(self, timeout_s: float = ANSWER_S) -> ClusterSeen:
        """Reads the cluster's id and the addresses of its brokers. Unanswered when no node answers."""
        answer = self.ask_any(call(DescribeClusterRequest, include_cluster_authorized_operations=False), timeout_s)
        if error := error_name(answer.error_code):
            raise Unanswered(f"a broker describes no cluster: {error}")
        seen = ClusterSeen(answer.cluster_id, {b.broker_id: (b.host, b.port) for b in answer.brokers})
        links = dict(self._links)
        for broker, address in seen.brokers.items():
            known = links.get(broker)
            if known is None or known.address != address:
                if known is not None:
                    known.close()
                links[broker] = Link(address, self._security)
        self._links = links
        return seen

    def link(self, broker: int) -> Link:
        """The connection to a broker. Unanswered if no broker of that id was ever seen."""
        found = self._links.get(broker)
        if found is None:
            raise Unanswered(f"broker {broker} is not in the cluster's list of brokers")
        return found

    def ask(self, broker: int, question: Call | Reusable, timeout_s: float = ANSWER_S) -> ApiMessage:
        """One broker's answer; Unanswered without one."""
        return self.link(broker).ask(question, timeout_s)

    def ask_any(self, question: Call | Reusable, timeout_s: float = ANSWER_S) -> ApiMessage:
        """The answer of the first node that gives one, the last good one first. Unanswered, by node, if none does."""
        give_up_at = time.monotonic() + timeout_s
        reasons: list[str] = []
        first = () if self._good is None else (self._good,)
        links = tuple(dict.fromkeys((*first, *self._links.values(), *self._bootstrap)))
        for tried, link in enumerate(links):
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                break
            try:
                answer = link.ask(question, min(left_s, max(_TRY_S, left_s / (len(links) - tried))))
            except Refused:
                raise
            except Unanswered as silent:
                reasons.append(str(silent))
                continue
            self._good = link
            return answer
        raise Unanswered("; ".join(reasons) or "no node was asked in time")

    def close(self) -> None:
        for link in (*self._links.values(), *self._bootstrap):
            link.close()
