"""Writes transaction markers in place of a coordinator, as an operator does with kafka-transactions.sh (KIP-664)."""

from __future__ import annotations

from typing import Final

from harness.kafka.admin.groups import ProducerOnPartition
from harness.kafka.admin.wire import Wire, call, error_name
from harness.kafka.messages import WriteTxnMarkersRequest

_MARKER_S: Final = 5.0
_WITHOUT_VERSION: Final = 1  # the newest without transaction.version (KIP-1228), as in the request of the tool
_UNCOORDINATED: Final = -1  # the coordinator epoch of a producer without any marker on the partition


def abort(wire: Wire, leader: int, producer: ProducerOnPartition) -> str | None:
    """Aborts a producer's open transaction on one partition only. Returns Kafka's error, or None when it is done.

    The request goes to the leader with the producer id and epoch that the leader reported (DescribeProducers), and with
    the epoch of the coordinator that wrote there last; 0 if none has, as the tool does (KAFKA-12888). Unanswered when
    there is no answer in time.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic(name=producer.topic, partition_indexes=[producer.partition])
    epoch = 0 if producer.coordinator_epoch == _UNCOORDINATED else producer.coordinator_epoch
    asked = marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=epoch,
    )
    answer = wire.ask(leader, call(WriteTxnMarkersRequest, _WITHOUT_VERSION, markers=[asked]), _MARKER_S)
    return next(
        (
            name
            for reported in answer.markers
            for of in reported.topics
            for p in of.partitions
            if (name := error_name(p.error_code))
        ),
        None,
    )
