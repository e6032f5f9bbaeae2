package raftlog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzQuorumState reads quorum-state as anybody may have left it: what is read is
// written and read the same.
func FuzzQuorumState(f *testing.F) {
	f.Add([]byte(`{"leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`))
	f.Add([]byte(`{"leaderId":-1,"leaderEpoch":0,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`))
	f.Add([]byte(`{"data_version":99}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, quorumStateFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		state, ok, err := readQuorumState(dir)
		if err != nil || !ok {
			return
		}
		if err := state.write(dir); err != nil {
			t.Fatal(err)
		}
		again, ok, err := readQuorumState(dir)
		if err != nil || !ok || !again.equal(state) {
			t.Fatalf("%+v was written and read as %+v, %v", state, again, err)
		}
	})
}

func (qs quorumState) equal(other quorumState) bool {
	a, errA := qs.encode()
	b, errB := other.encode()
	return errA == nil && errB == nil && slices.Equal(a, b)
}

// FuzzBolt opens a store with bytes of it changed, as a disk may do: it is refused
// or read, and never ends the process.
func FuzzBolt(f *testing.F) {
	image := boltImage(f)
	f.Add(uint32(4096*4+10), []byte{0xff, 0xff})
	f.Add(uint32(16), []byte{0, 0, 0, 0})
	f.Add(uint32(4096*2), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, at uint32, change []byte) {
		damaged := slices.Clone(image)
		copy(damaged[int(at)%len(damaged):], change)
		_ = openImage(t, damaged)
	})
}
