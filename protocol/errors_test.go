package protocol

import (
	"errors"
	"fmt"
	"testing"
)

// TestIsBug: what a client is answered on purpose is no bug, whatever the code.
func TestIsBug(t *testing.T) {
	for _, c := range []struct {
		err  error
		code Error
		bug  bool
	}{
		{nil, None, false},
		{ErrUnknownServerError, ErrUnknownServerError, false},
		{fmt.Errorf("isolation level 7: %w", ErrUnknownServerError), ErrUnknownServerError, false},
		{Errorf(ErrInvalidRequest, "no"), ErrInvalidRequest, false},
		{errors.New("nobody thought of this"), ErrUnknownServerError, true},
	} {
		if got := CodeOf(c.err); got != c.code {
			t.Errorf("CodeOf(%v) = %v, want %v", c.err, got, c.code)
		}
		if got := IsBug(c.err); got != c.bug {
			t.Errorf("IsBug(%v) = %t", c.err, got)
		}
	}
}
