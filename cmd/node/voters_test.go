package node

import (
	"fmt"
	"testing"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
)

// Whom a Raft log begins with: by the configuration, by the directory's format, or by
// a metadata log that says there is one voter now, whoever were there at first.
func TestVotersBegin(t *testing.T) {
	dynamic := func(ids ...protocol.NodeID) snapshot.Quorum {
		q := snapshot.Quorum{Version: 1, Voters: &record.Voters{}}
		for _, id := range ids {
			q.Voters.Voters = append(q.Voters.Voters, record.Voter{
				ID: id, DirectoryID: protocol.UUID{byte(id)},
				Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: "localhost", Port: uint16(id)}},
			})
		}
		return q
	}
	static := func(ids ...protocol.NodeID) (voters []config.Voter) {
		for _, id := range ids {
			voters = append(voters, config.Voter{ID: id, Host: "localhost", Port: int(id)})
		}
		return voters
	}
	for _, c := range []struct {
		name           string
		configured     []config.Voter
		formatted, log snapshot.Quorum
		want           string
	}{
		{name: "nothing says it", want: "false []"},
		{name: "static", configured: static(1, 2, 3), want: "true [1 2 3]"},
		{name: "formatted with three", formatted: dynamic(1, 2, 3), want: "true [1 2 3]"},
		{name: "formatted to wait", formatted: snapshot.Quorum{Version: 1}, want: "true []"},
		{name: "three in the log too", formatted: dynamic(1, 2, 3), log: dynamic(1, 2, 3), want: "true [1 2 3]"},
		{name: "one is left of three", formatted: dynamic(1, 2, 3), log: dynamic(2), want: "true [2]"},
		{name: "one came later", formatted: snapshot.Quorum{Version: 1}, log: dynamic(4), want: "true [4]"},
		{name: "one, and no format", log: dynamic(1), want: "true [1]"},
		{name: "several, and no format", log: dynamic(1, 2), want: "true []"},
		{name: "static, and dynamic since", configured: static(1, 2, 3), log: dynamic(2), want: "true [1 2 3]"},
	} {
		s := &voterSet{log: func() snapshot.Quorum { return c.log }, formatted: c.formatted, names: []string{"CONTROLLER"}}
		ok := s.begin(c.configured)
		ids := []protocol.NodeID{}
		for _, v := range s.initial {
			ids = append(ids, v.ID)
		}
		if got := fmt.Sprint(ok, " ", ids); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
