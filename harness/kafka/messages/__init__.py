"""Messages of Kafka's protocol that kafka-python has no schema of, each as a class over a file of the same name.

The files have the form of Kafka's own message definitions, which kafka-python reads: KIP-853 for those of voters,
KIP-932 for those of share groups. Of those of markers (KIP-98) it has the schema, and no class.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str, schemas: str | None = __name__) -> Any:
    """A class of kafka-python's; a response registers itself for the request of its key. `schemas`: the package with
    the file; None = kafka-python's own."""
    return type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=schemas)


AddRaftVoterRequest = _message("AddRaftVoterRequest")
AddRaftVoterResponse = _message("AddRaftVoterResponse")
DescribeShareGroupOffsetsRequest = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse = _message("DescribeShareGroupOffsetsResponse")
RemoveRaftVoterRequest = _message("RemoveRaftVoterRequest")
RemoveRaftVoterResponse = _message("RemoveRaftVoterResponse")
WriteTxnMarkersRequest = _message("WriteTxnMarkersRequest", None)
WriteTxnMarkersResponse = _message("WriteTxnMarkersResponse", None)
