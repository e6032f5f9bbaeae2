package controller

import (
	"time"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// sessions are the leases that unfenced brokers hold by their heartbeats. Times
// are monotonic: only differences count. It is of one office, and only the loop
// touches it.
type sessions struct {
	timeout time.Duration
	own     protocol.NodeID
	of      map[protocol.NodeID]*session
}

type session struct {
	heard    time.Time // last heartbeat or registration, or the grant of a new office
	granted  bool      // never heard of in this office
	expiring bool      // an op to fence the broker is queued
	progress decide.Progress
}

// noLease is far enough for a timer.
const noLease = 24 * time.Hour

// newSessions grants every broker a full lease: the office before may have heard
// of it just now. What a broker has to have replayed is not in the image: its
// registration's offset is at most what it is now, its epoch at least.
func newSessions(timeout time.Duration, own protocol.NodeID, img *metadata.Image, now time.Time) *sessions {
	s := &sessions{timeout: timeout, own: own, of: map[protocol.NodeID]*session{}}
	for b := range img.Brokers() {
		p := decide.Progress{Registered: int64(b.Epoch), ShutDown: -1, Leaving: new(decide.Leaving)}
		if b.InControlledShutdown {
			p.ShutDown = img.Offset()
		}
		s.of[b.ID] = &session{heard: now, granted: true, progress: p}
	}
	return s
}

// alive tells whether a broker is known to live, so that nobody else may take its
// id. A lease that was only granted counts as well, but not that of this very
// node's broker: it lives in this process, and if another incarnation of it
// registers, the earlier one died with the process before.
func (s *sessions) alive(id protocol.NodeID, now time.Time) bool {
	b, ok := s.of[id]
	return ok && now.Sub(b.heard) < s.timeout && !(b.granted && id == s.own)
}

// registered begins a broker's session with its registration record at offset,
// or goes on with it where the same life of the broker registered again.
func (s *sessions) registered(id protocol.NodeID, offset int64, newLife bool, now time.Time) {
	shutDown := int64(-1)
	if b, ok := s.of[id]; ok && !newLife {
		shutDown = b.progress.ShutDown
	}
	s.of[id] = &session{heard: now, progress: decide.Progress{Registered: offset, ShutDown: shutDown, Leaving: new(decide.Leaving)}}
}

// touch renews a lease as of the time when the heartbeat came.
func (s *sessions) touch(id protocol.NodeID, at time.Time) *session {
	b, ok := s.of[id]
	if !ok {
		b = &session{progress: decide.Progress{Registered: -1, ShutDown: -1, Leaving: new(decide.Leaving)}}
		s.of[id] = b
	}
	if at.After(b.heard) {
		b.heard = at
	}
	b.granted = false
	return b
}

// nextExpiry is when the first lease of an unfenced broker ends.
func (s *sessions) nextExpiry(img *metadata.Image) time.Time {
	var next time.Time
	for b := range img.Brokers() {
		lease, ok := s.of[b.ID]
		if !ok || b.Fenced || lease.expiring {
			continue
		}
		if at := lease.heard.Add(s.timeout); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.IsZero() {
		return time.Now().Add(noLease)
	}
	return next
}

// expired returns the unfenced brokers whose lease has ended, once each.
func (s *sessions) expired(img *metadata.Image, now time.Time) []protocol.NodeID {
	var ids []protocol.NodeID
	for b := range img.Brokers() {
		lease, ok := s.of[b.ID]
		if !ok || b.Fenced || lease.expiring || now.Sub(lease.heard) < s.timeout {
			continue
		}
		lease.expiring = true
		ids = append(ids, b.ID)
	}
	return ids
}

// confirmExpiry tells whether a lease that was found expired still is, given when
// the broker was heard of but not touched yet.
func (s *sessions) confirmExpiry(id protocol.NodeID, heard, now time.Time) bool {
	lease, ok := s.of[id]
	if !ok {
		return false
	}
	lease.expiring = false
	if heard.After(lease.heard) {
		lease.heard = heard
	}
	return now.Sub(lease.heard) >= s.timeout
}

// confirmEnd tells whether a life whose process was found gone has not been heard
// of since it was suspected. heard is when it was heard of but not touched yet.
func (s *sessions) confirmEnd(of suspicion, heard time.Time) bool {
	lease, ok := s.of[of.broker]
	return ok && !lease.heard.After(of.since) && !heard.After(of.since)
}
