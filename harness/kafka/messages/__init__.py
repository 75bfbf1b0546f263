"""Messages of Kafka's protocol for which kafka-python has no class, each with a schema in a file of the same name.

The files have the format of Kafka's own message definitions, which kafka-python reads: voters are of KIP-853, share
groups of KIP-932, consumer groups of KIP-848, snapshots of the metadata log of KIP-630. For transaction markers
(KIP-98) kafka-python has the schema and no class.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


def _message(name: str, schemas: str | None = __name__) -> type[ApiMessage]:
    """A message class. A response registers itself for the request of the same api key.

    `schemas` is the package with the file; None = kafka-python itself.
    """
    message: type[ApiMessage] = type(ApiMessage)(name, (ApiMessage,), {"__module__": __name__}, load_json=schemas)
    return message


AddRaftVoterRequest = _message("AddRaftVoterRequest")
AddRaftVoterResponse = _message("AddRaftVoterResponse")
ConsumerGroupDescribeRequest = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse = _message("ConsumerGroupDescribeResponse")
DescribeShareGroupOffsetsRequest = _message("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse = _message("DescribeShareGroupOffsetsResponse")
FetchSnapshotRequest = _message("FetchSnapshotRequest")
FetchSnapshotResponse = _message("FetchSnapshotResponse")
RemoveRaftVoterRequest = _message("RemoveRaftVoterRequest")
RemoveRaftVoterResponse = _message("RemoveRaftVoterResponse")
WriteTxnMarkersRequest = _message("WriteTxnMarkersRequest", None)
WriteTxnMarkersResponse = _message("WriteTxnMarkersResponse", None)
