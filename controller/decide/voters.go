package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// ReplicaKey names a replica of the metadata log as Kafka does.
func ReplicaKey(id protocol.NodeID, directory protocol.UUID) string {
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", id, directory)
}

func replicaKeys(voters []record.Voter) string {
	keys := make([]string, len(voters))
	for i, v := range voters {
		keys[i] = ReplicaKey(v.ID, v.DirectoryID)
	}
	return "[" + strings.Join(keys, ", ") + "]"
}

// AddVoter decides the voters with one more (KIP-853). kraft is kraft.version.
func AddVoter(voters *record.Voters, kraft int16, added record.Voter) (*record.Voters, error) {
	if kraft == 0 || voters == nil {
		return nil, protocol.Errorf(protocol.ErrUnsupportedVersion, "Cluster doesn't support adding voter because the kraft.version feature is %d", kraft)
	}
	for _, v := range voters.Voters {
		if v.ID == added.ID {
			return nil, protocol.Errorf(protocol.ErrDuplicateVoter, "The voter id for %s is already part of the set of voters %s.",
				ReplicaKey(added.ID, added.DirectoryID), replicaKeys(voters.Voters))
		}
	}
	return &record.Voters{Voters: append(slices.Clone(voters.Voters), added)}, nil
}

// RemoveVoter decides the voters without one of them, who is not the last.
func RemoveVoter(voters *record.Voters, kraft int16, id protocol.NodeID, directory protocol.UUID) (*record.Voters, error) {
	if kraft == 0 || voters == nil {
		return nil, protocol.Errorf(protocol.ErrUnsupportedVersion, "Cluster doesn't support removing voter because the kraft.version feature is %d", kraft)
	}
	left := slices.DeleteFunc(slices.Clone(voters.Voters), func(v record.Voter) bool { return v.ID == id && v.DirectoryID == directory })
	if len(left) == len(voters.Voters) || len(left) == 0 {
		return nil, protocol.Errorf(protocol.ErrVoterNotFound, "Cannot remove voter %s from the set of voters %s",
			ReplicaKey(id, directory), replicaKeys(voters.Voters))
	}
	return &record.Voters{Voters: left}, nil
}

// UpdateVoter decides the voters with what one of them says of itself anew. The
// error has no text: its answer has none.
func UpdateVoter(voters *record.Voters, kraft int16, updated record.Voter) (*record.Voters, error) {
	if kraft == 0 || voters == nil {
		return nil, protocol.ErrUnsupportedVersion
	}
	if kraft < updated.MinKRaft || kraft > updated.MaxKRaft {
		return nil, protocol.ErrInvalidRequest
	}
	at := slices.IndexFunc(voters.Voters, func(v record.Voter) bool { return v.ID == updated.ID && v.DirectoryID == updated.DirectoryID })
	if at < 0 {
		return nil, protocol.ErrVoterNotFound
	}
	after := slices.Clone(voters.Voters)
	after[at] = updated
	return &record.Voters{Voters: after}, nil
}
