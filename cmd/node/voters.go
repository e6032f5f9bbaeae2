package node

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/raftlog"
)

// voters are the controllers: those of the configuration, or of a dynamic
// quorum (KIP-853) those of the metadata log, in whose first epoch dynamic
// returns the records that put them there. kraft is kraft.version. formatted is the quorum that the
// directory was formatted with.
func (n *node) voters(meta *metadata, formatted snapshot.Quorum) (voters []raftlog.Voter, kraft int16, dynamic func() []record.Control, err error) {
	quorum := meta.replayer.Quorum()
	if quorum.Version == 0 {
		quorum = formatted
	}
	file := n.cfg.File
	if quorum.Version == 0 {
		if len(n.cfg.Quorum.Voters) == 0 {
			return nil, 0, nil, fmt.Errorf("%s: controller.quorum.voters is empty, and %s was not formatted with --standalone: name the voters, such as %d@localhost:9093",
				file, n.cfg.Dirs.Metadata, n.cfg.Node.ID)
		}
		for _, v := range n.cfg.Quorum.Voters {
			voters = append(voters, raftlog.Voter{ID: v.ID, Endpoint: v.Address()})
		}
		return voters, 0, nil, nil
	}
	// Kafka starts with the log's voters and leaves the configured ones aside.
	if len(n.cfg.Quorum.Voters) > 0 && !n.soleVoter() {
		return nil, 0, nil, fmt.Errorf("%s: controller.quorum.voters names others than this node, and %s was formatted with --standalone: this version has one voter in a dynamic quorum",
			file, n.cfg.Dirs.Metadata)
	}
	if quorum.Voters == nil || len(quorum.Voters.Voters) != 1 || len(quorum.Voters.Voters[0].Endpoints) == 0 {
		return nil, 0, nil, fmt.Errorf("%s: the metadata log has a dynamic quorum of other than one voter, which this version cannot run", n.cfg.Dirs.Metadata)
	}
	v := quorum.Voters.Voters[0]
	at := slices.IndexFunc(v.Endpoints, func(e record.VoterEndpoint) bool {
		return slices.ContainsFunc(n.cfg.Listeners.Controller, func(l config.Listener) bool { return l.Name == e.Name })
	})
	e := v.Endpoints[max(at, 0)]
	voters = []raftlog.Voter{{ID: v.ID, DirectoryID: v.DirectoryID, Endpoint: net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))}}
	dynamic = func() []record.Control {
		if meta.replayer.Quorum().Version > 0 {
			return nil
		}
		return []record.Control{&record.KRaftVersion{Version: quorum.Version}, quorum.Voters}
	}
	return voters, quorum.Version, dynamic, nil
}

func (n *node) soleVoter() bool {
	return len(n.cfg.Quorum.Voters) == 1 && n.cfg.Quorum.Voters[0].ID == n.cfg.Node.ID
}

// kraftVersion is the finalized kraft.version.
func (m *metadata) kraftVersion() int16 { return m.replayer.Quorum().Version }
