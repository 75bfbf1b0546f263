"""Messages of Kafka's protocol that kafka-python has no schema of, each as a class over a file of the same name.

The files have the form of Kafka's own message definitions, which kafka-python reads: KIP-853 for those of voters,
KIP-932 for those of share groups.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    """A class of kafka-python's; a response registers itself for the request of its key."""
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=__name__)


AddRaftVoterRequest = _message("AddRaftVoterRequest")
AddRaftVoterResponse = _message("AddRaftVoterResponse")
DescribeShareGroupOffsetsRequest = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse = _message("DescribeShareGroupOffsetsResponse")
RemoveRaftVoterRequest = _message("RemoveRaftVoterRequest")
RemoveRaftVoterResponse = _message("RemoveRaftVoterResponse")
