"""Several threads ask kafka-python for its classes at the same time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry

from harness.kafka.decoding import answer_class
from harness.kafka.storage.request_frames import APIS

THREADS = 4


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Python changes between threads as often as it can. What was there before costs nothing to collect."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.freeze()
    yield
    gc.unfreeze()
    sys.setswitchinterval(before_s)


def test_the_class_of_an_answer_is_still_there_after_threads_asked_at_once(
    eager_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock about one class in ten is gone."""
    registry = ResponseClassRegistry._response_class_registry
    barrier = Barrier(THREADS)

    def ask(header: RequestHeader) -> None:
        barrier.wait()
        answer_class(header)

    checked = 0
    with ThreadPoolExecutor(THREADS) as threads:
        for key in APIS.values():
            known = registry.get(key)
            if known is None:
                continue
            monkeypatch.setitem(registry, key, known[None])
            monkeypatch.setattr(known[None], "_VERSIONS", {})
            for version in range(known.max_version + 1):
                header = RequestHeader(request_api_key=key, request_api_version=version)
                list(threads.map(ask, [header] * THREADS))
                gc.collect()
                found = answer_class(header)
                assert found is not None
                assert found._class_version == version
                checked += 1
    assert checked > 50
