package protocol

import (
	"errors"
	"fmt"
)

// Error is a Kafka error code as a Go error. Its text is the code's name, as
// Kafka's documentation and clients print it. Wrap it with %w where more is to
// be said; CodeOf finds it again when a response is written.
type Error int16

// The error codes of Kafka 4.4 (Errors.java). None is not an error: it is the
// code of success.
const (
	None                                      Error = 0
	ErrUnknownServerError                     Error = -1
	ErrOffsetOutOfRange                       Error = 1
	ErrCorruptMessage                         Error = 2
	ErrUnknownTopicOrPartition                Error = 3
	ErrInvalidFetchSize                       Error = 4
	ErrLeaderNotAvailable                     Error = 5
	ErrNotLeaderForPartition                  Error = 6
	ErrRequestTimedOut                        Error = 7
	ErrBrokerNotAvailable                     Error = 8
	ErrReplicaNotAvailable                    Error = 9
	ErrMessageTooLarge                        Error = 10
	ErrStaleControllerEpoch                   Error = 11
	ErrOffsetMetadataTooLarge                 Error = 12
	ErrNetworkException                       Error = 13
	ErrCoordinatorLoadInProgress              Error = 14
	ErrCoordinatorNotAvailable                Error = 15
	ErrNotCoordinator                         Error = 16
	ErrInvalidTopicException                  Error = 17
	ErrRecordListTooLarge                     Error = 18
	ErrNotEnoughReplicas                      Error = 19
	ErrNotEnoughReplicasAfterAppend           Error = 20
	ErrInvalidRequiredAcks                    Error = 21
	ErrIllegalGeneration                      Error = 22
	ErrInconsistentGroupProtocol              Error = 23
	ErrInvalidGroupID                         Error = 24
	ErrUnknownMemberID                        Error = 25
	ErrInvalidSessionTimeout                  Error = 26
	ErrRebalanceInProgress                    Error = 27
	ErrInvalidCommitOffsetSize                Error = 28
	ErrTopicAuthorizationFailed               Error = 29
	ErrGroupAuthorizationFailed               Error = 30
	ErrClusterAuthorizationFailed             Error = 31
	ErrInvalidTimestamp                       Error = 32
	ErrUnsupportedSASLMechanism               Error = 33
	ErrIllegalSASLState                       Error = 34
	ErrUnsupportedVersion                     Error = 35
	ErrTopicAlreadyExists                     Error = 36
	ErrInvalidPartitions                      Error = 37
	ErrInvalidReplicationFactor               Error = 38
	ErrInvalidReplicaAssignment               Error = 39
	ErrInvalidConfig                          Error = 40
	ErrNotController                          Error = 41
	ErrInvalidRequest                         Error = 42
	ErrUnsupportedForMessageFormat            Error = 43
	ErrPolicyViolation                        Error = 44
	ErrOutOfOrderSequenceNumber               Error = 45
	ErrDuplicateSequenceNumber                Error = 46
	ErrInvalidProducerEpoch                   Error = 47
	ErrInvalidTxnState                        Error = 48
	ErrInvalidProducerIDMapping               Error = 49
	ErrInvalidTransactionTimeout              Error = 50
	ErrConcurrentTransactions                 Error = 51
	ErrTransactionCoordinatorFenced           Error = 52
	ErrTransactionalIDAuthorizationFailed     Error = 53
	ErrSecurityDisabled                       Error = 54
	ErrOperationNotAttempted                  Error = 55
	ErrKafkaStorageError                      Error = 56
	ErrLogDirNotFound                         Error = 57
	ErrSASLAuthenticationFailed               Error = 58
	ErrUnknownProducerID                      Error = 59
	ErrReassignmentInProgress                 Error = 60
	ErrDelegationTokenAuthDisabled            Error = 61
	ErrDelegationTokenNotFound                Error = 62
	ErrDelegationTokenOwnerMismatch           Error = 63
	ErrDelegationTokenRequestNotAllowed       Error = 64
	ErrDelegationTokenAuthorizationFailed     Error = 65
	ErrDelegationTokenExpired                 Error = 66
	ErrInvalidPrincipalType                   Error = 67
	ErrNonEmptyGroup                          Error = 68
	ErrGroupIDNotFound                        Error = 69
	ErrFetchSessionIDNotFound                 Error = 70
	ErrInvalidFetchSessionEpoch               Error = 71
	ErrListenerNotFound                       Error = 72
	ErrTopicDeletionDisabled                  Error = 73
	ErrFencedLeaderEpoch                      Error = 74
	ErrUnknownLeaderEpoch                     Error = 75
	ErrUnsupportedCompressionType             Error = 76
	ErrStaleBrokerEpoch                       Error = 77
	ErrOffsetNotAvailable                     Error = 78
	ErrMemberIDRequired                       Error = 79
	ErrPreferredLeaderNotAvailable            Error = 80
	ErrGroupMaxSizeReached                    Error = 81
	ErrFencedInstanceID                       Error = 82
	ErrEligibleLeadersNotAvailable            Error = 83
	ErrElectionNotNeeded                      Error = 84
	ErrNoReassignmentInProgress               Error = 85
	ErrGroupSubscribedToTopic                 Error = 86
	ErrInvalidRecord                          Error = 87
	ErrUnstableOffsetCommit                   Error = 88
	ErrThrottlingQuotaExceeded                Error = 89
	ErrProducerFenced                         Error = 90
	ErrResourceNotFound                       Error = 91
	ErrDuplicateResource                      Error = 92
	ErrUnacceptableCredential                 Error = 93
	ErrInconsistentVoterSet                   Error = 94
	ErrInvalidUpdateVersion                   Error = 95
	ErrFeatureUpdateFailed                    Error = 96
	ErrPrincipalDeserializationFailure        Error = 97
	ErrSnapshotNotFound                       Error = 98
	ErrPositionOutOfRange                     Error = 99
	ErrUnknownTopicID                         Error = 100
	ErrDuplicateBrokerRegistration            Error = 101
	ErrBrokerIDNotRegistered                  Error = 102
	ErrInconsistentTopicID                    Error = 103
	ErrInconsistentClusterID                  Error = 104
	ErrTransactionalIDNotFound                Error = 105
	ErrFetchSessionTopicIDError               Error = 106
	ErrIneligibleReplica                      Error = 107
	ErrNewLeaderElected                       Error = 108
	ErrOffsetMovedToTieredStorage             Error = 109
	ErrFencedMemberEpoch                      Error = 110
	ErrUnreleasedInstanceID                   Error = 111
	ErrUnsupportedAssignor                    Error = 112
	ErrStaleMemberEpoch                       Error = 113
	ErrMismatchedEndpointType                 Error = 114
	ErrUnsupportedEndpointType                Error = 115
	ErrUnknownControllerID                    Error = 116
	ErrUnknownSubscriptionID                  Error = 117
	ErrTelemetryTooLarge                      Error = 118
	ErrInvalidRegistration                    Error = 119
	ErrTransactionAbortable                   Error = 120
	ErrInvalidRecordState                     Error = 121
	ErrShareSessionNotFound                   Error = 122
	ErrInvalidShareSessionEpoch               Error = 123
	ErrFencedStateEpoch                       Error = 124
	ErrInvalidVoterKey                        Error = 125
	ErrDuplicateVoter                         Error = 126
	ErrVoterNotFound                          Error = 127
	ErrInvalidRegularExpression               Error = 128
	ErrRebootstrapRequired                    Error = 129
	ErrStreamsInvalidTopology                 Error = 130
	ErrStreamsInvalidTopologyEpoch            Error = 131
	ErrStreamsTopologyFenced                  Error = 132
	ErrShareSessionLimitReached               Error = 133
	ErrGroupDeletionFailed                    Error = 134
	ErrStreamsTopologyDescriptionUpdateFailed Error = 135
	ErrControllerIDNotRegistered              Error = 136
)

