"""The class names and default messages of errors in Kafka's Java clients.

Tools print both: `org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.` The table has the
errors that these requests can get. Other errors are shown by name.
"""

from __future__ import annotations

from typing import Final

from moldau.errors import KafkaError, kafka_error

_JAVA_PACKAGE: Final = "org.apache.kafka.common.errors."

ERROR_TEXTS: Final[dict[int, str]] = {
    -1: "The server experienced an unexpected error when processing the request.",
    1: "The requested offset is not within the range of offsets maintained by the server.",
    3: "This server does not host this topic-partition.",
    5: "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    6: (
        "For requests intended only for the leader, this error indicates that the broker is not the current "
        "leader. For requests intended for any replica, this error indicates that the broker is not a replica of "
        "the topic partition."
    ),
    7: "The request timed out.",
    8: "The broker is not available.",
    9: (
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other "
        "requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a "
        "replica of the topic-partition."
    ),
    13: "The server disconnected before a response was received.",
    14: "The coordinator is loading and hence can't process requests.",
    15: "The coordinator is not available.",
    16: "This is not the correct coordinator.",
    17: "The request attempted to perform an operation on an invalid topic.",
    24: "The group id is invalid.",
    25: "The coordinator is not aware of this member.",
    27: "The group is rebalancing, so a rejoin is needed.",
    29: "Topic authorization failed.",
    30: "Group authorization failed.",
    31: "Cluster authorization failed.",
    35: "The version of API is not supported.",
    36: "Topic with this name already exists.",
    37: "Number of partitions is below 1.",
    38: "Replication factor is below 1 or larger than the number of available brokers.",
    39: "Replica assignment is invalid.",
    40: "Configuration is invalid.",
    41: "This is not the correct controller for this cluster.",
    42: (
        "This most likely occurs because of a request being malformed by the client library or the message was "
        "sent to an incompatible broker. See the broker logs for more details."
    ),
    44: "Request parameters do not satisfy the configured policy.",
    56: "Disk error when trying to access log file on the disk.",
    57: "The user-specified log directory is not found in the broker config.",
    60: "A partition reassignment is in progress.",
    61: "Delegation Token feature is not enabled.",
    62: "Delegation Token is not found on server.",
    63: "Specified Principal is not valid Owner/Renewer.",
    64: (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels."
    ),
    65: "Delegation Token authorization failed.",
    66: "Delegation Token is expired.",
    67: "Supplied principalType is not supported.",
    68: "The group is not empty.",
    69: "The group id does not exist.",
    73: "Topic deletion is disabled.",
    78: (
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be "
        "guaranteed to be monotonically increasing."
    ),
    80: "The preferred leader was not available.",
    83: "Eligible topic partition leaders are not available.",
    84: "Leader election not needed for topic partition.",
    85: "No partition reassignment is in progress.",
    86: "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    87: "This record has failed the validation on broker and hence will be rejected.",
    88: "There are unstable offsets that need to be cleared.",
    89: "The throttling quota has been exceeded.",
    91: "A request illegally referred to a resource that does not exist.",
    92: "A request illegally referred to the same resource twice.",
    93: "Requested credential would not meet criteria for acceptability.",
    100: "This server does not host this topic ID.",
    102: "The given broker ID was not registered.",
    115: "This endpoint type is not supported yet.",
    116: "This controller ID is not known.",
}
"""By error code."""

_OWN_CLASSES: Final = {
    -1: "UnknownServerException",
    7: "TimeoutException",
    13: "NetworkException",
    17: "InvalidTopicException",
    29: "TopicAuthorizationException",
    30: "GroupAuthorizationException",
    31: "ClusterAuthorizationException",
    36: "TopicExistsException",
    40: "InvalidConfigurationException",
    56: "KafkaStorageException",
    61: "DelegationTokenDisabledException",
    64: "UnsupportedByAuthenticationException",
    65: "DelegationTokenAuthorizationException",
    68: "GroupNotEmptyException",
}
"""Classes whose name does not follow from the error's name."""


def error_of(code: int, message: str | None = None) -> KafkaError:
    """The error of a response, with the broker's message, or else the default message of Kafka's clients."""
    return kafka_error(code, message or ERROR_TEXTS.get(code))


def java_name(error: KafkaError) -> str:
    """The full name of the Java class of this error."""
    return _JAVA_PACKAGE + _OWN_CLASSES.get(error.code, error.name.title().replace("_", "") + "Exception")


def as_java_says(error: KafkaError) -> str:
    """`org.apache.kafka.common.errors.SomeException: the message`, as `Throwable.toString()` formats it."""
    return f"{java_name(error)}: {error}"
