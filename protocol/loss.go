package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Loss is what a replica had to cut off that may have been acknowledged, because
// its leader was elected without it: the offsets from From on, below To. Those below
// Committed had been committed for certain.
type Loss struct{ From, To, Committed int64 }

// IsZero tells whether nothing is lost.
func (l Loss) IsZero() bool { return l.From >= l.To }

func (l Loss) String() string {
	switch {
	case l.Committed >= l.To:
		return fmt.Sprintf("offsets %d to %d, which had been committed", l.From, l.To-1)
	case l.Committed > l.From:
		return fmt.Sprintf("offsets %d to %d, of which those up to %d had been committed", l.From, l.To-1, l.Committed-1)
	}
	return fmt.Sprintf("offsets %d to %d, which may have been committed", l.From, l.To-1)
}

// With is the loss of two replicas.
func (l Loss) With(other Loss) Loss {
	switch {
	case l.IsZero():
		return other
	case other.IsZero():
		return l
	}
	return Loss{min(l.From, other.From), max(l.To, other.To), max(l.Committed, other.Committed)}
}

// lossTag is the number of the tagged field in which a leader tells the controller of
// a loss, in a partition of AlterPartition. Kafka numbers its own fields from 0
// without gaps, and skips a number that it does not know (KIP-482).
const lossTag = 10_000

// Tag adds the loss to the tagged fields of a request.
func (l Loss) Tag(tags *kmsg.Tags) {
	if l.IsZero() {
		return
	}
	var b []byte
	for _, offset := range []int64{l.From, l.To, l.Committed} {
		b = binary.BigEndian.AppendUint64(b, uint64(offset))
	}
	tags.Set(lossTag, b)
}

// LossOf is the loss among the tagged fields of a request, zero where there is none,
// or none that makes sense.
func LossOf(tags *kmsg.Tags) Loss {
	var l Loss
	tags.Each(func(tag uint32, b []byte) {
		if tag != lossTag || len(b) != 24 {
			return
		}
		l.From, l.To = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
		l.Committed = int64(binary.BigEndian.Uint64(b[16:]))
	})
	if l.From < 0 || l.Committed < l.From || l.Committed > l.To {
		return Loss{}
	}
	return l
}
