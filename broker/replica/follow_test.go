package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
)

// following returns a partition that broker 1 follows broker 2 with, under epoch 3.
func following(log *fakeLog, events *told) *Partition {
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{}, events)
	p.become(registration(2, 3, 1, 2), actionFollow, log, 0)
	return p
}

func position(t *testing.T, p *Partition) Position {
	t.Helper()
	at, ok := p.Position()
	if !ok {
		t.Fatal("the partition does not follow")
	}
	return at
}

// TestFollow: records, high watermark and log start come from the leader, none
// of them further than the log reaches.
func TestFollow(t *testing.T) {
	log := &fakeLog{}
	p := following(log, &told{})
	at := position(t, p)
	if want := (Position{Leader: 2, LeaderEpoch: 3, LastEpoch: -1}); at != want {
		t.Fatalf("position %+v, want %+v", at, want)
	}
	if err := p.AppendAsFollower(at, records(5), 9, 7); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 5)
	if log.start != 5 {
		t.Errorf("log start %d, want 5", log.start)
	}
	// A leader whose own high watermark lags behind does not pull ours back. Nor does an
	// answer without records change what the next fetch says was the last epoch (B042 of
	// package integration/faults).
	before := position(t, p)
	if err := p.AppendAsFollower(before, nil, 2, 0); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 5)
	if at := position(t, p); at.LastEpoch != before.LastEpoch || at.LastEpoch < 0 || at.Offset != before.Offset {
		t.Errorf("position %+v after an empty answer, before %+v", at, before)
	}
}

// TestLateAnswer: what was asked in another position, under another epoch or in
// another role touches nothing (B044).
func TestLateAnswer(t *testing.T) {
	log := &fakeLog{}
	p := following(log, &told{})
	at := position(t, p)
	refused := func(what string) {
		t.Helper()
		for name, err := range map[string]error{
			"append": p.AppendAsFollower(at, records(1), 0, 0), "truncate": p.Truncate(at, 0, 0), "start over": p.StartOver(at, 4),
		} {
			if !errors.Is(err, protocol.ErrFencedLeaderEpoch) {
				t.Errorf("%s: %s: %v", what, name, err)
			}
		}
	}
	if err := p.AppendAsFollower(at, records(2), 0, 0); err != nil {
		t.Fatal(err)
	}
	refused("another position")
	at = position(t, p)
	p.become(registration(2, 4, 1, 2), actionFollow, log, 0)
	refused("another epoch")
	at = position(t, p)
	p.become(registration(1, 5, 1, 2), actionLead, log, 0)
	refused("another role")
	if log.leo != 2 {
		t.Errorf("log end %d, want 2", log.leo)
	}
}

// TestTruncate: the high watermark stays within the log, and records that had
// been committed are not cut off in silence.
func TestTruncate(t *testing.T) {
	events := &told{}
	log := &fakeLog{}
	p := following(log, events)
	if err := p.AppendAsFollower(position(t, p), records(5), 3, 0); err != nil {
		t.Fatal(err)
	}
	log.epochs, log.starts = []protocol.LeaderEpoch{1, 2}, []int64{0, 4}
	if err := p.Truncate(position(t, p), 1, 9); err != nil { // the leader has more of epoch 1 than we
		t.Fatal(err)
	}
	if log.leo != 4 || len(events.lose) > 0 {
		t.Errorf("log end %d, lost %v", log.leo, events.lose)
	}
	if err := p.Truncate(position(t, p), 1, 2); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 2)
	if !slices.Equal(events.lose, []int64{2}) || !slices.Equal(events.cut, []int64{4, 2}) {
		t.Errorf("lost %v, cut %v", events.lose, events.cut)
	}
	if err := p.StartOver(position(t, p), 40); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 40)
}

// TestDivergence is KIP-101 and KIP-279 in one table: this log against what the
// other says of where an epoch ends.
func TestDivergence(t *testing.T) {
	log := &fakeLog{leo: 20, epochs: []protocol.LeaderEpoch{1, 3, 5}, starts: []int64{0, 8, 15}}
	for _, tc := range []struct {
		name  string
		epoch protocol.LeaderEpoch
		end   int64
		want  int64
	}{
		{"the other has less of the epoch", 3, 10, 10},
		{"the other has more of the epoch", 3, 18, 15},
		{"the other knows only an epoch that is not here", 4, 12, 15},
		{"an epoch below all that are here", 0, 0, 0},
		{"the newest epoch", 5, 17, 17},
	} {
		if got := divergence(tc.epoch, tc.end, log.EndOffsetFor); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestReached: a follower is caught up when it asks for what there is, and as of
// its last fetch where it now has what there was then.
func TestReached(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	f := follower{id: 2, leo: unknownLEO}
	f.reached(0, 10, 1, at(1))
	if !f.caughtUp.IsZero() {
		t.Errorf("caught up at %v with nothing of 10", f.caughtUp)
	}
	f.reached(10, 20, 1, at(2))
	if f.caughtUp != at(1) {
		t.Errorf("caught up at %v, want the fetch before", f.caughtUp)
	}
	f.reached(15, 30, 1, at(3)) // not even what there was at the fetch before
	if f.caughtUp != at(1) {
		t.Errorf("caught up at %v, want still the first", f.caughtUp)
	}
	f.reached(30, 30, 1, at(4))
	if f.caughtUp != at(4) {
		t.Errorf("caught up at %v, want now", f.caughtUp)
	}
}
