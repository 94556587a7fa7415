package group

// Error codes of the protocol that the coordinator answers with.
const (
	codeNone                   int16 = 0
	codeUnknownTopic           int16 = 3  // UNKNOWN_TOPIC_OR_PARTITION
	codeRequestTimedOut        int16 = 7  // REQUEST_TIMED_OUT
	codeMetadataTooLarge       int16 = 12 // OFFSET_METADATA_TOO_LARGE
	codeLoading                int16 = 14 // COORDINATOR_LOAD_IN_PROGRESS
	codeNotAvailable           int16 = 15 // COORDINATOR_NOT_AVAILABLE
	codeNotCoordinator         int16 = 16 // NOT_COORDINATOR
	codeIllegalGeneration      int16 = 22 // ILLEGAL_GENERATION
	codeInconsistentProtocol   int16 = 23 // INCONSISTENT_GROUP_PROTOCOL
	codeInvalidGroupID         int16 = 24 // INVALID_GROUP_ID
	codeUnknownMember          int16 = 25 // UNKNOWN_MEMBER_ID
	codeInvalidSessionTimeout  int16 = 26 // INVALID_SESSION_TIMEOUT
	codeRebalanceInProgress    int16 = 27 // REBALANCE_IN_PROGRESS
	codeInvalidCommitSize      int16 = 28 // INVALID_COMMIT_OFFSET_SIZE
	codeNonEmptyGroup          int16 = 68 // NON_EMPTY_GROUP
	codeGroupIDNotFound        int16 = 69 // GROUP_ID_NOT_FOUND
	codeMemberIDRequired       int16 = 79 // MEMBER_ID_REQUIRED
	codeGroupMaxSize           int16 = 81 // GROUP_MAX_SIZE_REACHED
	codeFencedInstance         int16 = 82 // FENCED_INSTANCE_ID
	codeGroupSubscribedToTopic int16 = 86 // GROUP_SUBSCRIBED_TO_TOPIC
)
