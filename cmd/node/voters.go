package node

import (
	"fmt"
	"sync/atomic"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/controller"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// voterSet is who votes over the metadata log: those of the configuration, or of a
// dynamic quorum (KIP-853) those that the log has.
type voterSet struct {
	log       func() snapshot.Quorum // what the log says, as of now
	formatted snapshot.Quorum        // what the directory was formatted with
	names     []string               // of controller listeners, in the order of the configuration
	initial   []raftlog.Voter
	known     atomic.Pointer[knownVoters] // what logVoters returned last
}

type knownVoters struct {
	record *record.Voters
	voters []raftlog.Voter
}

func (n *node) voters(meta *metadata, formatted snapshot.Quorum) (*voterSet, error) {
	s := &voterSet{log: meta.replayer.Quorum, formatted: formatted}
	for _, l := range n.cfg.Listeners.Controller {
		s.names = append(s.names, l.Name)
	}
	if !s.begin(n.cfg.Quorum.Voters) {
		return nil, fmt.Errorf("%s: controller.quorum.voters is empty, and %s was not formatted with --standalone, --initial-controllers or --no-initial-controllers: name the voters, such as %d@localhost:9093, or format it anew",
			n.cfg.File, n.cfg.Dirs.Metadata, n.cfg.Node.ID)
	}
	return s, nil
}

// begin finds those whom a Raft log begins with, where there is none here; it is not
// ok if nothing says who they are.
func (s *voterSet) begin(configured []config.Voter) (ok bool) {
	quorum := s.log()
	switch {
	case quorum.Version > 0 && len(configured) == 0 && quorum.Voters != nil && len(quorum.Voters.Voters) == 1:
		// A lone voter of Kafka's, or one that was made so, whoever voted once.
		s.initial = s.list(quorum.Voters)
	case s.formatted.Version > 0 && s.formatted.Voters != nil:
		s.initial = s.list(s.formatted.Voters)
	case s.formatted.Version > 0:
	case len(configured) > 0:
		// Also where the quorum has become dynamic since: Raft knows.
		for _, v := range configured {
			s.initial = append(s.initial, raftlog.Voter{ID: v.ID, Endpoint: v.Address()})
		}
	case quorum.Version == 0:
		return false
	}
	return true
}

// list is a record's voters, each where it listens for controllers.
func (s *voterSet) list(r *record.Voters) []raftlog.Voter {
	var voters []raftlog.Voter
	for _, v := range r.Voters {
		if at, ok := controller.RaftVoter(v, s.names...); ok {
			voters = append(voters, at)
		}
	}
	return voters
}

// logVoters are the voters that the log has; none while the quorum is static.
func (s *voterSet) logVoters() []raftlog.Voter {
	quorum := s.log()
	if quorum.Version == 0 || quorum.Voters == nil {
		return nil
	}
	if known := s.known.Load(); known != nil && known.record == quorum.Voters {
		return known.voters
	}
	known := &knownVoters{record: quorum.Voters, voters: s.list(quorum.Voters)}
	s.known.Store(known)
	return known.voters
}

// all are the voters as of now.
func (s *voterSet) all() []raftlog.Voter {
	if voters := s.logVoters(); voters != nil {
		return voters
	}
	return s.initial
}

func (s *voterSet) ids() []protocol.NodeID {
	var ids []protocol.NodeID
	for _, v := range s.all() {
		ids = append(ids, v.ID)
	}
	return ids
}

// first is what the first epoch of a dynamic quorum says of it, as long as its log
// has said nothing.
func (s *voterSet) first() []record.Control {
	if s.formatted.Version == 0 || s.formatted.Voters == nil || s.log().Version > 0 {
		return nil
	}
	return []record.Control{&record.KRaftVersion{Version: s.formatted.Version}, s.formatted.Voters}
}

// version is kraft.version: what the log says, or the format until it does.
func (s *voterSet) version() int16 { return max(s.log().Version, s.formatted.Version) }

// kraftVersion is the finalized kraft.version.
func (m *metadata) kraftVersion() int16 { return m.replayer.Quorum().Version }
