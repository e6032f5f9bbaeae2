package api

import (
	"context"
	"errors"
	"testing"

	"github.com/klamm/klamm/protocol"
)

// TestOutOfRangeIsMadeSure: a leader that does not know that it was replaced does not
// call out of range what it does not have (B027 of package integration/faults). From
// consumers it does not take that it is the leader for granted; a replica's epoch says
// so.
func TestOutOfRangeIsMadeSure(t *testing.T) {
	for _, tc := range []struct {
		name   string
		news   func(w *dataWorld) error // what catching up brings
		code   protocol.Error
		asked  bool
		follow bool // the fetch is a replica's
	}{
		{"it leads", func(*dataWorld) error { return nil }, protocol.ErrOffsetOutOfRange, true, false},
		{"another leads", func(w *dataWorld) error { w.lead(worldTopicID("t", 1), 2); return nil }, protocol.ErrOffsetNotAvailable, true, false},
		{"nobody knows", func(*dataWorld) error { return errors.New("no controller") }, protocol.ErrOffsetNotAvailable, true, false},
		{"a replica asks", nil, protocol.ErrOffsetOutOfRange, false, true},
	} {
		w := newDataWorld(t)
		w.topic("t", 1, 1, 1, 2)
		asked := false
		w.catchUp = func(context.Context) error {
			asked = true
			return tc.news(w)
		}
		req := fetchRequest(12, "t", 9)
		if tc.follow {
			req = replicaFetch("t", 9)
		}
		for _, wait := range []int32{0, 5000} {
			req.MaxWaitMillis, req.MinBytes = wait, 1
			p := w.fetchedPartition(req)
			if code := protocol.Error(p.ErrorCode); code != tc.code || asked != tc.asked {
				t.Errorf("%s: %v, the controller was asked: %v", tc.name, code, asked)
			}
			if tc.name == "another leads" {
				break
			}
		}
	}
	w := newDataWorld(t)
	w.topic("t", 1, 1, 1, 2)
	w.catchUp = func(context.Context) error { w.lead(worldTopicID("t", 1), 2); return nil }
	if code := protocol.Error(w.fetchedPartition(fetchRequest(10, "t", 9)).ErrorCode); code != protocol.ErrNotLeaderForPartition {
		t.Errorf("an old consumer is told %v", code)
	}
}
