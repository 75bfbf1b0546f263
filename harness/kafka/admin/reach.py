"""The first contact with a cluster: its id, its brokers, and the permissions of this client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from harness.kafka.admin.described_cluster import DescribedCluster, describe_cluster
from harness.kafka.admin.link import Address, Link
from harness.kafka.admin.security import Security
from harness.kafka.admin.wire import Refused, Unanswered
from harness.model.errors import BadInput

DEADLINE_S: Final = 15.0
_TRY_S: Final = 2.0
_PAUSE_S: Final = 0.2


def reach(bootstrap: Sequence[Address], security: Security, deadline_s: float = DEADLINE_S) -> DescribedCluster:
    """The cluster behind the first broker that describes it. BadInput, with the last reason, if none does in time."""
    give_up_s, why = time.monotonic() + deadline_s, "no answer"
    shown = ",".join(f"{host}:{port}" for host, port in bootstrap)
    while True:
        for address in bootstrap:
            link = Link(address, security)
            try:
                found = describe_cluster(link, _TRY_S)
                if found.brokers:
                    return found
                why = f"{link.name} names no broker"
            except Refused as refused:
                raise BadInput(
                    f"{shown} does not let this client in ({refused}); correct its settings in --command-config"
                ) from None
            except Unanswered as silent:
                why = str(silent)
            finally:
                link.close()
        if time.monotonic() > give_up_s:
            raise BadInput(
                f"no broker answers at {shown} within {deadline_s:g} s ({why}); check the address, or pass the "
                "settings that the cluster requires of clients by --command-config"
            )
        time.sleep(_PAUSE_S)
