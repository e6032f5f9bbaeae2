package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/klamm/klamm/protocol/batch"
)

// fakeCopy is a replica in memory, whose answers hold so many batches at a time.
func fakeCopy(t *testing.T, broker int32, start, highWatermark int64, atOnce int, text string) *replicaCopy {
	t.Helper()
	var held []batch.Batch
	for word := range strings.FieldsSeq(text) {
		var base int64
		var values string
		if _, err := fmt.Sscanf(word, "%d:%s", &base, &values); err != nil {
			t.Fatal(err)
		}
		b := batch.NewBuilder(batch.Options{BaseOffset: base})
		for i, value := range values {
			if value != '_' { // was compacted away
				b.AppendAt(batch.Record{OffsetDelta: int32(i), Timestamp: 1000, Key: []byte("k"), Value: []byte{byte(value)}})
			}
		}
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, built)
	}
	return &replicaCopy{broker: broker, start: start, highWatermark: highWatermark, read: func(_ context.Context, offset int64) ([]batch.Batch, int64, error) {
		var out []batch.Batch
		for _, b := range held {
			if b.NextOffset() > offset && b.BaseOffset() < highWatermark && len(out) < atOnce {
				out = append(out, b)
			}
		}
		return out, highWatermark, nil
	}}
}

func TestCompareReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		copies  []string
		compact bool
		want    string // bounds, then the ranges, ! before an offset of difference
	}{
		"equal":           {copies: []string{"0:ab 2:c 3:def", "0:ab 2:c 3:def", "0:ab 2:c 3:def"}, want: "0-6 0-3 3-6"},
		"another byte":    {copies: []string{"0:ab 2:c 3:def", "0:ab 2:c 3:dxf"}, want: "0-6 0-3 3-6!3"},
		"split otherwise": {copies: []string{"0:ab 2:c", "0:a 1:bc"}, want: "0-3 0-3!0"},
		"a hole":          {copies: []string{"0:a 1:b 2:c 3:d", "0:a 2:c 3:d"}, want: "0-4 0-2!1 2-4"},
		"straddling":      {copies: []string{"0:a 1:b 2:c 3:d", "0:abcd"}, want: "0-4 0-4!0"},
		"compacted":       {copies: []string{"0:ab 2:cd 4:e", "0:_b 4:e", "1:b 2:c_ 4:e"}, compact: true, want: "0-5 0-4 4-5"},
		"of a record":     {copies: []string{"0:ab 2:cd 4:e", "0:_b 2:_x 4:e"}, compact: true, want: "0-5 0-4!3 4-5"},
		"of the batches":  {copies: []string{"0:ab 2:cd 4:e", "0:abcd 4:e"}, compact: true, want: "0-5 0-4 4-5"},
		"empty":           {copies: []string{"", ""}, want: "0-0"},
	} {
		var copies []*replicaCopy
		end := int64(0)
		for i, text := range test.copies {
			c := fakeCopy(t, int32(i+1), 0, 100, 2, text)
			batches, _, _ := c.read(t.Context(), 0)
			for ; len(batches) > 0; batches, _, _ = c.read(t.Context(), c.highWatermark) {
				c.highWatermark = batches[len(batches)-1].NextOffset()
			}
			if end == 0 {
				end = c.highWatermark
			}
			if text == "" {
				end = 0
			}
			copies = append(copies, c)
		}
		for _, c := range copies {
			c.highWatermark = end
		}
		out := verified{Equal: true}
		if err := out.compare(t.Context(), copies, test.compact); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, equal := fmt.Sprintf("%d-%d", out.From, out.To), true
		for _, r := range out.Ranges {
			got += fmt.Sprintf(" %d-%d", r.From, r.To)
			if !r.Equal {
				equal = false
				got += fmt.Sprintf("!%d", *r.First)
			}
		}
		if got != test.want || out.Equal != equal || equal != !strings.Contains(test.want, "!") {
			t.Errorf("%s: %s, equal: %t; want %s", name, got, out.Equal, test.want)
		}
	}
}

// What only some have, because it was deleted there or has not come there yet, is not compared.
func TestCompareReplicasBounds(t *testing.T) {
	long := fakeCopy(t, 1, 0, 6, 10, "0:ab 2:c 3:def 6:g")
	short := fakeCopy(t, 2, 1, 3, 10, "0:ab 2:c")
	out := verified{Equal: true}
	if err := out.compare(t.Context(), []*replicaCopy{long, short}, false); err != nil || out.From != 1 || out.To != 3 || !out.Equal || out.Checksum == "" {
		t.Errorf("%+v %v", out, err)
	}
	// A replica that lacks what it says to have is no equal one.
	short = fakeCopy(t, 2, 0, 6, 10, "0:ab 2:c")
	if err := out.compare(t.Context(), []*replicaCopy{fakeCopy(t, 1, 0, 6, 10, "0:ab 2:c 3:def"), short}, false); err == nil || !strings.Contains(err.Error(), "broker 2 returns nothing at offset 3") {
		t.Errorf("%v", err)
	}
}
