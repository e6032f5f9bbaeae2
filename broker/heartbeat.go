package broker

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// How soon the next heartbeat follows where the answer is awaited eagerly.
const (
	// retryPause follows a heartbeat that got no answer.
	retryPause = 100 * time.Millisecond
	// eagerPause follows one that asked for what the controller has not done
	// yet: to be unfenced, to be let go. Metadata that arrives cuts it short.
	eagerPause = 50 * time.Millisecond
)

// heart sends the heartbeats of one registration.
type heart struct {
	cfg   *Config
	log   zerolog.Logger
	epoch protocol.BrokerEpoch
	// offset returns the offset that the broker has got to.
	offset func() int64
	// offline returns the log directories that have gone out of service.
	offline func() []protocol.UUID

	wake     chan struct{} // size 1: a wish for a heartbeat at once; more add nothing
	unfenced chan struct{} // closed at the first answer that says so
	released chan struct{} // closed when the controller lets the broker go, or knows it no more

	mu           sync.Mutex
	wantUnfence  bool
	wantShutdown bool
	awaiting     bool // the last answer did not grant what was asked for
	lastAnswer   time.Time

	// Of the sending goroutine.
	fenced    bool
	lastError protocol.Error
}

func newHeart(cfg *Config, log zerolog.Logger, epoch protocol.BrokerEpoch, offset func() int64, offline func() []protocol.UUID) *heart {
	return &heart{
		cfg: cfg, log: log, epoch: epoch, offset: offset, offline: offline, fenced: true, lastAnswer: time.Now(),
		wake: make(chan struct{}, 1), unfenced: make(chan struct{}), released: make(chan struct{}),
	}
}

// unfence begins to ask for being unfenced.
func (h *heart) unfence() {
	h.mu.Lock()
	h.wantUnfence = true
	h.mu.Unlock()
	h.beatNow()
}

// shutdown begins to ask for a controlled shutdown.
func (h *heart) shutdown() {
	h.mu.Lock()
	h.wantShutdown = true
	h.mu.Unlock()
	h.beatNow()
}

func (h *heart) beatNow() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// progressed is called when the broker has acted on more of the metadata. The
// controller waits for that before it unfences a broker or lets it go.
func (h *heart) progressed() {
	h.mu.Lock()
	awaiting := h.awaiting
	h.mu.Unlock()
	if awaiting {
		h.beatNow()
	}
}

// silence is how long no controller has answered.
func (h *heart) silence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.lastAnswer)
}

// run sends heartbeats until ctx ends. The registration counts as the first.
func (h *heart) run(ctx context.Context) {
	timer := time.NewTimer(h.cfg.HeartbeatInterval)
	defer timer.Stop()
	moved := h.moved()
	for {
		select {
		case <-timer.C:
		case <-h.wake:
		case <-moved:
		case <-ctx.Done():
			return
		}
		moved = h.moved() // before the heartbeat, which may come to the one before
		next := h.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(next)
	}
}

func (h *heart) moved() <-chan struct{} {
	if h.cfg.Moved == nil {
		return nil
	}
	return h.cfg.Moved()
}

// beat sends one heartbeat and returns when the next is due.
func (h *heart) beat(ctx context.Context) time.Duration {
	h.mu.Lock()
	unfence, shutdown := h.wantUnfence, h.wantShutdown
	h.awaiting = false
	h.mu.Unlock()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = req.MaxVersion()
	req.BrokerID, req.BrokerEpoch = int32(h.cfg.NodeID), int64(h.epoch)
	req.CurrentMetadataOffset = h.offset()
	req.WantFence, req.WantShutdown = !unfence, shutdown
	for _, dir := range h.offline() {
		req.OfflineLogDirs = append(req.OfflineLogDirs, dir)
	}
	// None is cordoned, as cordoned.log.dirs has no effect here yet; null would say
	// that it is not known.
	req.CordonedLogDirs = [][16]byte{}

	attempt, cancel := context.WithTimeout(ctx, h.cfg.SessionTimeout)
	resp, err := h.cfg.Controller.Do(attempt, req)
	cancel()
	r, ok := resp.(*kmsg.BrokerHeartbeatResponse)
	if err != nil || !ok {
		if ctx.Err() == nil {
			h.log.Warn().Err(err).Msg("heartbeat got no answer")
		}
		return retryPause
	}
	code := protocol.Error(r.ErrorCode)
	granted := r.ShouldShutdown || !shutdown && (!r.IsFenced || !unfence)
	h.mu.Lock()
	h.lastAnswer = time.Now()
	h.awaiting = code == protocol.None && !granted
	h.mu.Unlock()
	if code != protocol.None {
		return h.refused(code, shutdown)
	}
	h.lastError = protocol.None
	h.noteFenced(r.IsFenced, shutdown)
	if shutdown && granted {
		closeOnce(h.released)
	}
	if !granted {
		if h.offset() > req.CurrentMetadataOffset {
			return 0 // what the controller waits for has happened meanwhile
		}
		return min(eagerPause, h.cfg.HeartbeatInterval)
	}
	return h.cfg.HeartbeatInterval
}

// refused notes that the controller does not know this registration. The
// broker goes on asking: it leads nothing any more by its own image, and whoever
// unregistered it, or registered its id, decides what comes next.
func (h *heart) refused(code protocol.Error, shutdown bool) time.Duration {
	if h.lastError != code {
		h.lastError = code
		h.log.Error().Err(code).Int64("broker_epoch", int64(h.epoch)).Msg("heartbeat refused")
	}
	if shutdown && (code == protocol.ErrStaleBrokerEpoch || code == protocol.ErrBrokerIDNotRegistered) {
		closeOnce(h.released) // there is nothing left to hand over
	}
	return h.cfg.HeartbeatInterval
}

func (h *heart) noteFenced(fenced, shutdown bool) {
	if fenced == h.fenced {
		return
	}
	h.fenced = fenced
	if fenced && shutdown {
		return // the end of a controlled shutdown
	}
	if fenced {
		h.log.Warn().Msg("fenced by the controller")
		return
	}
	h.log.Info().Msg("unfenced by the controller")
	closeOnce(h.unfenced)
}

// closeOnce closes a channel that one goroutine closes, at most once.
func closeOnce(ch chan struct{}) {
	if !isClosed(ch) {
		close(ch)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
