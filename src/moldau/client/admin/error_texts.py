"""What Kafka's clients call an error, and what they say of it where the broker sends no sentence of its own.

Tools print both: `org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.` Only the errors that
an answer to a request of ours may hold stand here; any other is told by its name.
"""

from __future__ import annotations

from typing import Final

from moldau.errors import KafkaError, kafka_error

_JAVA_PACKAGE: Final = "org.apache.kafka.common.errors."

# code: (class of the Java client, its sentence)
ERROR_TEXTS: Final[dict[int, tuple[str, str]]] = {
    -1: ("UnknownServerException", "The server experienced an unexpected error when processing the request."),
    1: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    3: ("UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
    5: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    ),
    6: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker is not the current "
        "leader. For requests intended for any replica, this error indicates that the broker is not a replica of "
        "the topic partition.",
    ),
    7: ("TimeoutException", "The request timed out."),
    8: ("BrokerNotAvailableException", "The broker is not available."),
    9: (
        "ReplicaNotAvailableException",
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests"
        " intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of"
        " the topic-partition.",
    ),
    13: ("NetworkException", "The server disconnected before a response was received."),
    14: ("CoordinatorLoadInProgressException", "The coordinator is loading and hence can't process requests."),
    15: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    16: ("NotCoordinatorException", "This is not the correct coordinator."),
    17: ("InvalidTopicException", "The request attempted to perform an operation on an invalid topic."),
    24: ("InvalidGroupIdException", "The group id is invalid."),
    25: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    27: ("RebalanceInProgressException", "The group is rebalancing, so a rejoin is needed."),
    29: ("TopicAuthorizationException", "Topic authorization failed."),
    30: ("GroupAuthorizationException", "Group authorization failed."),
    31: ("ClusterAuthorizationException", "Cluster authorization failed."),
    35: ("UnsupportedVersionException", "The version of API is not supported."),
    36: ("TopicExistsException", "Topic with this name already exists."),
    37: ("InvalidPartitionsException", "Number of partitions is below 1."),
    38: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    39: ("InvalidReplicaAssignmentException", "Replica assignment is invalid."),
    40: ("InvalidConfigurationException", "Configuration is invalid."),
    41: ("NotControllerException", "This is not the correct controller for this cluster."),
    42: (
        "InvalidRequestException",
        "This most likely occurs because of a request being malformed by the client library or the message was "
        "sent to an incompatible broker. See the broker logs for more details.",
    ),
    44: ("PolicyViolationException", "Request parameters do not satisfy the configured policy."),
    56: ("KafkaStorageException", "Disk error when trying to access log file on the disk."),
    57: ("LogDirNotFoundException", "The user-specified log directory is not found in the broker config."),
    60: ("ReassignmentInProgressException", "A partition reassignment is in progress."),
    68: ("GroupNotEmptyException", "The group is not empty."),
    69: ("GroupIdNotFoundException", "The group id does not exist."),
    73: ("TopicDeletionDisabledException", "Topic deletion is disabled."),
    78: (
        "OffsetNotAvailableException",
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be "
        "guaranteed to be monotonically increasing.",
    ),
    80: ("PreferredLeaderNotAvailableException", "The preferred leader was not available."),
    83: ("EligibleLeadersNotAvailableException", "Eligible topic partition leaders are not available."),
    84: ("ElectionNotNeededException", "Leader election not needed for topic partition."),
    85: ("NoReassignmentInProgressException", "No partition reassignment is in progress."),
    86: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    87: ("InvalidRecordException", "This record has failed the validation on broker and hence will be rejected."),
    88: ("UnstableOffsetCommitException", "There are unstable offsets that need to be cleared."),
    89: ("ThrottlingQuotaExceededException", "The throttling quota has been exceeded."),
    91: ("ResourceNotFoundException", "A request illegally referred to a resource that does not exist."),
    92: ("DuplicateResourceException", "A request illegally referred to the same resource twice."),
    93: ("UnacceptableCredentialException", "Requested credential would not meet criteria for acceptability."),
    100: ("UnknownTopicIdException", "This server does not host this topic ID."),
    102: ("BrokerIdNotRegisteredException", "The given broker ID was not registered."),
    115: ("UnsupportedEndpointTypeException", "This endpoint type is not supported yet."),
    116: ("UnknownControllerIdException", "This controller ID is not known."),
}


def error_of(code: int, message: str | None = None) -> KafkaError:
    """The error of an answer, with the broker's sentence or, where it sent none, that of Kafka's clients."""
    text = ERROR_TEXTS.get(code)
    return kafka_error(code, message or (text[1] if text else None))


def java_name(error: KafkaError) -> str:
    """The full name of the Java class of this error."""
    text = ERROR_TEXTS.get(error.code)
    if text is not None:
        return _JAVA_PACKAGE + text[0]
    return _JAVA_PACKAGE + error.name.title().replace("_", "") + "Exception"


def as_java_says(error: KafkaError) -> str:
    """`org.apache.kafka.common.errors.SomeException: the sentence`, as `Throwable.toString()` has it."""
    return f"{java_name(error)}: {error}"
