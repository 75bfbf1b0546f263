"""Client of one toxiproxy server, on top of toxiproxy-python 0.1.1, and the workarounds that this package needs.

The package keeps host and port in a class (one server a process), has no timeouts, takes answers of 5xx for success,
and uses HTTP_PROXY of the environment even for loopback addresses. So every call here takes a lock, sets the address,
and goes through `_Transport`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import requests
import toxiproxy.api
from toxiproxy import Proxy, Toxiproxy
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from harness.model.errors import HarnessFailure, MachineFailure

_TIMEOUT_S = 10.0
_lock = threading.Lock()


class _Transport:
    """Replaces the `requests` module inside the package: with timeouts and checks, and without HTTP proxies."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, url: str, params: Mapping[str, str] | None = None) -> requests.Response:
        return self._checked(requests.Request("GET", url, params=params))

    def post(
        self, url: str, data: str | None = None, json: Mapping[str, str | float | Mapping[str, float]] | None = None
    ) -> requests.Response:
        return self._checked(requests.Request("POST", url, data=data, json=json))

    def delete(self, url: str) -> requests.Response:
        return self._checked(requests.Request("DELETE", url))

    def _checked(self, request: requests.Request) -> requests.Response:
        # A new connection for each call: an idle one would outlive its server and stay open at the end.
        request.headers = {"Connection": "close"}
        response = self._session.send(self._session.prepare_request(request), timeout=_TIMEOUT_S)
        if response.status_code >= 400 and response.status_code not in (400, 404, 409):  # the package raises on these
            raise MachineFailure(f"toxiproxy answered {response.status_code} to {request.method} {response.url}")
        return response


toxiproxy.api.requests = _Transport()


class ToxiproxyClient:
    """The calls that links need of the server at `host`:`port`. HarnessFailure when it does not answer or refuses."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    @contextmanager
    def _server(self) -> Iterator[Toxiproxy]:
        with _lock:
            server = Toxiproxy()
            server.update_api_consumer(self.host, self.port)
            try:
                yield server
            except (requests.RequestException, InvalidToxic, NotFound, ProxyExists, ValueError) as error:
                raise MachineFailure(f"toxiproxy at {self.host}:{self.port} failed: {error}") from error

    def answers(self) -> bool:
        """Whether the server is up."""
        try:
            self.proxies()
        except HarnessFailure:
            return False
        return True

    def proxies(self) -> dict[str, bool]:
        """Whether each proxy is enabled, by its name."""
        with self._server() as server:
            return {name: bool(proxy.enabled) for name, proxy in server.proxies().items()}

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Enables or disables a proxy. Disabling closes its connections and refuses new ones."""
        with self._server() as server:
            proxy = self._proxy(server, name)
            if proxy.enabled == enabled:
                return
            proxy.enable() if enabled else proxy.disable()
            if self._proxy(server, name).enabled != enabled:
                raise MachineFailure(f"toxiproxy did not {'enable' if enabled else 'disable'} the link {name}")

    def set_upstream(self, name: str, upstream: str) -> None:
        """Sets the address to which a proxy forwards. A change closes its connections. The package lacks this call."""
        with self._server() as server:
            before = self._proxy(server, name)
            if before.upstream == upstream:
                return
            toxiproxy.api.APIConsumer.post(f"/proxies/{name}", json={"upstream": upstream})
            seen = self._proxy(server, name)
            if (seen.upstream, seen.enabled) != (upstream, before.enabled):
                raise MachineFailure(f"toxiproxy did not forward the link {name} to {upstream}")

    def add_toxic(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        """Adds a toxic to a proxy, and replaces one of the same name."""
        with self._server() as server:
            proxy = self._proxy(server, name)
            if proxy.get_toxic(toxic) is not None:
                proxy.destroy_toxic(toxic)
            proxy.add_toxic(name=toxic, type=kind, stream=stream, attributes=attributes)
            seen = proxy.get_toxic(toxic)
            if seen is None or any(seen.attributes.get(key) != value for key, value in attributes.items()):
                raise MachineFailure(f"toxiproxy did not set the toxic {kind} of the link {name}")

    def remove_toxics(self, name: str, toxics: Sequence[str]) -> None:
        """Removes the named toxics from a proxy, as far as they exist."""
        with self._server() as server:
            proxy = self._proxy(server, name)
            for toxic in toxics:
                if proxy.get_toxic(toxic) is not None:
                    proxy.destroy_toxic(toxic)
            if left := [toxic for toxic in toxics if proxy.get_toxic(toxic) is not None]:
                raise MachineFailure(f"toxiproxy did not remove {', '.join(left)} from the link {name}")

    def clear(self, name: str) -> None:
        """Enables a proxy and removes its toxics."""
        with self._server() as server:
            proxy = self._proxy(server, name)
            for toxic in proxy.toxics():
                proxy.destroy_toxic(toxic)
            proxy.enable()
            if not self._proxy(server, name).enabled or proxy.toxics():
                raise MachineFailure(f"toxiproxy did not heal the link {name}")

    def reset(self) -> None:
        """Enables every proxy and removes every toxic."""
        with self._server() as server:
            server.reset()
            off = [name for name, proxy in server.proxies().items() if not proxy.enabled]
        if off:
            raise MachineFailure(f"toxiproxy did not enable {', '.join(sorted(off))} again")

    @staticmethod
    def _proxy(server: Toxiproxy, name: str) -> Proxy:
        proxy = server.get_proxy(name)
        if proxy is None:
            raise MachineFailure(f"toxiproxy has no link {name}")
        return proxy
