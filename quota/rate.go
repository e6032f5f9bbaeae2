package quota

import (
	"math"
	"sync"
	"time"
)

// Unlimited is the rate of whom nothing holds back.
const Unlimited int64 = math.MaxInt64

// Rate holds bytes to so many a second, as an average over a window. Bytes are
// counted after they have gone, so one answer may be larger than what the rate
// has left; the next ones wait until that is made up for. After a window it is
// forgotten, as in Kafka: the lowest rate still lets something through in each.
type Rate struct {
	// window is replication.quota.window.num times …size.seconds; the bytes of one
	// size may go at once.
	window, size time.Duration

	mu      sync.Mutex
	perSec  float64
	owed    float64 // bytes that have gone beyond the rate, as of at
	at      time.Time
	limited bool
}

// NewRate returns a rate without a limit.
func NewRate(windows int, size time.Duration) *Rate {
	return &Rate{window: time.Duration(windows) * size, size: size}
}

// Set changes the rate; what has gone counts for the new one too.
func (r *Rate) Set(bytesPerSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settleLocked(time.Now())
	if r.limited = bytesPerSecond < Unlimited; !r.limited {
		r.owed = 0
	}
	r.perSec = float64(max(1, bytesPerSecond))
	r.settleLocked(r.at)
}

// Add counts bytes that have gone.
func (r *Rate) Add(bytes int) {
	if bytes <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.limited {
		return
	}
	r.settleLocked(time.Now())
	r.owed += float64(bytes)
	r.settleLocked(r.at)
}

// Wait returns how long nothing may go, 0 where it may now. It may be longer by
// then: others ask too.
func (r *Rate) Wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.limited {
		return 0
	}
	r.settleLocked(time.Now())
	beyond := r.owed - r.perSec*r.size.Seconds()
	if beyond <= 0 {
		return 0
	}
	// Rounded up: whoever comes back then is not to find a rest of nothing.
	return time.Duration(math.Ceil(beyond / r.perSec * float64(time.Second)))
}

// settleLocked takes off what the rate has let go since the last time.
func (r *Rate) settleLocked(now time.Time) {
	r.owed = max(0, r.owed-r.perSec*now.Sub(r.at).Seconds())
	r.owed = min(r.owed, r.perSec*r.window.Seconds())
	r.at = now
}
