package quota

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func newRate(bytesPerSecond int64) *Rate {
	r := NewRate(11, time.Second)
	r.Set(bytesPerSecond)
	return r
}

func (r *Rate) wants(t *testing.T, want time.Duration) {
	t.Helper()
	if got := r.Wait(); (got - want).Abs() > time.Microsecond {
		t.Errorf("wait %v, want %v", got, want)
	}
}

// What one size of the window allows may go at once, what is beyond it has to be
// waited for.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(1000)
		r.wants(t, 0)
		r.Add(1000)
		r.wants(t, 0)
		r.Add(2500)
		r.wants(t, 2500*time.Millisecond)
		time.Sleep(time.Second)
		r.wants(t, 1500*time.Millisecond)
		time.Sleep(r.Wait())
		r.wants(t, 0)
	})
}

// Over a long time exactly the rate goes through, however large the pieces are.
func TestAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, piece := range []int{100, 999, 4000} {
			r, sent, start := newRate(1000), 0, time.Now()
			for time.Since(start) < 100*time.Second {
				if wait := r.Wait(); wait > 0 {
					time.Sleep(wait)
					continue
				}
				r.Add(piece)
				sent += piece
			}
			if most := 101*1000 + piece; sent < 100*1000 || sent > most {
				t.Errorf("in pieces of %d: %d bytes in 100 s at 1000 a second, at most %d may go", piece, sent, most)
			}
		}
	})
}

// A rate that is too low for a single piece lets one through per window, 0 too.
func TestNeverForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []int64{0, 1} {
			r := newRate(rate)
			r.Add(1 << 20)
			r.wants(t, 10*time.Second)
			time.Sleep(10 * time.Second)
			r.wants(t, 0)
		}
	})
}

// A higher rate counts at once, a lower one too; without one nothing is held.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(1000)
		r.Add(6000)
		r.wants(t, 5*time.Second)
		r.Set(5000)
		r.wants(t, 200*time.Millisecond)
		r.Set(500)
		r.wants(t, 10*time.Second)
		r.Set(Unlimited)
		r.wants(t, 0)
		r.Add(math.MaxInt)
		r.wants(t, 0)
		r.Set(1000)
		r.wants(t, 0)
	})
}

func TestReplicas(t *testing.T) {
	for _, test := range []struct {
		items     []string
		partition int32
		want      bool
	}{
		{nil, 0, false},
		{[]string{"*"}, 7, true},
		{[]string{"0:1", "0:2", "3:2"}, 0, true},
		{[]string{"0:1", "0:2", "3:2"}, 3, true},
		{[]string{"0:1", "1:12"}, 1, false},
		{[]string{"0:2", ""}, 0, true},
		{[]string{"9999999999:2"}, 0, false},
	} {
		if got := ReplicasOf(test.items, 2).Has(test.partition); got != test.want {
			t.Errorf("%v: partition %d of broker 2: %v", test.items, test.partition, got)
		}
	}
}
