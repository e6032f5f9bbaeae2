package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// members is Raft's membership: whoever is invited has everything after a second, and
// who is named in the log votes at once.
type members struct {
	w *world

	mu      sync.Mutex
	invited map[protocol.NodeID]time.Time
	slow    bool // nobody ever has everything
	story   []string
}

func (m *members) Invite(v raftlog.Voter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invited[v.ID] = time.Now()
	m.story = append(m.story, fmt.Sprintf("feed %d at %s", v.ID, v.Endpoint))
}

func (m *members) Uninvite(v raftlog.Voter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.invited, v.ID)
	m.story = append(m.story, fmt.Sprintf("leave %d", v.ID))
}

func (m *members) Member(v raftlog.Voter) (raftlog.Membership, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, invited := m.invited[v.ID]
	named := strings.Contains(m.w.voters(), fmt.Sprint(v.ID))
	return raftlog.Membership{
		Member: invited || named, Votes: named, CaughtUp: invited && !m.slow && time.Since(since) >= time.Second,
	}, nil
}

func (m *members) Settled() bool { return true }

func (m *members) Directory(id protocol.NodeID) (protocol.UUID, bool) {
	return protocol.UUID{byte(id)}, id != 3
}

func (m *members) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	story := strings.Join(m.story, ", ")
	m.story = nil
	return story
}

// voters are those that the log names.
func (w *world) voters() string {
	quorum := w.machine.quorum.Load()
	if quorum == nil || quorum.Voters == nil {
		return "none"
	}
	var ids []string
	for _, v := range quorum.Voters.Voters {
		ids = append(ids, fmt.Sprint(v.ID))
	}
	return strings.Join(ids, " ")
}

func votingWorld(t *testing.T) (*world, *members) {
	m := &members{invited: make(map[protocol.NodeID]time.Time)}
	cfg := testConfig()
	voters := &Voters{
		Members: m, Listener: "CONTROLLER", Static: []raftlog.Voter{{ID: 1, Endpoint: "c1:9093"}},
		Supports: func(_ context.Context, addr string) (int16, int16, error) {
			switch addr {
			case "mute:1":
				return 0, 0, errors.New("connection refused")
			case "old:1":
				return 0, 0, nil
			}
			return 0, 1, nil
		},
	}
	cfg.Voters = voters
	machine := newMachine()
	voters.Quorum = func() snapshot.Quorum {
		if q := machine.quorum.Load(); q != nil {
			return *q
		}
		return snapshot.Quorum{}
	}
	w := newWorldOn(t, cfg, machine)
	m.w = w
	w.machine.take()
	return w, m
}

func voter(id protocol.NodeID, host string) record.Voter {
	return record.Voter{
		ID: id, DirectoryID: protocol.UUID{byte(id)},
		Endpoints: []record.VoterEndpoint{{Name: "OTHER", Host: "other", Port: 9}, {Name: "CONTROLLER", Host: host, Port: 1}},
	}
}

// A static quorum becomes a dynamic one; a voter is fed, named and only then votes; what
// does not get that far leaves no trace; one change at a time.
func TestChangeVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := votingWorld(t)
		defer w.stop()
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		follows, silent := func() bool { return true }, func() bool { return false }
		says := func(err error, want string) {
			t.Helper()
			if fmt.Sprint(err) != want {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
		}
		const key = "ReplicaKey(id=2, directoryId=AgAAAAAAAAAAAAAAAAAAAA)"
		says(w.c.AddVoter(within(time.Minute), voter(2, "c2"), "", follows),
			"UNSUPPORTED_VERSION: Cluster doesn't support adding voter because the kraft.version feature is 0")

		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = 2
		req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: feature.KRaftVersion, MaxVersionLevel: 1, UpgradeType: 1}}
		req.ValidateOnly = true
		for range 2 {
			answer, err := w.c.UpdateFeatures(req, "", soon()).Wait(t.Context())
			if err != nil || answer.Response.ErrorCode != 0 {
				t.Fatalf("%+v, %v", answer.Response, err)
			}
			req.ValidateOnly = false
		}
		w.check("KRaftVersion KRaftVoters")

		says(w.c.AddVoter(within(time.Minute), voter(2, "c2"), "", silent), "REQUEST_TIMED_OUT: Aborted add voter operation for "+key+" since it is lagging behind")
		if story := m.told(); story != "" {
			t.Errorf("one that does not follow: %s", story)
		}
		m.slow = true
		says(w.c.AddVoter(within(5*time.Second), voter(2, "c2"), "", follows), "REQUEST_TIMED_OUT: Aborted add voter operation for "+key+" since it is lagging behind")
		m.slow = false
		says(w.c.AddVoter(within(time.Minute), voter(2, "mute"), "", follows), "REQUEST_TIMED_OUT: New voter "+key+" is not ready to receive requests")
		says(w.c.AddVoter(within(time.Minute), voter(2, "old"), "", follows),
			"INVALID_REQUEST: Aborted add voter operation for "+key+" since the kraft.version range (min: 0, max: 0) doesn't support the finalized version 1")
		if got := m.told(); got != "feed 2 at c2:1, leave 2, feed 2 at mute:1, leave 2, feed 2 at old:1, leave 2" {
			t.Errorf("the members: %s", got)
		}
		w.check()

		adding := make(chan error, 1)
		go func() { adding <- w.c.AddVoter(within(time.Minute), voter(2, "c2"), "", follows) }()
		synctest.Wait()
		says(w.c.RemoveVoter(within(time.Minute), 1, protocol.UUID{1}, ""),
			"REQUEST_TIMED_OUT: Request timed out waiting for leader to handle previous voter change request")
		w.check() // nothing is written before it has everything
		if err := <-adding; err != nil {
			t.Fatal(err)
		}
		w.check("KRaftVoters")
		if got := w.voters(); got != "1 2" {
			t.Errorf("voters %s", got)
		}
		// Records of others go on behind those of the quorum.
		if _, err := w.create(1, "t").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}

		says(w.c.RemoveVoter(within(time.Minute), 1, protocol.UUID{1}, ""),
			"INVALID_REQUEST: Without "+decide.ReplicaKey(1, protocol.UUID{1})+" only 0 of 1 voters answer, which is no majority: remove those first that are dead")
		if err := w.c.RemoveVoter(within(time.Minute), 2, protocol.UUID{2}, ""); err != nil {
			t.Error(err)
		}
		// One that names endpoints beyond measure does not cost the leader its office.
		talkative := voter(1, "moved")
		talkative.MaxKRaft = 1
		for i := range 40 {
			talkative.Endpoints = append(talkative.Endpoints, record.VoterEndpoint{Name: fmt.Sprint(i), Host: strings.Repeat("h", 30_000), Port: 1})
		}
		says(w.c.UpdateVoter(within(time.Minute), talkative), "POLICY_VIOLATION: Unable to perform excessively large batch operation.")
		updated := voter(1, "moved")
		updated.MaxKRaft = 1
		if err := w.c.UpdateVoter(within(time.Minute), updated); err != nil {
			t.Error(err)
		}
		if q := w.machine.quorum.Load(); w.voters() != "1" || q.Voters.Voters[0].Endpoints[1].Host != "moved" {
			t.Errorf("voters %+v", q.Voters)
		}
	})
}
