"""Sinks never hold up the engine, keep the order, and count what they could not deliver."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from harness.audit.alarms import outbox
from harness.audit.alarms.event import Event
from harness.audit.alarms.lines import Lines
from harness.audit.alarms.outbox import Delivered, Outbox
from harness.audit.alarms.webhook import Webhook
from harness.commands.notify import post
from harness.model.waiting import wait_for
from suites.unit.audit.alarms.alarm_examples import alarm
from suites.unit.commands.test_output import Server


def delivered(of: Callable[[], Delivered], sent: int, dropped: int = 0) -> Delivered:
    return wait_for(
        of, until=lambda now: (now.sent, now.dropped) == (sent, dropped), deadline_s=10, what=f"{sent} deliveries"
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_PAUSE_S", 0.01)


def test_messages_keep_their_order_and_a_failure_is_tried_again(quick: None) -> None:
    got: list[bytes] = []
    answers: Iterator[str | None] = iter(["it answered 500", "no answer", None, None])

    def deliver(message: bytes) -> str | None:
        answer = next(answers)
        if answer is None:
            got.append(message)
        return answer

    box = Outbox("test", deliver, keep_s=60)
    box.put(b"1")
    box.put(b"2")
    assert delivered(lambda: box.delivered, 2).failure is None
    assert got == [b"1", b"2"]
    assert box.close() == Delivered(sent=2)


def test_a_message_that_nobody_takes_in_time_is_dropped_and_counted(quick: None) -> None:
    box = Outbox("test", lambda _: "it answered 500", keep_s=0.05)
    box.put(b"1")
    assert delivered(lambda: box.delivered, 0, 1).failure == "it answered 500"
    box.close()


def test_a_receiver_that_hangs_never_blocks_and_the_oldest_messages_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "QUEUE_MAX", 3)
    monkeypatch.setattr(outbox, "_CLOSE_S", 0.1)
    hangs, begun = threading.Event(), threading.Event()

    def deliver(_: bytes) -> str | None:
        begun.set()
        hangs.wait(60)
        return None

    box = Outbox("test", deliver)
    box.put(b"first")
    assert begun.wait(10)
    before_s = time.monotonic()
    for number in range(5):
        box.put(b"%d" % number)
    assert time.monotonic() - before_s < 1
    assert box.delivered == Delivered(dropped=2, waiting=4)
    assert box.close() == Delivered(dropped=6)  # with the one that hangs
    hangs.set()


def test_what_waits_at_the_end_is_tried_once_more(quick: None) -> None:
    got: list[bytes] = []

    def deliver(message: bytes) -> str | None:
        got.append(message)
        return None if len(got) > 1 else "no answer"

    box = Outbox("test", deliver, keep_s=600)
    box.put(b"1")
    wait_for(lambda: got, until=bool, deadline_s=10, what="the first try")
    box.put(b"2")
    closed = box.close()
    assert (closed.sent + closed.dropped, closed.waiting) == (2, 0)
    assert got[-1] == b"2"


def test_a_line_for_each_event_or_an_object() -> None:
    text, objects = io.StringIO(), io.StringIO()
    for out, as_json in ((text, False), (objects, True)):
        lines = Lines(out, cluster_id="C", as_json=as_json)
        lines.show(Event.OPENED, alarm())
        lines.show(Event.GREW, alarm())
        lines.show(Event.ENDED, alarm())
        lines.close()
    assert [row.split()[1] for row in text.getvalue().splitlines()] == ["opened", "grew", "ended"]
    rows = [json.loads(row) for row in objects.getvalue().splitlines()]
    assert [(row["event"], row["cluster_id"]) for row in rows] == [("opened", "C"), ("grew", "C"), ("ended", "C")]


def test_a_closed_terminal_loses_lines_and_counts_them() -> None:
    out = io.StringIO()
    out.close()
    lines = Lines(out, cluster_id="C", as_json=False)
    lines.show(Event.OPENED, alarm())
    lost = lines.close()
    assert (lost.sent, lost.dropped) == (0, 1)
    assert lost.failure is not None
    assert lost.failure.startswith("standard output accepts no more lines")


def test_the_webhook_posts_json_and_survives_a_server_that_refuses(quick: None) -> None:
    with Server(status=500) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        hook = Webhook(lambda body: post(server.url, body), cluster_id="C", keep_s=60)
        hook.show(Event.OPENED, alarm())
        wait_for(lambda: len(server.bodies), until=lambda tries: tries >= 2, deadline_s=10, what="a second try")
        assert hook.delivered.failure == "127.0.0.1 was not notified: it answered 500"
        server.status = 200
        assert delivered(lambda: hook.delivered, 1).dropped == 0
        hook.close()
        server.shutdown()
    assert {json.loads(body)["incident"] for body in server.bodies} == {"epoch_below_commit: broker 3"}
