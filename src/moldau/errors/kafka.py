"""One class for each error code of the protocol, from Apache Kafka 4.4.0."""

from __future__ import annotations

from moldau.errors.roots import KafkaError


class UnknownServerError(KafkaError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker met an error that Kafka has no code for; the broker's log has its trace."""


class OffsetOutOfRangeError(KafkaError, code=1, name="OFFSET_OUT_OF_RANGE"):
    """The offset is below the first or above the last offset of the partition."""


class CorruptMessageError(KafkaError, code=2, name="CORRUPT_MESSAGE", is_retriable=True):
    """The records fail their checksum, exceed a limit of their format, or lack a key on a compacted topic."""


class UnknownTopicOrPartitionError(KafkaError, code=3, name="UNKNOWN_TOPIC_OR_PARTITION", is_retriable=True):
    """This broker has no such topic or partition."""


class InvalidFetchSizeError(KafkaError, code=4, name="INVALID_FETCH_SIZE"):
    """The fetch asks for a negative number of bytes."""


class LeaderNotAvailableError(KafkaError, code=5, name="LEADER_NOT_AVAILABLE", is_retriable=True):
    """The partition has no leader at the moment: an election is under way."""


class NotLeaderOrFollowerError(KafkaError, code=6, name="NOT_LEADER_OR_FOLLOWER", is_retriable=True):
    """This broker is not the partition's leader, or holds no replica of it."""


class RequestTimedOutError(KafkaError, code=7, name="REQUEST_TIMED_OUT", is_retriable=True):
    """The broker did not finish the request within the request's own timeout."""


class BrokerNotAvailableError(KafkaError, code=8, name="BROKER_NOT_AVAILABLE"):
    """The broker is not available."""


class ReplicaNotAvailableError(KafkaError, code=9, name="REPLICA_NOT_AVAILABLE", is_retriable=True):
    """The replica is not available for this request."""


class MessageTooLargeError(KafkaError, code=10, name="MESSAGE_TOO_LARGE"):
    """A batch is larger than `max.message.bytes` of the topic."""


class StaleControllerEpochError(KafkaError, code=11, name="STALE_CONTROLLER_EPOCH"):
    """The controller that asked was replaced by a newer one."""


class OffsetMetadataTooLargeError(KafkaError, code=12, name="OFFSET_METADATA_TOO_LARGE"):
    """The metadata of a committed offset is longer than `offset.metadata.max.bytes`."""


class NetworkExceptionError(KafkaError, code=13, name="NETWORK_EXCEPTION", is_retriable=True):
    """The server disconnected before it answered."""


class CoordinatorLoadInProgressError(KafkaError, code=14, name="COORDINATOR_LOAD_IN_PROGRESS", is_retriable=True):
    """The coordinator is still reading the groups or transactions that it is responsible for."""


class CoordinatorNotAvailableError(KafkaError, code=15, name="COORDINATOR_NOT_AVAILABLE", is_retriable=True):
    """No coordinator can serve the group or transaction now."""


class NotCoordinatorError(KafkaError, code=16, name="NOT_COORDINATOR", is_retriable=True):
    """This broker is not the coordinator of the group or transaction."""


class InvalidTopicExceptionError(KafkaError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic's name is invalid, or the topic is internal and refuses this request."""


class RecordListTooLargeError(KafkaError, code=18, name="RECORD_LIST_TOO_LARGE"):
    """A batch is larger than a segment of the log may be."""


class NotEnoughReplicasError(KafkaError, code=19, name="NOT_ENOUGH_REPLICAS", is_retriable=True):
    """Fewer replicas are in sync than `min.insync.replicas` asks for; nothing was written."""


class NotEnoughReplicasAfterAppendError(
    KafkaError, code=20, name="NOT_ENOUGH_REPLICAS_AFTER_APPEND", is_retriable=True
):
    """The records were written, but fewer replicas are in sync than `min.insync.replicas` asks for."""


class InvalidRequiredAcksError(KafkaError, code=21, name="INVALID_REQUIRED_ACKS"):
    """`acks` is none of 0, 1 and -1."""


class IllegalGenerationError(KafkaError, code=22, name="ILLEGAL_GENERATION"):
    """The member speaks of another generation of the group than the present one."""


class InconsistentGroupProtocolError(KafkaError, code=23, name="INCONSISTENT_GROUP_PROTOCOL"):
    """The member shares no protocol type or no assignment strategy with the rest of the group."""


class InvalidGroupIdError(KafkaError, code=24, name="INVALID_GROUP_ID"):
    """The group id is invalid."""


class UnknownMemberIdError(KafkaError, code=25, name="UNKNOWN_MEMBER_ID"):
    """The group has no member of this id: its session ended, or it left."""


class InvalidSessionTimeoutError(KafkaError, code=26, name="INVALID_SESSION_TIMEOUT"):
    """The session timeout is outside of `group.min.session.timeout.ms` to `group.max.session.timeout.ms`."""


class RebalanceInProgressError(KafkaError, code=27, name="REBALANCE_IN_PROGRESS"):
    """The group is rebalancing: the member joins again."""


class InvalidCommitOffsetSizeError(KafkaError, code=28, name="INVALID_COMMIT_OFFSET_SIZE"):
    """The record of the committed offset is larger than the broker's log accepts."""


class TopicAuthorizationFailedError(KafkaError, code=29, name="TOPIC_AUTHORIZATION_FAILED"):
    """The client is not allowed to access the topic."""


class GroupAuthorizationFailedError(KafkaError, code=30, name="GROUP_AUTHORIZATION_FAILED"):
    """The client is not allowed to access the group."""


class ClusterAuthorizationFailedError(KafkaError, code=31, name="CLUSTER_AUTHORIZATION_FAILED"):
    """The client is not allowed to perform this operation on the cluster."""


class InvalidTimestampError(KafkaError, code=32, name="INVALID_TIMESTAMP"):
    """A record's timestamp is too far from the broker's clock, or is invalid."""


class UnsupportedSaslMechanismError(KafkaError, code=33, name="UNSUPPORTED_SASL_MECHANISM"):
    """The broker does not offer this SASL mechanism."""


class IllegalSaslStateError(KafkaError, code=34, name="ILLEGAL_SASL_STATE"):
    """The request is not valid in this state of the SASL handshake."""


class UnsupportedVersionError(KafkaError, code=35, name="UNSUPPORTED_VERSION"):
    """The broker does not support this version or this feature."""


class TopicAlreadyExistsError(KafkaError, code=36, name="TOPIC_ALREADY_EXISTS"):
    """A topic of this name exists."""


class InvalidPartitionsError(KafkaError, code=37, name="INVALID_PARTITIONS"):
    """The number of partitions is below 1, or does not exceed the present number."""


class InvalidReplicationFactorError(KafkaError, code=38, name="INVALID_REPLICATION_FACTOR"):
    """The replication factor is below 1, or exceeds the number of brokers."""


class InvalidReplicaAssignmentError(KafkaError, code=39, name="INVALID_REPLICA_ASSIGNMENT"):
    """The replica assignment is invalid."""


class InvalidConfigError(KafkaError, code=40, name="INVALID_CONFIG"):
    """A setting is unknown, or its value is invalid."""


class NotControllerError(KafkaError, code=41, name="NOT_CONTROLLER", is_retriable=True):
    """This node is not the controller."""


class InvalidRequestError(KafkaError, code=42, name="INVALID_REQUEST"):
    """The request contradicts itself, or the protocol forbids it here."""


class UnsupportedForMessageFormatError(KafkaError, code=43, name="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
    """The format of the partition's records does not support the request."""


class PolicyViolationError(KafkaError, code=44, name="POLICY_VIOLATION"):
    """A policy of the broker forbids the request."""


class OutOfOrderSequenceNumberError(KafkaError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER"):
    """A producer's sequence number does not follow the last one: records in between are missing."""


class DuplicateSequenceNumberError(KafkaError, code=46, name="DUPLICATE_SEQUENCE_NUMBER"):
    """The broker has these records already, under the same sequence numbers."""


class InvalidProducerEpochError(KafkaError, code=47, name="INVALID_PRODUCER_EPOCH"):
    """A producer of the same id and a newer epoch has taken over."""


class InvalidTxnStateError(KafkaError, code=48, name="INVALID_TXN_STATE"):
    """The transaction is not in a state that allows the operation."""


class InvalidProducerIdMappingError(KafkaError, code=49, name="INVALID_PRODUCER_ID_MAPPING"):
    """The producer id does not belong to the transactional id."""


class InvalidTransactionTimeoutError(KafkaError, code=50, name="INVALID_TRANSACTION_TIMEOUT"):
    """The transaction's timeout exceeds `transaction.max.timeout.ms`."""


class ConcurrentTransactionsError(KafkaError, code=51, name="CONCURRENT_TRANSACTIONS", is_retriable=True):
    """Another operation of the same transaction is still running."""


class TransactionCoordinatorFencedError(KafkaError, code=52, name="TRANSACTION_COORDINATOR_FENCED"):
    """The transaction coordinator that asked was replaced by a newer one."""


class TransactionalIdAuthorizationFailedError(KafkaError, code=53, name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
    """The client is not allowed to use the transactional id."""


class SecurityDisabledError(KafkaError, code=54, name="SECURITY_DISABLED"):
    """Security is not switched on: the broker has no authorizer."""


class OperationNotAttemptedError(KafkaError, code=55, name="OPERATION_NOT_ATTEMPTED"):
    """The operation was not attempted: another part of the request failed."""


class KafkaStorageError(KafkaError, code=56, name="KAFKA_STORAGE_ERROR", is_retriable=True):
    """The broker cannot write or read the partition's log directory."""


class LogDirNotFoundError(KafkaError, code=57, name="LOG_DIR_NOT_FOUND"):
    """The broker has no log directory of this path."""


class SaslAuthenticationFailedError(KafkaError, code=58, name="SASL_AUTHENTICATION_FAILED"):
    """The SASL authentication failed."""


class UnknownProducerIdError(KafkaError, code=59, name="UNKNOWN_PRODUCER_ID"):
    """The broker does not know the producer id: its records are gone, or its state expired."""


class ReassignmentInProgressError(KafkaError, code=60, name="REASSIGNMENT_IN_PROGRESS"):
    """A reassignment of the partition is under way."""


class DelegationTokenAuthDisabledError(KafkaError, code=61, name="DELEGATION_TOKEN_AUTH_DISABLED"):
    """The cluster has no delegation tokens switched on."""


class DelegationTokenNotFoundError(KafkaError, code=62, name="DELEGATION_TOKEN_NOT_FOUND"):
    """The delegation token does not exist."""


class DelegationTokenOwnerMismatchError(KafkaError, code=63, name="DELEGATION_TOKEN_OWNER_MISMATCH"):
    """The client does not own the delegation token."""


class DelegationTokenRequestNotAllowedError(KafkaError, code=64, name="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
    """Delegation tokens cannot be requested over this connection."""


class DelegationTokenAuthorizationFailedError(KafkaError, code=65, name="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
    """The client is not allowed to use delegation tokens."""


class DelegationTokenExpiredError(KafkaError, code=66, name="DELEGATION_TOKEN_EXPIRED"):
    """The delegation token has expired."""


class InvalidPrincipalTypeError(KafkaError, code=67, name="INVALID_PRINCIPAL_TYPE"):
    """The type of the principal is not supported."""


class NonEmptyGroupError(KafkaError, code=68, name="NON_EMPTY_GROUP"):
    """The group has members; only an empty group can be deleted."""


class GroupIdNotFoundError(KafkaError, code=69, name="GROUP_ID_NOT_FOUND"):
    """The broker knows no such group."""


class FetchSessionIdNotFoundError(KafkaError, code=70, name="FETCH_SESSION_ID_NOT_FOUND", is_retriable=True):
    """The broker has no such fetch session."""


class InvalidFetchSessionEpochError(KafkaError, code=71, name="INVALID_FETCH_SESSION_EPOCH", is_retriable=True):
    """The epoch of the fetch session is not the expected one."""


class ListenerNotFoundError(KafkaError, code=72, name="LISTENER_NOT_FOUND", is_retriable=True):
    """The partition's leader has no listener of the name that the client used."""


class TopicDeletionDisabledError(KafkaError, code=73, name="TOPIC_DELETION_DISABLED"):
    """`delete.topic.enable` is false."""


class FencedLeaderEpochError(KafkaError, code=74, name="FENCED_LEADER_EPOCH", is_retriable=True):
    """The client's leader epoch is older than the broker's."""


class UnknownLeaderEpochError(KafkaError, code=75, name="UNKNOWN_LEADER_EPOCH", is_retriable=True):
    """The client's leader epoch is newer than the broker's."""


class UnsupportedCompressionTypeError(KafkaError, code=76, name="UNSUPPORTED_COMPRESSION_TYPE"):
    """The client's version of the request cannot carry the compression type of the records."""


class StaleBrokerEpochError(KafkaError, code=77, name="STALE_BROKER_EPOCH"):
    """The broker epoch that was sent is not the present one."""


class OffsetNotAvailableError(KafkaError, code=78, name="OFFSET_NOT_AVAILABLE", is_retriable=True):
    """A new leader does not know its high watermark yet."""


class MemberIdRequiredError(KafkaError, code=79, name="MEMBER_ID_REQUIRED"):
    """The member must join again with the member id that this answer gives (KIP-394)."""


class PreferredLeaderNotAvailableError(KafkaError, code=80, name="PREFERRED_LEADER_NOT_AVAILABLE", is_retriable=True):
    """The preferred leader cannot lead now."""


class GroupMaxSizeReachedError(KafkaError, code=81, name="GROUP_MAX_SIZE_REACHED"):
    """The group has as many members as `group.max.size` allows."""


class FencedInstanceIdError(KafkaError, code=82, name="FENCED_INSTANCE_ID"):
    """Another member has joined with the same `group.instance.id`."""


class EligibleLeadersNotAvailableError(KafkaError, code=83, name="ELIGIBLE_LEADERS_NOT_AVAILABLE", is_retriable=True):
    """No replica that may lead the partition is available."""


class ElectionNotNeededError(KafkaError, code=84, name="ELECTION_NOT_NEEDED", is_retriable=True):
    """The partition needs no election: the wanted leader leads."""


class NoReassignmentInProgressError(KafkaError, code=85, name="NO_REASSIGNMENT_IN_PROGRESS"):
    """No reassignment of the partition is under way."""


class GroupSubscribedToTopicError(KafkaError, code=86, name="GROUP_SUBSCRIBED_TO_TOPIC"):
    """Offsets of a topic that a member of the group subscribes to cannot be deleted."""


class InvalidRecordError(KafkaError, code=87, name="INVALID_RECORD"):
    """The broker refuses a record; the answer names the record where it can."""


class UnstableOffsetCommitError(KafkaError, code=88, name="UNSTABLE_OFFSET_COMMIT", is_retriable=True):
    """The offset belongs to a transaction that has not ended."""


class ThrottlingQuotaExceededError(KafkaError, code=89, name="THROTTLING_QUOTA_EXCEEDED", is_retriable=True):
    """The client is over its quota and tries again after the throttle time."""


class ProducerFencedError(KafkaError, code=90, name="PRODUCER_FENCED"):
    """A newer producer of the same transactional id has taken over."""


class ResourceNotFoundError(KafkaError, code=91, name="RESOURCE_NOT_FOUND"):
    """The thing that the request names does not exist."""


class DuplicateResourceError(KafkaError, code=92, name="DUPLICATE_RESOURCE"):
    """The request names a thing twice, or the thing exists."""


class UnacceptableCredentialError(KafkaError, code=93, name="UNACCEPTABLE_CREDENTIAL"):
    """The credential does not meet the requirements."""


class InconsistentVoterSetError(KafkaError, code=94, name="INCONSISTENT_VOTER_SET"):
    """Sender and receiver of a vote disagree about the set of voters."""


class InvalidUpdateVersionError(KafkaError, code=95, name="INVALID_UPDATE_VERSION"):
    """The feature update asks for an invalid version."""


class FeatureUpdateFailedError(KafkaError, code=96, name="FEATURE_UPDATE_FAILED"):
    """The controller could not update the features."""


class PrincipalDeserializationFailureError(KafkaError, code=97, name="PRINCIPAL_DESERIALIZATION_FAILURE"):
    """The forwarded principal cannot be decoded."""


class SnapshotNotFoundError(KafkaError, code=98, name="SNAPSHOT_NOT_FOUND"):
    """The broker has no such snapshot."""


class PositionOutOfRangeError(KafkaError, code=99, name="POSITION_OUT_OF_RANGE"):
    """The position is outside of the snapshot."""


class UnknownTopicIdError(KafkaError, code=100, name="UNKNOWN_TOPIC_ID", is_retriable=True):
    """The broker knows no topic of this id."""


class DuplicateBrokerRegistrationError(KafkaError, code=101, name="DUPLICATE_BROKER_REGISTRATION"):
    """A broker of this id is registered already and alive."""


class BrokerIdNotRegisteredError(KafkaError, code=102, name="BROKER_ID_NOT_REGISTERED"):
    """No broker of this id is registered."""


class InconsistentTopicIdError(KafkaError, code=103, name="INCONSISTENT_TOPIC_ID", is_retriable=True):
    """The topic id in the log differs from the one in the request."""


class InconsistentClusterIdError(KafkaError, code=104, name="INCONSISTENT_CLUSTER_ID"):
    """The cluster id in the request is not this cluster's."""


class TransactionalIdNotFoundError(KafkaError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND"):
    """The transactional id does not exist."""


class FetchSessionTopicIdError(KafkaError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR", is_retriable=True):
    """The fetch session met a topic id that it did not expect."""


class IneligibleReplicaError(KafkaError, code=107, name="INELIGIBLE_REPLICA"):
    """The replica cannot join the replicas that are in sync."""


class NewLeaderElectedError(KafkaError, code=108, name="NEW_LEADER_ELECTED"):
    """The controller has elected a new leader meanwhile."""


class OffsetMovedToTieredStorageError(KafkaError, code=109, name="OFFSET_MOVED_TO_TIERED_STORAGE"):
    """The offset has moved to tiered storage."""


class FencedMemberEpochError(KafkaError, code=110, name="FENCED_MEMBER_EPOCH"):
    """The member's epoch is behind the group's (KIP-848)."""


class UnreleasedInstanceIdError(KafkaError, code=111, name="UNRELEASED_INSTANCE_ID"):
    """Another member of the group still uses the `group.instance.id` (KIP-848)."""


class UnsupportedAssignorError(KafkaError, code=112, name="UNSUPPORTED_ASSIGNOR"):
    """The group does not support the assignor (KIP-848)."""


class StaleMemberEpochError(KafkaError, code=113, name="STALE_MEMBER_EPOCH"):
    """The member's epoch is old: the member asks again once it has the new one (KIP-848)."""


class MismatchedEndpointTypeError(KafkaError, code=114, name="MISMATCHED_ENDPOINT_TYPE"):
    """The request came to the wrong kind of endpoint: a broker's or a controller's."""


class UnsupportedEndpointTypeError(KafkaError, code=115, name="UNSUPPORTED_ENDPOINT_TYPE"):
    """This kind of endpoint is not supported."""


class UnknownControllerIdError(KafkaError, code=116, name="UNKNOWN_CONTROLLER_ID"):
    """No controller of this id is known."""


class UnknownSubscriptionIdError(KafkaError, code=117, name="UNKNOWN_SUBSCRIPTION_ID"):
    """The client's telemetry subscription is not the present one (KIP-714)."""


class TelemetryTooLargeError(KafkaError, code=118, name="TELEMETRY_TOO_LARGE"):
    """The client's telemetry is larger than the broker accepts (KIP-714)."""


class InvalidRegistrationError(KafkaError, code=119, name="INVALID_REGISTRATION"):
    """The controller refuses the broker's registration."""


class TransactionAbortableError(KafkaError, code=120, name="TRANSACTION_ABORTABLE"):
    """The transaction met an error; the client can abort the transaction and go on."""


class InvalidRecordStateError(KafkaError, code=121, name="INVALID_RECORD_STATE"):
    """A record of a share group is not in a state that allows the operation (KIP-932)."""


class ShareSessionNotFoundError(KafkaError, code=122, name="SHARE_SESSION_NOT_FOUND", is_retriable=True):
    """The broker has no such share session (KIP-932)."""


class InvalidShareSessionEpochError(KafkaError, code=123, name="INVALID_SHARE_SESSION_EPOCH", is_retriable=True):
    """The epoch of the share session is not the expected one (KIP-932)."""


class FencedStateEpochError(KafkaError, code=124, name="FENCED_STATE_EPOCH"):
    """A share coordinator of a newer state epoch has taken over (KIP-932)."""


class InvalidVoterKeyError(KafkaError, code=125, name="INVALID_VOTER_KEY"):
    """The voter's directory id does not match (KIP-853)."""


class DuplicateVoterError(KafkaError, code=126, name="DUPLICATE_VOTER"):
    """The voter belongs to the set of voters already (KIP-853)."""


class VoterNotFoundError(KafkaError, code=127, name="VOTER_NOT_FOUND"):
    """The voter does not belong to the set of voters (KIP-853)."""


class InvalidRegularExpressionError(KafkaError, code=128, name="INVALID_REGULAR_EXPRESSION"):
    """The regular expression of a subscription is invalid (KIP-848)."""


class RebootstrapRequiredError(KafkaError, code=129, name="REBOOTSTRAP_REQUIRED"):
    """The client must start again from its bootstrap servers (KIP-1102)."""


class StreamsInvalidTopologyError(KafkaError, code=130, name="STREAMS_INVALID_TOPOLOGY"):
    """The streams group cannot use the topology (KIP-1071)."""


class StreamsInvalidTopologyEpochError(KafkaError, code=131, name="STREAMS_INVALID_TOPOLOGY_EPOCH"):
    """The epoch of the topology is invalid (KIP-1071)."""


class StreamsTopologyFencedError(KafkaError, code=132, name="STREAMS_TOPOLOGY_FENCED"):
    """A newer topology of the streams group has taken over (KIP-1071)."""


class ShareSessionLimitReachedError(KafkaError, code=133, name="SHARE_SESSION_LIMIT_REACHED", is_retriable=True):
    """The broker holds as many share sessions as it may (KIP-932)."""


class GroupDeletionFailedError(KafkaError, code=134, name="GROUP_DELETION_FAILED"):
    """The group was not deleted; the message of its result says why (KIP-1331)."""


class StreamsTopologyDescriptionUpdateFailedError(
    KafkaError, code=135, name="STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"
):
    """The broker did not take the description of the topology (KIP-1331)."""


class ControllerIdNotRegisteredError(KafkaError, code=136, name="CONTROLLER_ID_NOT_REGISTERED"):
    """No controller is registered with this id."""
