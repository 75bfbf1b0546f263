"""An agent for unit tests: it answers like Byteman's listener, and keeps the rules that it was given."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class FakeAgent:
    """on_load: called when the node has a rule. refuses: what it answers to LOAD instead of taking a rule."""

    on_load: Callable[[str], None] = lambda rule: None
    refuses: str = ""
    silent: bool = False  # ends the connection without an answer, as a node that halts
    rules: dict[str, str] = field(default_factory=dict)
    listing: str = ""

    def __post_init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._server.getsockname()
        return host, port

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # ends the wait of the thread
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rw", encoding="utf-8", newline="\n") as stream:
                command = stream.readline().strip()
                answer = self._listed() if command == "LIST" else self._script(command, stream.readline)
                stream.write(answer if self.silent and command == "LOAD" else f"{answer}OK\n")

    def _script(self, command: str, readline: Callable[[], str]) -> str:
        name, lines = readline().strip().removeprefix("SCRIPT "), []
        while (line := readline()).strip() not in ("ENDSCRIPT", ""):
            lines.append(line)
        assert readline().strip() == f"END{command}"
        if command == "DELETE":
            known = self.rules.pop(name, None) is not None
            return f"uninstall RULE {name}\n" if known else f"ERROR failed to find loaded rule with name {name}\n"
        if self.refuses:
            return f"{self.refuses}\n"
        self.rules[name] = "".join(lines)
        self.on_load(name)
        return f"install rule {name}\n"

    def _listed(self) -> str:
        return self.listing or "no rules installed\n"
