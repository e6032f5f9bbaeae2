package follower

import (
	"errors"
	"fmt"

	"github.com/klamm/klamm/protocol/batch"
)

// whole cuts off a batch that the answer had no room for, and checks that the
// others are whole and continue at offset.
func whole(records []byte, offset int64) ([]byte, error) {
	rest := records
	for len(rest) > 0 {
		b, tail, err := batch.Next(rest)
		if errors.Is(err, batch.ErrIncomplete) {
			break
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return nil, err
		}
		if b.BaseOffset() != offset || b.NextOffset() <= offset {
			return nil, fmt.Errorf("it has a batch of offsets %d to %d, want one at %d", b.BaseOffset(), b.LastOffset(), offset)
		}
		rest, offset = tail, b.NextOffset()
	}
	return records[:len(records)-len(rest)], nil
}
