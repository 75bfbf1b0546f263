"""The settings in the files of brokers, and Kafka's defaults. The metadata log has only dynamic ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from harness.kafka.admin.described_cluster import NotAllowed, static_settings
from harness.kafka.admin.link import Address, Link
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Unanswered

STATIC: Final = "static"  # the name of the fact in the database: JSON, by the names that brokers have for them
_ASK_S: Final = 5.0
_EVERY_S: Final = 300.0  # brokers restart with other files now and then


class StaticSettings:
    """Asks one broker, which represents all, at the start and every 5 minutes, in a thread of its own.

    `newest` is replaced as a whole. `missing` says why there are none.
    """

    def __init__(self, brokers: Mapping[int, Address], security: Security) -> None:
        self._brokers = dict(sorted(brokers.items()))
        self._security = security
        self._stop = threading.Event()
        self.newest: Mapping[str, str] = {}
        self.missing: str | None = None
        self._read()
        self._thread = threading.Thread(target=self._work, name="audit-settings", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=_ASK_S * 2)

    def _work(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._read()

    def _read(self) -> None:
        for broker, address in self._brokers.items():
            link = Link(address, self._security)
            try:
                self.newest, self.missing = static_settings(link, broker, _ASK_S), None
                return
            except NotAllowed as refused:
                self.missing = f"{refused}: give it {refused.operation} on the cluster"
                return
            except Unanswered as silent:
                self.missing = str(silent)
            finally:
                link.close()
            if self._stop.is_set():
                return
