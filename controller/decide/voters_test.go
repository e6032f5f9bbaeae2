package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Texts and codes as Apache Kafka 4.4 answered them.
func TestVoters(t *testing.T) {
	one, two := protocol.UUID{1}, protocol.UUID{2}
	at := func(port uint16) []record.VoterEndpoint {
		return []record.VoterEndpoint{{Name: "CONTROLLER", Host: "localhost", Port: port}}
	}
	voters := &record.Voters{Voters: []record.Voter{{ID: 1, DirectoryID: one, Endpoints: at(1), MaxKRaft: 1}}}
	add := func(kraft int16, id protocol.NodeID, directory protocol.UUID) func() (*record.Voters, error) {
		return func() (*record.Voters, error) {
			return AddVoter(voters, kraft, record.Voter{ID: id, DirectoryID: directory, Endpoints: at(2), MaxKRaft: 1})
		}
	}
	both, err := add(1, 2, two)()
	if err != nil {
		t.Fatal(err)
	}
	remove := func(from *record.Voters, kraft int16, id protocol.NodeID, directory protocol.UUID) func() (*record.Voters, error) {
		return func() (*record.Voters, error) { return RemoveVoter(from, kraft, id, directory) }
	}
	update := func(kraft int16, v record.Voter) func() (*record.Voters, error) {
		return func() (*record.Voters, error) { return UpdateVoter(both, kraft, v) }
	}
	for name, tt := range map[string]struct {
		decide func() (*record.Voters, error)
		want   string
	}{
		"add":                     {add(1, 2, two), "1@1 2@2"},
		"add, static":             {add(0, 2, two), "UNSUPPORTED_VERSION: Cluster doesn't support adding voter because the kraft.version feature is 0"},
		"add one that votes":      {add(1, 1, two), "DUPLICATE_VOTER: The voter id for ReplicaKey(id=1, directoryId=AgAAAAAAAAAAAAAAAAAAAA) is already part of the set of voters [ReplicaKey(id=1, directoryId=AQAAAAAAAAAAAAAAAAAAAA)]."},
		"remove":                  {remove(both, 1, 1, one), "2@2"},
		"remove, static":          {remove(nil, 0, 1, one), "UNSUPPORTED_VERSION: Cluster doesn't support removing voter because the kraft.version feature is 0"},
		"remove another disk":     {remove(both, 1, 1, two), "VOTER_NOT_FOUND: Cannot remove voter ReplicaKey(id=1, directoryId=AgAAAAAAAAAAAAAAAAAAAA) from the set of voters [ReplicaKey(id=1, directoryId=AQAAAAAAAAAAAAAAAAAAAA), ReplicaKey(id=2, directoryId=AgAAAAAAAAAAAAAAAAAAAA)]"},
		"remove the last":         {remove(voters, 1, 1, one), "VOTER_NOT_FOUND: Cannot remove voter ReplicaKey(id=1, directoryId=AQAAAAAAAAAAAAAAAAAAAA) from the set of voters [ReplicaKey(id=1, directoryId=AQAAAAAAAAAAAAAAAAAAAA)]"},
		"update":                  {update(1, record.Voter{ID: 2, DirectoryID: two, Endpoints: at(9), MaxKRaft: 1}), "1@1 2@9"},
		"update, static":          {update(0, record.Voter{ID: 2, DirectoryID: two, Endpoints: at(9), MaxKRaft: 1}), "UNSUPPORTED_VERSION"},
		"update, too old":         {update(1, record.Voter{ID: 2, DirectoryID: two, Endpoints: at(9)}), "INVALID_REQUEST"},
		"update of another disk":  {update(1, record.Voter{ID: 2, DirectoryID: one, Endpoints: at(9), MaxKRaft: 1}), "VOTER_NOT_FOUND"},
		"nothing of it was meant": {func() (*record.Voters, error) { return voters, nil }, "1@1"},
	} {
		got, err := tt.decide()
		text := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, v := range got.Voters {
				all = append(all, fmt.Sprintf("%d@%d", v.ID, v.Endpoints[0].Port))
			}
			text = strings.Join(all, " ")
		}
		if text != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, tt.want)
		}
	}
}
