package coordinator

import "testing"

// The hashes are those of String.hashCode.
func TestPartitionOf(t *testing.T) {
	for _, test := range []struct {
		key        string
		partitions int
		want       int32
	}{
		{"", 50, 0},
		{"a", 50, 97 % 50},
		{"hello", 1 << 30, 99162322},
		{"ü", 1 << 30, 252},
		{"😀", 1 << 30, 0xd83d*31 + 0xde00},
		{"console-consumer-12345", 1, 0},
		{"polygenelubricants", 50, 0}, // −2^31
		{"test-consumer-group", 50, 31},
	} {
		if got := PartitionOf(test.key, test.partitions); got != test.want {
			t.Errorf("%q of %d: got %d, want %d", test.key, test.partitions, got, test.want)
		}
	}
}
