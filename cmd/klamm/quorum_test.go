package main

import (
	"math"
	"testing"
	"time"
)

// A timeout that a request can not hold is not one that has passed.
func TestTimeoutMs(t *testing.T) {
	for d, want := range map[time.Duration]int32{
		-time.Second: 1000, 0: 1000, 30 * time.Second: 30_000, 1000 * time.Hour: math.MaxInt32,
	} {
		if got := timeoutMs(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}