var errorNames = map[Error]string{
	None:                                      "NONE",
	ErrUnknownServerError:                     "UNKNOWN_SERVER_ERROR",
	ErrOffsetOutOfRange:                       "OFFSET_OUT_OF_RANGE",
	ErrCorruptMessage:                         "CORRUPT_MESSAGE",
	ErrUnknownTopicOrPartition:                "UNKNOWN_TOPIC_OR_PARTITION",
	ErrInvalidFetchSize:                       "INVALID_FETCH_SIZE",
	ErrLeaderNotAvailable:                     "LEADER_NOT_AVAILABLE",
	ErrNotLeaderForPartition:                  "NOT_LEADER_FOR_PARTITION",
	ErrRequestTimedOut:                        "REQUEST_TIMED_OUT",
	ErrBrokerNotAvailable:                     "BROKER_NOT_AVAILABLE",
	ErrReplicaNotAvailable:                    "REPLICA_NOT_AVAILABLE",
	ErrMessageTooLarge:                        "MESSAGE_TOO_LARGE",
	ErrStaleControllerEpoch:                   "STALE_CONTROLLER_EPOCH",
	ErrOffsetMetadataTooLarge:                 "OFFSET_METADATA_TOO_LARGE",
	ErrNetworkException:                       "NETWORK_EXCEPTION",
	ErrCoordinatorLoadInProgress:              "COORDINATOR_LOAD_IN_PROGRESS",
	ErrCoordinatorNotAvailable:                "COORDINATOR_NOT_AVAILABLE",
	ErrNotCoordinator:                         "NOT_COORDINATOR",
	ErrInvalidTopicException:                  "INVALID_TOPIC_EXCEPTION",
	ErrRecordListTooLarge:                     "RECORD_LIST_TOO_LARGE",
	ErrNotEnoughReplicas:                      "NOT_ENOUGH_REPLICAS",
	ErrNotEnoughReplicasAfterAppend:           "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	ErrInvalidRequiredAcks:                    "INVALID_REQUIRED_ACKS",
	ErrIllegalGeneration:                      "ILLEGAL_GENERATION",
	ErrInconsistentGroupProtocol:              "INCONSISTENT_GROUP_PROTOCOL",
	ErrInvalidGroupID:                         "INVALID_GROUP_ID",
	ErrUnknownMemberID:                        "UNKNOWN_MEMBER_ID",
	ErrInvalidSessionTimeout:                  "INVALID_SESSION_TIMEOUT",
	ErrRebalanceInProgress:                    "REBALANCE_IN_PROGRESS",
	ErrInvalidCommitOffsetSize:                "INVALID_COMMIT_OFFSET_SIZE",
	ErrTopicAuthorizationFailed:               "TOPIC_AUTHORIZATION_FAILED",
	ErrGroupAuthorizationFailed:               "GROUP_AUTHORIZATION_FAILED",
	ErrClusterAuthorizationFailed:             "CLUSTER_AUTHORIZATION_FAILED",
	ErrInvalidTimestamp:                       "INVALID_TIMESTAMP",
	ErrUnsupportedSASLMechanism:               "UNSUPPORTED_SASL_MECHANISM",
	ErrIllegalSASLState:                       "ILLEGAL_SASL_STATE",
	ErrUnsupportedVersion:                     "UNSUPPORTED_VERSION",
	ErrTopicAlreadyExists:                     "TOPIC_ALREADY_EXISTS",
	ErrInvalidPartitions:                      "INVALID_PARTITIONS",
	ErrInvalidReplicationFactor:               "INVALID_REPLICATION_FACTOR",
	ErrInvalidReplicaAssignment:               "INVALID_REPLICA_ASSIGNMENT",
	ErrInvalidConfig:                          "INVALID_CONFIG",
	ErrNotController:                          "NOT_CONTROLLER",
	ErrInvalidRequest:                         "INVALID_REQUEST",
	ErrUnsupportedForMessageFormat:            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	ErrPolicyViolation:                        "POLICY_VIOLATION",
	ErrOutOfOrderSequenceNumber:               "OUT_OF_ORDER_SEQUENCE_NUMBER",
	ErrDuplicateSequenceNumber:                "DUPLICATE_SEQUENCE_NUMBER",
	ErrInvalidProducerEpoch:                   "INVALID_PRODUCER_EPOCH",
	ErrInvalidTxnState:                        "INVALID_TXN_STATE",
	ErrInvalidProducerIDMapping:               "INVALID_PRODUCER_ID_MAPPING",
	ErrInvalidTransactionTimeout:              "INVALID_TRANSACTION_TIMEOUT",
	ErrConcurrentTransactions:                 "CONCURRENT_TRANSACTIONS",
	ErrTransactionCoordinatorFenced:           "TRANSACTION_COORDINATOR_FENCED",
	ErrTransactionalIDAuthorizationFailed:     "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	ErrSecurityDisabled:                       "SECURITY_DISABLED",
	ErrOperationNotAttempted:                  "OPERATION_NOT_ATTEMPTED",
	ErrKafkaStorageError:                      "KAFKA_STORAGE_ERROR",
	ErrLogDirNotFound:                         "LOG_DIR_NOT_FOUND",
	ErrSASLAuthenticationFailed:               "SASL_AUTHENTICATION_FAILED",
	ErrUnknownProducerID:                      "UNKNOWN_PRODUCER_ID",
	ErrReassignmentInProgress:                 "REASSIGNMENT_IN_PROGRESS",
	ErrDelegationTokenAuthDisabled:            "DELEGATION_TOKEN_AUTH_DISABLED",
	ErrDelegationTokenNotFound:                "DELEGATION_TOKEN_NOT_FOUND",
	ErrDelegationTokenOwnerMismatch:           "DELEGATION_TOKEN_OWNER_MISMATCH",
	ErrDelegationTokenRequestNotAllowed:       "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	ErrDelegationTokenAuthorizationFailed:     "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	ErrDelegationTokenExpired:                 "DELEGATION_TOKEN_EXPIRED",
	ErrInvalidPrincipalType:                   "INVALID_PRINCIPAL_TYPE",
	ErrNonEmptyGroup:                          "NON_EMPTY_GROUP",
	ErrGroupIDNotFound:                        "GROUP_ID_NOT_FOUND",
	ErrFetchSessionIDNotFound:                 "FETCH_SESSION_ID_NOT_FOUND",
	ErrInvalidFetchSessionEpoch:               "INVALID_FETCH_SESSION_EPOCH",
	ErrListenerNotFound:                       "LISTENER_NOT_FOUND",
	ErrTopicDeletionDisabled:                  "TOPIC_DELETION_DISABLED",
	ErrFencedLeaderEpoch:                      "FENCED_LEADER_EPOCH",
	ErrUnknownLeaderEpoch:                     "UNKNOWN_LEADER_EPOCH",
	ErrUnsupportedCompressionType:             "UNSUPPORTED_COMPRESSION_TYPE",
	ErrStaleBrokerEpoch:                       "STALE_BROKER_EPOCH",
	ErrOffsetNotAvailable:                     "OFFSET_NOT_AVAILABLE",
	ErrMemberIDRequired:                       "MEMBER_ID_REQUIRED",
	ErrPreferredLeaderNotAvailable:            "PREFERRED_LEADER_NOT_AVAILABLE",
	ErrGroupMaxSizeReached:                    "GROUP_MAX_SIZE_REACHED",
	ErrFencedInstanceID:                       "FENCED_INSTANCE_ID",
	ErrEligibleLeadersNotAvailable:            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
	ErrElectionNotNeeded:                      "ELECTION_NOT_NEEDED",
	ErrNoReassignmentInProgress:               "NO_REASSIGNMENT_IN_PROGRESS",
	ErrGroupSubscribedToTopic:                 "GROUP_SUBSCRIBED_TO_TOPIC",
	ErrInvalidRecord:                          "INVALID_RECORD",
	ErrUnstableOffsetCommit:                   "UNSTABLE_OFFSET_COMMIT",
	ErrThrottlingQuotaExceeded:                "THROTTLING_QUOTA_EXCEEDED",
	ErrProducerFenced:                         "PRODUCER_FENCED",
	ErrResourceNotFound:                       "RESOURCE_NOT_FOUND",
	ErrDuplicateResource:                      "DUPLICATE_RESOURCE",
	ErrUnacceptableCredential:                 "UNACCEPTABLE_CREDENTIAL",
	ErrInconsistentVoterSet:                   "INCONSISTENT_VOTER_SET",
	ErrInvalidUpdateVersion:                   "INVALID_UPDATE_VERSION",
	ErrFeatureUpdateFailed:                    "FEATURE_UPDATE_FAILED",
	ErrPrincipalDeserializationFailure:        "PRINCIPAL_DESERIALIZATION_FAILURE",
	ErrSnapshotNotFound:                       "SNAPSHOT_NOT_FOUND",
	ErrPositionOutOfRange:                     "POSITION_OUT_OF_RANGE",
	ErrUnknownTopicID:                         "UNKNOWN_TOPIC_ID",
	ErrDuplicateBrokerRegistration:            "DUPLICATE_BROKER_REGISTRATION",
	ErrBrokerIDNotRegistered:                  "BROKER_ID_NOT_REGISTERED",
	ErrInconsistentTopicID:                    "INCONSISTENT_TOPIC_ID",
	ErrInconsistentClusterID:                  "INCONSISTENT_CLUSTER_ID",
	ErrTransactionalIDNotFound:                "TRANSACTIONAL_ID_NOT_FOUND",
	ErrFetchSessionTopicIDError:               "FETCH_SESSION_TOPIC_ID_ERROR",
	ErrIneligibleReplica:                      "INELIGIBLE_REPLICA",
	ErrNewLeaderElected:                       "NEW_LEADER_ELECTED",
	ErrOffsetMovedToTieredStorage:             "OFFSET_MOVED_TO_TIERED_STORAGE",
	ErrFencedMemberEpoch:                      "FENCED_MEMBER_EPOCH",
	ErrUnreleasedInstanceID:                   "UNRELEASED_INSTANCE_ID",
	ErrUnsupportedAssignor:                    "UNSUPPORTED_ASSIGNOR",
	ErrStaleMemberEpoch:                       "STALE_MEMBER_EPOCH",
	ErrMismatchedEndpointType:                 "MISMATCHED_ENDPOINT_TYPE",
	ErrUnsupportedEndpointType:                "UNSUPPORTED_ENDPOINT_TYPE",
	ErrUnknownControllerID:                    "UNKNOWN_CONTROLLER_ID",
	ErrUnknownSubscriptionID:                  "UNKNOWN_SUBSCRIPTION_ID",
	ErrTelemetryTooLarge:                      "TELEMETRY_TOO_LARGE",
	ErrInvalidRegistration:                    "INVALID_REGISTRATION",
	ErrTransactionAbortable:                   "TRANSACTION_ABORTABLE",
	ErrInvalidRecordState:                     "INVALID_RECORD_STATE",
	ErrShareSessionNotFound:                   "SHARE_SESSION_NOT_FOUND",
	ErrInvalidShareSessionEpoch:               "INVALID_SHARE_SESSION_EPOCH",
	ErrFencedStateEpoch:                       "FENCED_STATE_EPOCH",
	ErrInvalidVoterKey:                        "INVALID_VOTER_KEY",
	ErrDuplicateVoter:                         "DUPLICATE_VOTER",
	ErrVoterNotFound:                          "VOTER_NOT_FOUND",
	ErrInvalidRegularExpression:               "INVALID_REGULAR_EXPRESSION",
	ErrRebootstrapRequired:                    "REBOOTSTRAP_REQUIRED",
	ErrStreamsInvalidTopology:                 "STREAMS_INVALID_TOPOLOGY",
	ErrStreamsInvalidTopologyEpoch:            "STREAMS_INVALID_TOPOLOGY_EPOCH",
	ErrStreamsTopologyFenced:                  "STREAMS_TOPOLOGY_FENCED",
	ErrShareSessionLimitReached:               "SHARE_SESSION_LIMIT_REACHED",
	ErrGroupDeletionFailed:                    "GROUP_DELETION_FAILED",
	ErrStreamsTopologyDescriptionUpdateFailed: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
	ErrControllerIDNotRegistered:              "CONTROLLER_ID_NOT_REGISTERED",
}

