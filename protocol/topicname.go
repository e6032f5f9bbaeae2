package protocol

// MaxTopicNameLength bounds a topic's name, so that a replica's directory name
// with its suffixes fits into the 255 bytes of common file systems.
const MaxTopicNameLength = 249

// The topics that coordinators keep their state in.
const (
	OffsetsTopic          = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// ValidateTopicName returns ErrInvalidTopicException with Kafka's text where no
// topic may have that name.
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return Errorf(ErrInvalidTopicException, "Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return Errorf(ErrInvalidTopicException, "Topic name is invalid: '%s' is not allowed", name)
	case len(name) > MaxTopicNameLength:
		return Errorf(ErrInvalidTopicException,
			"Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, MaxTopicNameLength)
	}
	for i := range len(name) {
		if !topicNameByte(name[i]) {
			return Errorf(ErrInvalidTopicException,
				"Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

func topicNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// IsInternalTopic tells whether clients are told that a topic is internal.
// The metadata log's is not among them, as no client sees it.
func IsInternalTopic(name string) bool {
	return name == OffsetsTopic || name == TransactionStateTopic || name == ShareGroupStateTopic
}
