package protocol

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLoss(t *testing.T) {
	for _, test := range []struct {
		loss Loss
		want string
	}{
		{Loss{60, 100, 100}, "offsets 60 to 99, which had been committed"},
		{Loss{60, 100, 81}, "offsets 60 to 99, of which those up to 80 had been committed"},
		{Loss{60, 100, 60}, "offsets 60 to 99, which may have been committed"},
	} {
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		test.loss.Tag(&p.UnknownTags)
		if got := LossOf(&p.UnknownTags); got != test.loss || got.String() != test.want {
			t.Errorf("%+v: %q, want %+v: %q", got, got, test.loss, test.want)
		}
	}
	if got := (Loss{60, 100, 70}).With(Loss{50, 90, 80}); got != (Loss{50, 100, 80}) {
		t.Errorf("together %+v", got)
	}
	if got := (Loss{}).With(Loss{50, 90, 80}); got != (Loss{50, 90, 80}) {
		t.Errorf("with none %+v", got)
	}
}

// What makes no sense is no loss.
func TestForeignLoss(t *testing.T) {
	for _, l := range []Loss{{-1, 5, 5}, {1, 5, 0}, {1, 5, 6}, {5, 5, 5}, {6, 5, 5}} {
		var tags kmsg.Tags
		Loss{0, 1, 1}.Tag(&tags) // to be written over
		var b []byte
		for _, offset := range []int64{l.From, l.To, l.Committed} {
			for shift := 56; shift >= 0; shift -= 8 {
				b = append(b, byte(offset>>shift))
			}
		}
		tags.Set(lossTag, b)
		if got := LossOf(&tags); !got.IsZero() {
			t.Errorf("%+v is read as %+v", l, got)
		}
		tags.Set(lossTag, b[1:])
		if got := LossOf(&tags); !got.IsZero() {
			t.Errorf("%d bytes are read as %+v", len(b)-1, got)
		}
	}
	var none kmsg.Tags
	Loss{}.Tag(&none)
	if none.Len() != 0 {
		t.Error("nothing lost is told")
	}
}
