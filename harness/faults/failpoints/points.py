"""All points of failpoints by name. Their methods are those of Kafka 4.4 and 4.3; a few are known in 3.9, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.faults.failpoints.code_point import CodePoint, Load, Role, Site, Where

_LOG: Final = "org.apache.kafka.storage.internals.log"
_RAFT: Final = "org.apache.kafka.raft"
_TIER: Final = "org.apache.kafka.server.log.remote.storage.RemoteLogManager"
_UNIFIED: Final = f"{_LOG}.UnifiedLog"
_SEGMENT: Final = f"{_LOG}.LogSegment"
_PARTITION: Final = "kafka.cluster.Partition"
_CHECKPOINT: Final = Site("org.apache.kafka.server.common.CheckpointFile", "write")
# Folders of logs, in the rules of Byteman, by the object that the method belongs to.
_OF_LOG: Final = "$0.topicPartition().toString()"
_OF_STATE: Final = "$0.topicPartition.toString()"
_OF_SEGMENT: Final = "$0.log().file().getParentFile().getName()"
_OF_FILE: Final = "$0.absolutePath.getParent().getFileName().toString()"
_BOTH: Final = (Role.BROKER, Role.CONTROLLER)
_CONTROLLERS: Final = (Role.CONTROLLER,)

_LOGS: Final[Mapping[str, CodePoint]] = {
    "append": CodePoint(
        text="a batch is about to be checked and appended to a log",
        sites=(Site(_UNIFIED, "append"),),
        log=_OF_LOG,
    ),
    "appended": CodePoint(
        text="a batch was appended to a log and is not acknowledged yet",
        sites=(Site(_UNIFIED, "append"),),
        where=Where.EXIT,
        log=_OF_LOG,
    ),
    "segment_append": CodePoint(
        text="a batch is about to be written to the file of a segment",
        sites=(Site(_SEGMENT, "append"),),
        log=_OF_SEGMENT,
        io_error=True,
    ),
    "roll": CodePoint(
        text="a log is about to begin a new segment",
        sites=(Site(_UNIFIED, "roll", "java.util.Optional"), Site("kafka.log.UnifiedLog", "roll")),
        log=_OF_LOG,
        io_error=True,
    ),
    "rolled": CodePoint(
        text="a log has begun a new segment; the old one is not flushed yet",
        sites=(Site(_UNIFIED, "roll", "java.util.Optional"), Site("kafka.log.UnifiedLog", "roll")),
        where=Where.EXIT,
        log=_OF_LOG,
    ),
    "flush": CodePoint(
        text="a segment is about to be flushed",
        sites=(Site(_SEGMENT, "flush"),),
        log=_OF_SEGMENT,
        io_error=True,
    ),
    "flushed": CodePoint(
        text="a segment was flushed; its log does not know it yet",
        sites=(Site(_SEGMENT, "flush"),),
        where=Where.EXIT,
        log=_OF_SEGMENT,
    ),
    "high_watermark": CodePoint(
        text="the high watermark of a log is about to change",
        sites=(Site(_UNIFIED, "updateHighWatermarkMetadata"),),
        log=_OF_LOG,
    ),
    "log_start_offset": CodePoint(
        text="the log start offset of a log may be about to rise",
        sites=(Site(_UNIFIED, "maybeIncrementLogStartOffset"),),
        log=_OF_LOG,
        seldom="retention or DeleteRecords must delete records",
    ),
    "truncate": CodePoint(
        text="a log is about to be truncated to an offset",
        sites=(Site(_UNIFIED, "truncateTo", "long"),),
        log=_OF_LOG,
        seldom="a broker must follow a leader with another log",
    ),
    "segment_truncate": CodePoint(
        text="the file of a segment is about to be truncated",
        sites=(Site(_SEGMENT, "truncateTo"),),
        log=_OF_SEGMENT,
        io_error=True,
        seldom="a broker must follow a leader with another log",
    ),
    "truncated": CodePoint(
        text="a log was truncated to an offset",
        sites=(Site(_UNIFIED, "truncateTo", "long"),),
        where=Where.EXIT,
        log=_OF_LOG,
        seldom="a broker must follow a leader with another log",
    ),
    "truncate_fully": CodePoint(
        text="a log is about to drop all its records and begin elsewhere",
        sites=(Site(_UNIFIED, "truncateFullyAndStartAt"),),
        log=_OF_LOG,
        seldom="a follower must be behind the start of the leader's log",
    ),
    "delete_segments": CodePoint(
        text="segments of a log are about to be deleted",
        sites=(Site(_UNIFIED, "deleteSegments"),),
        log=_OF_LOG,
        seldom="retention must delete segments",
    ),
    "segment_rename": CodePoint(
        text="the files of a segment are about to be renamed, such as before their deletion",
        sites=(Site(_SEGMENT, "changeFileSuffixes"),),
        log=_OF_SEGMENT,
        io_error=True,
        seldom="segments must be deleted or cleaned",
        load=Load.COMPACTED,
    ),
    "clean_segments": CodePoint(
        text="the cleaner is about to rewrite segments of a compacted log",
        sites=(Site(f"{_LOG}.Cleaner", "cleanSegments"),),
        log="$1.topicPartition().toString()",
        io_error=True,
        seldom="a topic must be compacted",
        load=Load.COMPACTED,
    ),
    "replace_segments": CodePoint(
        text="cleaned segments are about to replace those of a compacted log",
        sites=(Site(_UNIFIED, "replaceSegments"),),
        log=_OF_LOG,
        io_error=True,
        seldom="a topic must be compacted",
        load=Load.COMPACTED,
    ),
    "epoch_assigned": CodePoint(
        text="a log is about to note the first offset of a leader epoch",
        sites=(Site("org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache", "assign", "int, long"),),
        log=_OF_STATE,
        seldom="a partition must get another leader",
    ),
    "producer_snapshot": CodePoint(
        text="the producer state of a log is about to be written to a snapshot",
        sites=(Site(f"{_LOG}.ProducerStateManager", "takeSnapshot", "boolean"),),
        log=_OF_STATE,
        io_error=True,
    ),
    "transaction_completed": CodePoint(
        text="a log has a transaction marker, and its producer state is about to know it",
        sites=(Site(f"{_LOG}.ProducerStateManager", "completeTxn"),),
        log=_OF_STATE,
        seldom="a producer must use transactions",
        load=Load.MARKERS,
    ),
}
_CHECKPOINTS: Final[Mapping[str, CodePoint]] = {
    "high_watermark_checkpoint": CodePoint(
        text="the checkpoint of high watermarks is about to be written",
        sites=(_CHECKPOINT,),
        only='$0.absolutePath.toString().endsWith("/replication-offset-checkpoint")',
        io_error=True,
    ),
    "recovery_point_checkpoint": CodePoint(
        text="the checkpoint of recovery points is about to be written",
        sites=(_CHECKPOINT,),
        only='$0.absolutePath.toString().endsWith("/recovery-point-offset-checkpoint")',
        io_error=True,
    ),
    "log_start_offset_checkpoint": CodePoint(
        text="the checkpoint of log start offsets is about to be written",
        sites=(_CHECKPOINT,),
        only='$0.absolutePath.toString().endsWith("/log-start-offset-checkpoint")',
        io_error=True,
    ),
    "leader_epoch_checkpoint": CodePoint(
        text="the checkpoint of the leader epochs of a log is about to be written",
        sites=(_CHECKPOINT,),
        only='$0.absolutePath.toString().endsWith("/leader-epoch-checkpoint")',
        log=_OF_FILE,
        io_error=True,
        seldom="a partition must get another leader",
    ),
}
_REPLICATION: Final[Mapping[str, CodePoint]] = {
    "become_leader": CodePoint(
        text="a broker is about to become the leader of a partition",
        sites=(Site(_PARTITION, "makeLeader"),),
        log=_OF_LOG,
        seldom="a partition must get another leader or ISR",
    ),
    "become_follower": CodePoint(
        text="a broker is about to become a follower of a partition",
        sites=(Site(_PARTITION, "makeFollower"),),
        log=_OF_LOG,
        seldom="a partition must get another leader or ISR",
    ),
    "follower_append": CodePoint(
        text="a follower is about to append what it fetched",
        sites=(Site(_PARTITION, "doAppendRecordsToFollowerOrFutureReplica"),),
        log=_OF_LOG,
    ),
    "follower_progress": CodePoint(
        text="a leader is about to note how far a follower has fetched",
        sites=(Site(_PARTITION, "updateFollowerFetchState"),),
        log=_OF_LOG,
    ),
    "isr_change": CodePoint(
        text="a leader is about to ask for another ISR",
        sites=(Site(_PARTITION, "submitAlterPartition"),),
        log=_OF_LOG,
        seldom="an ISR must change",
    ),
    "alter_partition_sent": CodePoint(
        text="a leader is about to send AlterPartition",
        sites=(
            Site("org.apache.kafka.server.partition.DefaultAlterPartitionManager", "sendRequest"),
            Site("kafka.server.DefaultAlterPartitionManager", "sendRequest"),
        ),
        seldom="an ISR must change",
    ),
    "alter_partition_answered": CodePoint(
        text="a leader has the answer to AlterPartition, and does not use it yet",
        sites=(
            Site("org.apache.kafka.server.partition.DefaultAlterPartitionManager", "handleAlterPartitionResponse"),
            Site(
                "kafka.server.DefaultAlterPartitionManager",
                "kafka$server$DefaultAlterPartitionManager$$handleAlterPartitionResponse",
            ),
        ),
        seldom="an ISR must change",
    ),
    "alter_partition_decided": CodePoint(
        text="the active controller is about to decide on an AlterPartition",
        sites=(Site("org.apache.kafka.controller.ReplicationControlManager", "alterPartition"),),
        roles=_CONTROLLERS,
        seldom="an ISR must change",
    ),
}
_COORDINATORS: Final[Mapping[str, CodePoint]] = {
    "transaction_state": CodePoint(
        text="a coordinator is about to append the state of a transaction",
        sites=(Site("kafka.coordinator.transaction.TransactionStateManager", "appendTransactionToLog"),),
        seldom="a producer must use transactions",
        load=Load.TRANSACTIONS,
    ),
    "transaction_markers_queued": CodePoint(
        text="a coordinator has decided on a transaction, and is about to queue its markers",
        sites=(Site("kafka.coordinator.transaction.TransactionMarkerChannelManager", "addTxnMarkersToSend"),),
        seldom="a producer must use transactions",
        load=Load.TRANSACTIONS,
    ),
    "transaction_markers_received": CodePoint(
        text="a leader is about to write transaction markers",
        sites=(Site("kafka.server.KafkaApis", "handleWriteTxnMarkersRequest"),),
        seldom="a producer must use transactions",
        load=Load.MARKERS,
    ),
    "transaction_ended": CodePoint(
        text="all markers of a transaction are written, and its coordinator is about to append that",
        sites=(Site("kafka.coordinator.transaction.TransactionMarkerChannelManager", "writeTxnCompletion"),),
        seldom="a producer must use transactions",
        load=Load.TRANSACTIONS,
    ),
    "group_write": CodePoint(
        text="a coordinator is about to schedule a write of a group",
        sites=(Site("org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime", "scheduleWriteOperation"),),
    ),
}
_TIERS: Final[Mapping[str, CodePoint]] = {
    "tier_copy": CodePoint(
        text="a segment is about to be copied to the remote tier",
        sites=(Site(f"{_TIER}$RLMCopyTask", "copyLogSegment"),),
        log="$1.topicPartition().toString()",
        tier=True,
        load=Load.TIERED,
    ),
    "tier_copied": CodePoint(
        text="a segment was copied to the remote tier",
        sites=(Site(f"{_TIER}$RLMCopyTask", "copyLogSegment"),),
        where=Where.EXIT,
        log="$1.topicPartition().toString()",
        tier=True,
        load=Load.TIERED,
    ),
    "tier_expire": CodePoint(
        text="the leader is about to look for expired segments in the remote tier",
        sites=(Site(f"{_TIER}$RLMExpirationTask", "cleanupExpiredRemoteLogSegments"),),
        tier=True,
        load=Load.TIERED,
    ),
}
_METADATA: Final[Mapping[str, CodePoint]] = {
    "raft_append": CodePoint(
        text="the active controller is about to append to the metadata log",
        sites=(Site(f"{_RAFT}.internals.KafkaRaftLog", "appendAsLeader"),),
        roles=_CONTROLLERS,
    ),
    "raft_append_fetched": CodePoint(
        text="a node is about to append what it fetched of the metadata log",
        sites=(Site(f"{_RAFT}.internals.KafkaRaftLog", "appendAsFollower"),),
        roles=_BOTH,
    ),
    "raft_flush": CodePoint(
        text="the metadata log is about to be flushed",
        sites=(Site(f"{_RAFT}.internals.KafkaRaftLog", "flush"),),
        roles=_BOTH,
    ),
    "raft_high_watermark": CodePoint(
        text="the high watermark of the metadata log is about to change",
        sites=(Site(f"{_RAFT}.internals.KafkaRaftLog", "updateHighWatermark"),),
        roles=_BOTH,
    ),
    "raft_truncate": CodePoint(
        text="the metadata log is about to be truncated",
        sites=(Site(f"{_RAFT}.internals.KafkaRaftLog", "truncateTo"),),
        roles=_BOTH,
        seldom="a controller must take over",
    ),
    "raft_snapshot": CodePoint(
        text="a snapshot of the metadata is written and about to become visible",
        sites=(Site("org.apache.kafka.snapshot.FileRawSnapshotWriter", "freeze"),),
        roles=_BOTH,
        seldom="the metadata log must grow",
    ),
    "raft_vote": CodePoint(
        text="a node is about to write its vote or the leader of the quorum",
        sites=(Site(f"{_RAFT}.FileQuorumStateStore", "writeElectionState"),),
        roles=_BOTH,
        seldom="a controller must take over",
    ),
}
POINTS: Final[Mapping[str, CodePoint]] = {
    **_LOGS,
    **_CHECKPOINTS,
    **_REPLICATION,
    **_COORDINATORS,
    **_TIERS,
    **_METADATA,
}
