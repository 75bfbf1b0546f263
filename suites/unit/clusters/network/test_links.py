"""Links as calls to toxiproxy, and a client of it that checks every answer and never waits for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast

import pytest

from harness.clusters.network import toxiproxy
from harness.clusters.network.links import ToxiproxyLinks
from harness.clusters.network.toxiproxy import ToxiproxyClient
from harness.clusters.processes.addresses import Addresses
from harness.model.errors import BadInput, HarnessFailure
from harness.model.scenario.scenario import ClusterShape


class Recorder:
    """Replaces the client and records the calls to toxiproxy in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def links(recorder: Recorder) -> ToxiproxyLinks:
    return ToxiproxyLinks(cast(ToxiproxyClient, recorder), Addresses.of(0, ClusterShape()).links())


def test_a_silent_cut_swallows_each_direction_asked_for(links: ToxiproxyLinks, recorder: Recorder) -> None:
    links.cut("b2", "b1", "silent", "answers")
    links.cut("client", "b1", "silent")
    assert recorder.calls == [
        ("add_toxic", "b2-b1", "cut-answers", "timeout", "downstream", {"timeout": 0}),
        ("add_toxic", "client-b1", "cut-requests", "timeout", "upstream", {"timeout": 0}),
        ("add_toxic", "client-b1", "cut-answers", "timeout", "downstream", {"timeout": 0}),
    ]
    assert links.active() == ["b2 > b1 swallows answers", "client > b1 swallows answers, swallows requests"]


def test_a_refusing_cut_disables_the_proxy(links: ToxiproxyLinks, recorder: Recorder) -> None:
    links.cut("b1", "c101", "refusing")
    assert recorder.calls == [("set_enabled", "b1-c101", False)]
    assert links.active() == ["b1 > c101 refuses"]


def test_slow_sets_latency_and_a_rate_for_each_direction(links: ToxiproxyLinks, recorder: Recorder) -> None:
    links.slow("b3", "b2", latency_ms=400, jitter_ms=50, rate_kb_s=4, direction="requests")
    assert recorder.calls == [
        ("add_toxic", "b3-b2", "latency-requests", "latency", "upstream", {"latency": 400, "jitter": 50}),
        ("add_toxic", "b3-b2", "rate-requests", "bandwidth", "upstream", {"rate": 4}),
    ]


def test_healing_forgets_what_was_broken(links: ToxiproxyLinks, recorder: Recorder) -> None:
    links.cut("b2", "b1", "silent")
    links.cut("b3", "b1", "refusing")
    links.heal("b2", "b1")
    assert links.active() == ["b3 > b1 refuses"]
    links.heal_all()
    links.heal_all()
    assert links.active() == []
    assert recorder.calls[-3:] == [("clear", "b2-b1"), ("reset",), ("reset",)]


def test_cuts_and_slowness_of_one_link_are_healed_separately(links: ToxiproxyLinks, recorder: Recorder) -> None:
    links.slow("b2", "b1", latency_ms=100, rate_kb_s=9, direction="answers")
    links.cut("b2", "b1", "silent", "answers")
    links.heal("b2", "b1", "cut")
    assert links.active() == ["b2 > b1 delays answers by 100+-0 ms, limits answers to 9 KB/s"]
    assert recorder.calls[-1] == ("remove_toxics", "b2-b1", ["cut-answers"])
    links.cut("b2", "b1", "refusing")
    links.heal("b2", "b1", "slow")
    assert recorder.calls[-1] == ("remove_toxics", "b2-b1", ["latency-answers", "rate-answers"])
    links.heal("b2", "b1", "cut")
    assert ("set_enabled", "b2-b1", True) in recorder.calls[-1:]
    assert links.active() == []


def test_a_link_is_diverted_through_a_frame_proxy_and_back(links: ToxiproxyLinks, recorder: Recorder) -> None:
    assert links.frame_proxy("client", "b1") == ("127.16.4.1:21094", "127.16.1.1:21094")
    links.divert("client", "b1")
    assert links.active() == ["client > b1 goes through a frame proxy"]
    links.cut("client", "b1", "silent", "answers")
    links.heal("client", "b1", "diverted")
    assert recorder.calls[0] == ("set_upstream", "client-b1", "127.16.4.1:21094")
    assert recorder.calls[-1] == ("set_upstream", "client-b1", "127.16.1.1:21094")
    assert links.active() == ["client > b1 swallows answers"]
    heals: list[Callable[[], None]] = [lambda: links.heal("client", "b1"), links.heal_all]
    for heal in heals:
        links.divert("client", "b1")
        heal()
        assert recorder.calls[-1] == ("set_upstream", "client-b1", "127.16.1.1:21094")
        assert links.active() == []


def test_a_cut_that_failed_half_way_counts_as_active() -> None:
    class Failing(Recorder):
        def add_toxic(self, *_: object) -> None:
            raise HarnessFailure("gone")

    links = ToxiproxyLinks(cast(ToxiproxyClient, Failing()), Addresses.of(0, ClusterShape()).links())
    with pytest.raises(HarnessFailure):
        links.cut("b2", "b1", "silent", "requests")
    assert links.active() == ["b2 > b1 swallows requests"]