// Error returns the name of the code, such as NOT_LEADER_OR_FOLLOWER.
func (e Error) Error() string {
	if name, ok := errorNames[e]; ok {
		return name
	}
	return fmt.Sprintf("ERROR_%d", int16(e))
}

// Described is an Error with the text that goes into a response's error
// message, where the API has a field for it.
type Described struct {
	Code    Error
	Message string
}

// Errorf returns a code with a message for the client.
func Errorf(code Error, format string, args ...any) error {
	return &Described{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the code's name and the message.
func (d *Described) Error() string { return d.Code.Error() + ": " + d.Message }

// Unwrap returns the code, so that errors.Is finds it.
func (d *Described) Unwrap() error { return d.Code }

// CodeOf returns the code that a response carries for err: None for nil, the
// wrapped Error where there is one, and ErrUnknownServerError for everything
// else, which is a bug of ours that the caller logs.
func CodeOf(err error) Error {
	if err == nil {
		return None
	}
	var code Error
	if errors.As(err, &code) {
		return code
	}
	return ErrUnknownServerError
}

// IsBug tells whether err carries no code of its own: what CodeOf turns it into
// then is our fault, and belongs into the log. A client that is answered
// UNKNOWN_SERVER_ERROR because Kafka says so to its request carries the code.
func IsBug(err error) bool {
	var code Error
	return err != nil && !errors.As(err, &code)
}

// MessageOf returns the text for a response's error message field, or nil
// where err carries none of its own.
func MessageOf(err error) *string {
	var d *Described
	if errors.As(err, &d) {
		return &d.Message
	}
	return nil
}
