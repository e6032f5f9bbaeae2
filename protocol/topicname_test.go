package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateTopicName(t *testing.T) {
	for _, name := range []string{"a", "a.b_c-D9", "...", "-", strings.Repeat("x", MaxTopicNameLength), "__cluster_metadata"} {
		if err := ValidateTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "ü", "a\x00", "a,b", strings.Repeat("x", MaxTopicNameLength+1)} {
		err := ValidateTopicName(name)
		if !errors.Is(err, ErrInvalidTopicException) || MessageOf(err) == nil {
			t.Errorf("%q: got %v, want INVALID_TOPIC_EXCEPTION with a text", name, err)
		}
	}
}
