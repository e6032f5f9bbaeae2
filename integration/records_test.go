//go:build integration

package integration

import (
	"fmt"
	"testing"
)

// count is the number of records of a round trip.
const count = 100_000

// codecs are all of Kafka's.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// rec is one record as the tests write and expect it.
type rec struct {
	key, value string
	header     string // value of the header "h"
}

// make100k makes records that differ in key, value and size.
func make100k() []rec {
	recs := make([]rec, count)
	for i := range recs {
		recs[i] = rec{
			key:    fmt.Sprintf("key-%d", i%1000),
			value:  fmt.Sprintf("value-%06d-%0*d", i, i%60, i*7919),
			header: fmt.Sprintf("header-%d", i%7),
		}
	}
	return recs
}

// same compares record by record and shows the first that differs.
func same(t *testing.T, got, want []rec) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("record %d of %d is %+v, want %+v", i, len(got), got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}
