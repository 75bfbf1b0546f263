"""The feed from controllers: which node it asks, what it holds back, and what it says when records were deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from harness.audit.engine.follower import POLL_S
from harness.audit.feeds import controller_feed, controller_quorum
from harness.audit.feeds.controller_feed import ControllerFeed
from harness.audit.feeds.feed import FeedSilent, Portion, Position
from harness.kafka.admin.link import Address
from harness.kafka.admin.wire import Refused, Unanswered
from suites.unit.audit.feeds.controllers import Quorum
from suites.unit.audit.feeds.logs import names, snapshot, topics

A, B, C = ("a", 1), ("b", 2), ("c", 3)
ELSEWHERE = ("kafka-4", 4)
SHORT_S = 0.2  # where nothing comes
LONG_S = 10.0
Follow = Callable[..., ControllerFeed]


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    """Three controllers, of which the first leads."""
    made = Quorum(A)
    monkeypatch.setattr(controller_quorum, "Link", made.link)
    return made


@pytest.fixture
def follow(quorum: Quorum) -> Iterator[Follow]:
    feeds: list[ControllerFeed] = []

    def started(resume: Position | None = None, given: tuple[Address, ...] = (A, B, C)) -> ControllerFeed:
        feeds.append(ControllerFeed(given, resume=resume))
        return feeds[-1]

    yield started
    for feed in feeds:
        feed.close()


def delivered(portion: Portion | None) -> list[str]:
    assert portion is not None
    return names(entry for batch in portion.batches for entry in batch.entries)


def polled(feed: ControllerFeed) -> list[str]:
    return delivered(feed.poll(LONG_S))


# Only committed records


def test_it_is_cut_at_the_high_watermark_and_asks_again_from_there(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a", "b"))
    quorum.append(2, topics(2, "c"))
    quorum.high_watermark = 2
    feed = follow()
    portion = feed.poll(LONG_S)
    assert delivered(portion) == ["a", "b"]
    assert portion is not None
    assert (portion.snapshot, portion.next_offset, portion.high_watermark, portion.missed) == (None, 2, 2, None)
    assert portion.position == Position(2, 1)
    assert feed.poll(SHORT_S) is None
    quorum.high_watermark = 3
    assert polled(feed) == ["c"]
    assert {place for _, place in quorum.asked} == {"0", "2"}


def test_a_new_leader_may_replace_what_was_not_committed(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.append(1, topics(1, "never"))
    quorum.high_watermark = 1
    feed = follow()
    assert polled(feed) == ["a"]
    assert feed.poll(SHORT_S) is None
    quorum.leader, quorum.epoch, quorum.high_watermark = B, 2, 2
    quorum.log = topics(0, "a") + topics(1, "b", epoch=2)
    assert polled(feed) == ["b"]


def test_a_large_answer_is_delivered_in_parts(quorum: Quorum, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_feed, "PORTION_BYTES", 2 * len(topics(0, "0")) + 10)
    for number in range(5):
        quorum.append(number, topics(number, str(number)))
    quorum.high_watermark = 5
    feed = follow()
    assert [polled(feed) for _ in range(3)] == [["0", "1"], ["2", "3"], ["4"]]
    assert [place for _, place in quorum.asked] == ["0", "0"]  # the first one found the epoch
    quorum.append(5, topics(5, *"abcdefghijklmnopqrstuvwxyz"))  # larger than a portion
    quorum.high_watermark = 31
    assert polled(feed) == [*"abcdefghijklmnopqrstuvwxyz"]


def test_a_batch_that_did_not_fit_into_an_answer_is_fetched_again(quorum: Quorum, follow: Follow) -> None:
    whole = topics(1, "b")
    quorum.append(0, topics(0, "a"))
    quorum.append(1, whole[:-1])
    quorum.high_watermark = 2
    feed = follow()
    assert polled(feed) == ["a"]
    assert feed.poll(SHORT_S) is None
    quorum.log += whole[-1:]
    assert polled(feed) == ["b"]


def test_damaged_records_are_never_delivered(quorum: Quorum, follow: Follow) -> None:
    damaged = bytearray(topics(1, "b"))
    damaged[-1] ^= 1
    quorum.append(0, topics(0, "a"))
    quorum.append(1, bytes(damaged))
    quorum.append(2, topics(2, "c"))
    quorum.high_watermark = 3
    feed = follow()
    assert polled(feed) == ["a"]
    with pytest.raises(FeedSilent, match="its records cannot be used: the checksum is wrong"):
        feed.poll(SHORT_S)


# Which node it asks


def test_it_finds_the_leader_among_the_given_nodes(quorum: Quorum, follow: Follow) -> None:
    quorum.leader, quorum.epoch, quorum.high_watermark, quorum.endpoint = C, 7, 1, ELSEWHERE
    quorum.append(0, topics(0, "a"))
    feed = follow()
    assert polled(feed) == ["a"]
    assert [node for node, _ in quorum.asked] == [A, A, B, C]
    quorum.append(1, topics(1, "b"))
    quorum.high_watermark = 2
    assert polled(feed) == ["b"]
    assert [node for node, _ in quorum.asked[4:]] == [C]


def test_a_leader_that_was_not_given_is_learnt(quorum: Quorum, follow: Follow) -> None:
    quorum.leader = quorum.endpoint = ELSEWHERE
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark = 1
    feed = follow(None, (A, B))
    assert polled(feed) == ["a"]
    assert [node for node, _ in quorum.asked] == [A, A, B, ELSEWHERE]
    quorum.append(1, topics(1, "b"))
    quorum.high_watermark = 2
    assert polled(feed) == ["b"]
    assert [node for node, _ in quorum.asked[4:]] == [ELSEWHERE]


def test_it_follows_the_leadership_when_the_leader_dies(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark = 1
    feed = follow()
    assert polled(feed) == ["a"]
    quorum.down, quorum.leader = {A}, None
    with pytest.raises(
        FeedSilent, match=r"a:1: Connection refused; b:2: it knows no leader.*; c:3: it knows no leader"
    ):
        feed.poll(SHORT_S)
    quorum.epoch = 2
    with pytest.raises(FeedSilent, match=r"b:2: it knows no leader of the controllers in epoch 2"):
        feed.poll(SHORT_S)
    quorum.leader, quorum.epoch, quorum.high_watermark = C, 3, 2
    quorum.append(1, topics(1, "b", epoch=3))
    assert polled(feed) == ["b"]


def test_a_node_that_knows_only_an_earlier_leader_is_passed_over(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark, quorum.epoch, quorum.leader, quorum.epochs = 1, 5, B, {A: 4}
    feed = follow()
    assert polled(feed) == ["a"]


def test_a_node_that_is_cut_off_in_a_later_epoch_keeps_nobody_from_the_leader(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark, quorum.leader, quorum.epochs = 1, B, {C: 9}
    assert polled(follow(None, (C, A, B))) == ["a"]


def test_a_leader_that_does_not_know_of_its_successor_is_left(
    quorum: Quorum, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_feed, "_QUIET_S", 0.05)
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark, quorum.stale_leaders = 1, {A}
    feed = follow()
    assert polled(feed) == ["a"]
    quorum.leader, quorum.epoch, quorum.high_watermark, quorum.epochs = B, 2, 2, {A: 1}
    quorum.append(1, topics(1, "b", epoch=2))
    assert delivered(feed.poll(LONG_S)) == ["b"]


def test_a_quiet_leader_is_no_silence(quorum: Quorum, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_feed, "_QUIET_S", 0.05)
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark, quorum.down = 1, {C}
    feed = follow()
    assert polled(feed) == ["a"]
    quorum.after = lambda: time.sleep(0.01)  # in place of the wait for records
    assert [feed.poll(1.0) for _ in range(2)] == [None] * 2
    assert {node for node, _ in quorum.asked} == {A, B, C}


def test_one_question_waits_for_the_next_heartbeat_of_the_controllers(quorum: Quorum, follow: Follow) -> None:
    """They write a NoOp record every 500 ms. More questions than that cost processor time for nothing."""
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark = 1
    feed = follow()
    assert delivered(feed.poll(POLL_S)) == ["a"]
    quorum.waits_ms.clear()
    quorum.after = lambda: time.sleep(0.5)
    quorum.append(1, topics(1, "b"))
    quorum.high_watermark = 2
    assert delivered(feed.poll(POLL_S)) == ["b"]
    assert [wait_ms > 500 for wait_ms in quorum.waits_ms] == [True]


def test_a_question_ends_in_time_for_the_poll(quorum: Quorum, follow: Follow) -> None:
    quorum.after = lambda: time.sleep(quorum.waits_ms[-1] / 1000)
    feed = follow()
    begun_s = time.monotonic()
    assert feed.poll(POLL_S) is None
    assert time.monotonic() - begun_s < POLL_S + 0.1
    assert quorum.waits_ms[0] > 500


def test_a_quorum_of_an_earlier_epoch_may_be_another_one(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark = 1
    with pytest.raises(FeedSilent, match="leads in epoch 1, and a record of epoch 7 was committed before"):
        follow(Position(1, 7)).poll(SHORT_S)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED", "this client needs CLUSTER_ACTION on the cluster"),
        ("UNKNOWN_TOPIC_ID", "give the addresses of controllers"),
        ("INVALID_REQUEST", "a:1: INVALID_REQUEST;"),
    ],
)
def test_a_refusal_says_what_to_do(quorum: Quorum, follow: Follow, error: str, sentence: str) -> None:
    quorum.error = error
    with pytest.raises(FeedSilent, match=sentence):
        follow().poll(SHORT_S)


def test_a_refused_login_explains_more_than_an_attempt_without_time(quorum: Quorum, follow: Follow) -> None:
    quorum.refusing = {A: [Refused("a:1: the login is wrong"), *[Unanswered("a:1: timed out")] * 1000]}
    with pytest.raises(FeedSilent, match=r"a:1: the login is wrong$"):
        follow(None, (A,)).poll(SHORT_S)
    quorum.refusing = {A: [Unanswered("a:1: timed out")] * 1000}
    with pytest.raises(FeedSilent, match=r"a:1: timed out$"):
        follow(None, (A,)).poll(SHORT_S)


def test_a_closed_feed_says_so(follow: Follow) -> None:
    feed = follow()
    feed.close()
    with pytest.raises(FeedSilent, match="it was closed"):
        feed.poll(10.0)


# Snapshots, and records that were deleted


def test_a_snapshot_comes_in_pieces(quorum: Quorum, follow: Follow) -> None:
    quorum.snapshot, quorum.log_start, quorum.piece_bytes = (5, 1, snapshot("a", "b")), 5, 100
    quorum.append(5, topics(5, "c"))
    quorum.high_watermark = 6
    feed = follow()
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.snapshot is not None
    for _ in range(2):
        assert names(portion.snapshot.entries) == ["a", "b"]
    assert (portion.next_offset, portion.missed, portion.position) == (5, None, Position(5, 1))
    pieces = [place for _, place in quorum.asked if place.startswith("snapshot")]
    assert pieces == [f"snapshot {at}" for at in range(0, len(snapshot("a", "b")), 100)]
    assert polled(feed) == ["c"]
    with pytest.raises(ValueError, match="closed"):
        list(portion.snapshot.entries)


def test_a_snapshot_begins_again_at_another_leader(quorum: Quorum, follow: Follow) -> None:
    """Files of the same name may differ between controllers."""
    quorum.snapshot, quorum.log_start, quorum.piece_bytes = (5, 1, snapshot("a", "b")), 5, 100
    quorum.high_watermark = 5

    def leader_dies() -> None:
        if quorum.asked[-1][1] == "snapshot 100" and quorum.leader == A:
            quorum.leader, quorum.epoch, quorum.snapshot = B, 2, (5, 1, snapshot("b", "a"))

    quorum.after = leader_dies
    portion = follow().poll(LONG_S)
    assert portion is not None
    assert portion.snapshot is not None
    assert names(portion.snapshot.entries) == ["b", "a"]
    assert quorum.asked.count((B, "snapshot 0")) == 1


def test_a_damaged_snapshot_is_not_delivered(quorum: Quorum, follow: Follow) -> None:
    quorum.snapshot, quorum.log_start = (5, 1, snapshot("a")[:-1]), 5
    with pytest.raises(FeedSilent, match="its snapshot cannot be used"):
        follow().poll(SHORT_S)


def test_records_that_were_deleted_before_they_were_read_are_missed(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.high_watermark = 1
    feed = follow()
    assert polled(feed) == ["a"]
    quorum.snapshot, quorum.log_start, quorum.high_watermark = (5, 1, snapshot("a", "b")), 5, 6
    quorum.log, quorum.offsets = b"", {}
    quorum.append(5, topics(5, "c"))
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.snapshot is not None
    assert portion.missed == "the records from offset 1 on were deleted before they were read"
    assert polled(feed) == ["c"]


def test_it_resumes_at_a_position(quorum: Quorum, follow: Follow) -> None:
    quorum.append(0, topics(0, "a"))
    quorum.append(1, topics(1, "b", epoch=2))
    quorum.high_watermark, quorum.epoch = 2, 3
    feed = follow(Position(1, 1))
    assert polled(feed) == ["b"]
    assert {place for _, place in quorum.asked} == {"1"}


@pytest.mark.parametrize("case", ["diverges", "no such epoch", "inside a batch"])
def test_a_log_that_is_another_than_before_begins_again(quorum: Quorum, follow: Follow, case: str) -> None:
    quorum.append(0, topics(0, "a", "b"))
    quorum.append(2, topics(2, "c", epoch=2))
    quorum.high_watermark, quorum.epoch = 3, 2
    at = Position(1, 1) if case == "inside a batch" else Position(2, 2)
    quorum.diverges = (1, 1) if case == "diverges" else None
    if case == "no such epoch":
        quorum.snapshot = (2, 1, snapshot("a", "b"))
        quorum.snapshot_for = {3}
        at = Position(3, 1)
    feed = follow(at)
    portion = feed.poll(LONG_S)
    assert portion is not None
    assert portion.missed is not None
    assert portion.snapshot is not None
    committed = f"offset {at.offset - 1} was committed in epoch {at.epoch}, and"
    assert portion.missed.startswith(committed)
    assert portion.missed.endswith("the quorum lost committed records, or the log is another")
    if case == "no such epoch":
        assert names(portion.snapshot.entries) == ["a", "b"]
        assert polled(feed) == ["c"]
    else:  # an empty snapshot, because nothing that was known counts any more
        assert (list(portion.snapshot.entries), portion.next_offset) == ([], 0)
        assert polled(feed) == ["a", "b", "c"]
