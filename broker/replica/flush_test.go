package replica

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

func flushing() TopicConfig {
	return TopicConfig{Log: storage.LogConfig{FlushMessages: 1}}
}

// TestFollowerFlushes: with flush.messages=1 a follower is told to sync before it says
// how far it is, what a recovery found included.
func TestFollowerFlushes(t *testing.T) {
	log, config := &fakeLog{leo: 2}, flushing()
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &config, &told{})
	p.become(registration(2, 0, 1, 2), actionFollow, log, 0)
	want := func(due bool) Position {
		t.Helper()
		if got := p.FollowedDue(); got != due {
			t.Fatalf("a flush is due: %t, want %t", got, due)
		}
		at, _ := p.Position()
		return at
	}
	flush := func(at Position) {
		t.Helper()
		if err := p.FlushFollowed(at); err != nil {
			t.Fatal(err)
		}
	}
	flush(want(true)) // the recovery's
	if err := p.AppendAsFollower(want(false), records(3), 0, 0); err != nil {
		t.Fatal(err)
	}
	at := want(true)
	log.failFlush = errDisk
	if err := p.FlushFollowed(at); !errors.Is(err, errDisk) {
		t.Fatalf("flush: %v", err)
	}
	want(true)
	log.failFlush = nil
	flush(at)
	want(false)
	if log.flushed != log.leo {
		t.Fatalf("synced up to %d", log.flushed)
	}
	// A leader's are synced for those who wait.
	p.become(registration(1, 1, 1, 2), actionLead, log, 0)
	want(false)
}

// TestNewLeaderFlushes: what a new leader has that is not synced does not count,
// though nobody waits for it, until Apply has synced it.
func TestNewLeaderFlushes(t *testing.T) {
	log, config := &fakeLog{leo: 4, flushed: 1}, flushing()
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &config, &told{})
	p.become(registration(2, 0, 1, 2), actionFollow, log, 1)
	p.become(registration(1, 1, 1, 2), actionLead, log, 1)
	p.followerReached(FetchRequest{Replica: 2, Offset: 4}, 1, log.leo)
	wantHighWatermark(t, p, log, 1)
	end, due := p.unflushed()
	if !due || end != 4 {
		t.Fatalf("to be synced: %t, up to %d", due, end)
	}
	if err := p.flush(end); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 4)

	// Without flush.messages the page cache counts.
	log, config = &fakeLog{leo: 4, flushed: 1}, TopicConfig{}
	p = newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &config, &told{})
	p.become(registration(1, 1, 1), actionLead, log, 1)
	wantHighWatermark(t, p, log, 4)
}

// TestApplyFlushes: it is Apply that syncs.
func TestApplyFlushes(t *testing.T) {
	log, config := &fakeLog{leo: 4}, flushing()
	m := NewManager(Config{
		Node: 1, Store: oneLog{Log: log},
		TopicConfig: func(*metadata.Image, string) TopicConfig { return config },
	}, zerolog.Nop())
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &config, &told{})
	m.change(step{act: actionLead, partition: p, after: registration(1, 0, 1)})
	wantHighWatermark(t, p, log, 4)
	if log.flushed != 4 {
		t.Fatalf("synced up to %d", log.flushed)
	}
}

// oneLog is a store of one log.
type oneLog struct {
	Store
	Log
}

func (s oneLog) Open(protocol.TopicPartition, protocol.UUID, protocol.UUID, *TopicConfig) (Log, int64, error) {
	return s.Log, 0, nil
}
