package snapshot

import (
	"fmt"
	"hash/crc32"
	"reflect"
	"testing"
)

// FuzzSidecar reads a sidecar of any content, its checksum right: what is read is
// written and read the same.
func FuzzSidecar(f *testing.F) {
	for _, s := range []sidecar{
		{Version: sidecarVersion, Index: 7, Term: 2, Configuration: []byte{0x81, 0xa7}, ConfigurationIndex: 1, Checkpoint: "00000000000000000010-0000000002.checkpoint", Size: 1000},
		{Version: 2, Checkpoint: "x"},
	} {
		data, err := s.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:len(data)-10])
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := decodeSidecar(fmt.Appendf(nil, "%s\n%08x\n", line, crc32.Checksum(line, castagnoli)))
		if err != nil {
			return
		}
		data, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeSidecar(data); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v was written and read as %+v, %v", s, again, err)
		}
		_ = s.meta()
	})
}
