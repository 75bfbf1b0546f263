"""Finds the active controller among given addresses, and follows it when it changes.

The given addresses come first, because a user reaches them; the address that a controller names for the leader may be
one that only other nodes can resolve. It is tried when none of the given ones is the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka.protocol.api_message import ApiMessage

from harness.audit.feeds.feed import FeedSilent
from harness.kafka.admin.link import Address, Link
from harness.kafka.admin.metadata_fetch import Leader
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Call, Refused, Unanswered

_TIMEOUT_S_MIN: Final = 0.3  # a shorter one would end good connections
_PAUSE_S_MIN: Final = 0.02  # between two rounds to all addresses
_PAUSE_S_MAX: Final = 0.2
# Errors of a node that is in another epoch than the request, in which it names its own.
_OTHER_EPOCH: Final = frozenset({"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"})
_NOT_LEADER: Final = "NOT_LEADER_OR_FOLLOWER"
_REMEDIES: Final = {
    "CLUSTER_AUTHORIZATION_FAILED": "this client needs CLUSTER_ACTION on the cluster",
    "UNKNOWN_TOPIC_ID": "a broker does not serve the metadata log; give the addresses of controllers",
}


class TryAgain(Exception):  # noqa: N818 - it leads to the next question and reaches no caller of a feed
    """The answer is of no use. The next question may go to another node, after a pause."""

    def __init__(self, pause_s: float = 0.0) -> None:
        super().__init__()
        self.pause_s = pause_s


class ControllerQuorum:
    """Asks the node that leads, as far as known."""

    def __init__(self, given: Sequence[Address], security: Security) -> None:
        self.closed = False
        self.answered = False  # by a leader, since the caller set this to False
        self._given = tuple(given)
        self._security = security
        self._links: dict[Address, Link] = {}
        self._epochs: dict[Address, int] = {}  # of each node, as it said last
        self._turn = 0  # of the given addresses: the one that led, or that was asked first
        self._tries = 0  # since the last answer of a leader
        self._named: Address | None = None  # where the leader is, according to other nodes
        self._refusals: dict[str, str] = {}  # of logins and certificates, by node, until it answers
        self._reasons: dict[str, str] = {}  # why nodes gave no useful answer since the last one of a leader

    @property
    def epoch(self) -> int:
        """The leader epoch for the next question. Each node has its own, because one that is cut off may be ahead or
        behind. Where it is not known, the answer names it."""
        return self._epochs.get(self._link().address, max(self._epochs.values(), default=0))

    def ask(self, question: Call, timeout_s: float) -> ApiMessage:
        """The answer of the node that is taken for the leader. TryAgain without one."""
        link = self._link()
        try:
            return link.ask(question, max(timeout_s, _TIMEOUT_S_MIN))
        except Unanswered as silent:
            reason = str(silent).removeprefix(f"{link.name}: ")
            if isinstance(silent, Refused):
                self._refusals[link.name] = reason
            # The last attempt of a poll has little time, and the end of that time explains less than a refusal.
            raise self._failed(self._refusals.get(link.name, reason)) from silent

    def check(self, error: str | None, leader: Leader) -> None:
        """Raises TryAgain unless the answer to the last question is one of a leader. `leader`: as it names it."""
        address = self._link().address
        self._refusals.pop(self._link().name, None)
        if error is None:
            self._succeeded(address)
            return
        if error in _OTHER_EPOCH and leader.epoch != self.epoch:
            self._epochs[address] = leader.epoch
            raise TryAgain  # it may be the leader
        if error == _NOT_LEADER:
            self._named = leader.address
            if leader.node < 0:
                error = f"it knows no leader of the controllers in epoch {leader.epoch}"
        remedy = _REMEDIES.get(error)
        raise self._failed(error if remedy is None else f"{error}: {remedy}")

    def unusable(self, reason: str) -> TryAgain:
        """Notes why the answer of a leader is of no use, and goes on to the next node. Returns what to raise."""
        self.answered = False
        return self._failed(reason)

    def move_on(self) -> None:
        """Asks another node next. A leader that was cut off may not know yet that there is another one."""
        self._tries += 1

    def raise_if_silent(self, feed: str) -> None:
        """FeedSilent, with the reason of each node, if no leader has answered."""
        if self.closed:
            raise FeedSilent(f"{feed}: it was closed")
        if self._reasons and not self.answered:
            raise FeedSilent(f"{feed}: {'; '.join(f'{name}: {why}' for name, why in self._reasons.items())}")

    def close(self) -> None:
        self.closed = True
        for link in tuple(self._links.values()):
            link.close()

    def _failed(self, reason: str) -> TryAgain:
        self._reasons[self._link().name] = reason
        self.move_on()
        rounds, left = divmod(self._tries, self._candidates())
        return TryAgain(0.0 if left else min(_PAUSE_S_MIN * 2 ** min(rounds, 8), _PAUSE_S_MAX))

    def _succeeded(self, address: Address) -> None:
        if address in self._given:
            self._turn, self._tries = self._given.index(address), 0
        else:
            self._tries = len(self._given)  # stays at the named address
        self._reasons.clear()
        self.answered = True

    def _candidates(self) -> int:
        return len(self._given) + (self._named is not None)

    def _link(self) -> Link:
        """The node to ask next: all given ones in turn, then the named one."""
        turn = self._tries % self._candidates()
        if turn == len(self._given) and self._named is not None:
            address = self._named
        else:
            address = self._given[(self._turn + turn) % len(self._given)]
        if address not in self._links:
            self._links[address] = Link(address, self._security)
        return self._links[address]