def test_links_know_which_party_reaches_which(links: ToxiproxyLinks) -> None:
    assert links.parties_reaching("b1") == ("client", "b2", "b3")
    assert links.reached_from("b1") == ("b2", "b3", "c101")
    assert links.reached_from("c101") == ()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda links: links.cut("b9", "b1", "silent"), "no party of a link is called 'b9'"),
        (lambda links: links.cut("c101", "b1", "silent"), "c101 never opens a connection to b1"),
        (lambda links: links.cut("b2", "b1", "refusing", "answers"), "has no direction"),
        (lambda links: links.cut("b2", "b1", "silent", "sideways"), "direction = 'sideways'"),
        (lambda links: links.cut("b2", "b1", "loud"), "mode = 'loud'"),
        (lambda links: links.divert("b2", "b1"), "the link b2 > b1 has no frame proxy"),
        (lambda links: links.slow("b2", "b1"), "needs one of latency_ms"),
        (
            lambda links: links.slow("b2", "b1", latency_ms=-1, rate_kb_s=3),
            "jitter_ms have to be 0 or more",
        ),
        (lambda links: links.slow("b2", "b1", rate_kb_s=0), "rate_kb_s has to be 1 or more"),
    ],
)
def test_impossible_breaks_are_refused(links: ToxiproxyLinks, recorder: Recorder, call: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        call(links)
    assert recorder.calls == []
    assert links.active() == []


class _Server(BaseHTTPRequestHandler):
    """Answers with the status and body that the test put into `answers`, by method and path."""

    answers: ClassVar[dict[str, tuple[int, object]]] = {}
    port: ClassVar[int] = 0

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = self.answers.get(f"{self.command} {self.path}", (404, {"error": "not found"}))
        if status == 0:
            threading.Event().wait(1.0)
            return
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def server() -> Iterator[type[_Server]]:
    class Handler(_Server):
        answers: ClassVar[dict[str, tuple[int, object]]] = {}

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    Handler.port = running.server_port
    yield Handler
    running.shutdown()
    thread.join()
    running.server_close()


def proxies(enabled: bool = True) -> dict[str, object]:
    return {"b2-b1": {"name": "b2-b1", "listen": "l", "upstream": "u", "enabled": enabled, "toxics": []}}


def client_of(server: type[_Server]) -> ToxiproxyClient:
    return ToxiproxyClient("127.0.0.1", server.port)


def test_an_error_of_the_server_is_a_failure(server: type[_Server]) -> None:
    server.answers |= {"GET /proxies": (200, proxies()), "POST /reset": (500, {})}
    with pytest.raises(HarnessFailure, match="answered 500"):
        client_of(server).reset()


def test_a_call_that_did_nothing_is_noticed(server: type[_Server]) -> None:
    server.answers |= {"GET /proxies": (200, proxies()), "POST /proxies/b2-b1": (200, {})}
    with pytest.raises(HarnessFailure, match="did not disable the link b2-b1"):
        client_of(server).set_enabled("b2-b1", False)
    with pytest.raises(HarnessFailure, match="did not forward the link b2-b1 to elsewhere"):
        client_of(server).set_upstream("b2-b1", "elsewhere")
    server.answers |= {
        "GET /proxies/b2-b1/toxics": (200, []),
        "POST /proxies/b2-b1/toxics": (200, {}),
    }
    with pytest.raises(HarnessFailure, match="did not set the toxic timeout of the link b2-b1"):
        client_of(server).add_toxic("b2-b1", "cut-answers", "timeout", "downstream", {"timeout": 0})
    server.answers |= {"GET /proxies": (200, proxies(enabled=False)), "POST /reset": (204, {})}
    with pytest.raises(HarnessFailure, match="did not enable b2-b1 again"):
        client_of(server).reset()


def test_a_silent_server_times_out(server: type[_Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy, "_TIMEOUT_S", 0.2)
    server.answers |= {"GET /proxies": (0, None)}
    with pytest.raises(HarnessFailure, match="timed out"):
        client_of(server).proxies()


def test_an_http_proxy_of_the_environment_is_ignored(server: type[_Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.answers |= {"GET /proxies": (200, proxies())}
    assert client_of(server).proxies() == {"b2-b1": True}


def test_an_unknown_link_and_a_missing_server_are_failures(server: type[_Server]) -> None:
    server.answers |= {"GET /proxies": (200, {})}
    with pytest.raises(HarnessFailure, match="has no link b2-b1"):
        client_of(server).clear("b2-b1")
    assert not ToxiproxyClient("127.0.0.1", 9).answers()


def test_clients_of_two_servers_in_one_process_are_independent(server: type[_Server]) -> None:
    """toxiproxy-python keeps the address of the server in a class, so one client could change that of another."""
    server.answers |= {"GET /proxies": (200, proxies())}
    here, elsewhere = client_of(server), ToxiproxyClient("127.0.0.1", 9)
    assert (here.answers(), elsewhere.answers(), here.answers()) == (True, False, True)
