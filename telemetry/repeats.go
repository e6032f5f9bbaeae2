package telemetry

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Of a kind of line, maxRepeats are written in a repeatPeriod: enough to see
// which client, topic or request it is, and no way to fill a disk.
const (
	maxRepeats   = 10
	repeatPeriod = time.Minute
)

// LimitRepeats returns a logger that leaves out warnings and errors of a message
// that has been written too often. The next one that is written says how many
// were (suppressed). It is for loggers whose lines a client can cause; what is
// lost there tells nothing new. The loggers made from it share the count.
func LimitRepeats(log zerolog.Logger) zerolog.Logger {
	return log.Hook(&repeats{now: time.Now, kinds: make(map[string]*kind)})
}

// repeats is a zerolog.Hook.
type repeats struct {
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind counts the lines of one message.
type kind struct {
	since      time.Time // when the period began
	written    int       // in the period
	suppressed int       // since one was written
}

// Run implements zerolog.Hook.
func (r *repeats) Run(e *zerolog.Event, level zerolog.Level, message string) {
	if level != zerolog.WarnLevel && level != zerolog.ErrorLevel {
		return
	}
	suppressed, ok := r.count(message)
	switch {
	case !ok:
		e.Discard()
	case suppressed > 0:
		e.Int("suppressed", suppressed)
	}
}

// count counts a line and tells whether it is to be written, and how many were
// not before it.
func (r *repeats) count(message string) (suppressed int, ok bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[message]
	if k == nil {
		k = &kind{since: now}
		r.kinds[message] = k
	}
	if now.Sub(k.since) >= repeatPeriod {
		k.since, k.written = now, 0
	}
	if k.written >= maxRepeats {
		k.suppressed++
		return 0, false
	}
	k.written++
	suppressed, k.suppressed = k.suppressed, 0
	return suppressed, true
}
