package follower

import (
	"fmt"

	"github.com/klamm/klamm/protocol/batch"
)

// whole cuts off a batch that the answer had no room for, and checks that the
// others are whole and continue at offset.
func whole(records []byte, offset int64) ([]byte, error) {
	return batch.Whole(records, func(b batch.Batch) error {
		if b.BaseOffset() != offset || b.NextOffset() <= offset {
			return fmt.Errorf("it has a batch of offsets %d to %d, want one at %d", b.BaseOffset(), b.LastOffset(), offset)
		}
		offset = b.NextOffset()
		return nil
	})
}
