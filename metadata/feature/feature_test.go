package feature

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for name, want := range map[string]Level{
		"3.3-IV3": 7, "3.3": 7, "3.6": 14, "3.6-IV0": 12, "3.9.1": 21, "4.0": 25, "4.3-IV0": 30, "4.3": 30, "4.3.1": 30, "4.4": 33, "4.4-IV2": 33,
	} {
		if level, ok := ParseRelease(name); !ok || level != want {
			t.Errorf("%s is %d, %v; want %d", name, level, ok, want)
		}
	}
	for _, name := range []string{"", "4", "4.5", "4.5-IV0", "3.0-IV1", "IV0", "4.4-IV9", "9.9-IV9"} {
		if level, ok := ParseRelease(name); ok {
			t.Errorf("%q is %s", name, level)
		}
	}
	for level := Oldest; level <= Latest; level++ {
		if again, ok := ParseRelease(level.String()); !ok || again != level {
			t.Errorf("%d is %s, which is %d, %v", level, level, again, ok)
		}
	}
}

// What Kafka 4.4's storage tool maps releases to (version-mapping).
func TestDefaults(t *testing.T) {
	for level, want := range map[Level]string{
		7:  "eligible.leader.replicas.version=0 group.version=0 kraft.version=0 metadata.version=7 share.version=0 streams.version=0 transaction.version=0",
		20: "eligible.leader.replicas.version=0 group.version=0 kraft.version=0 metadata.version=20 share.version=0 streams.version=0 transaction.version=0",
		21: "eligible.leader.replicas.version=0 group.version=0 kraft.version=1 metadata.version=21 share.version=0 streams.version=0 transaction.version=0",
		22: "eligible.leader.replicas.version=0 group.version=1 kraft.version=1 metadata.version=22 share.version=0 streams.version=0 transaction.version=0",
		24: "eligible.leader.replicas.version=0 group.version=1 kraft.version=1 metadata.version=24 share.version=0 streams.version=0 transaction.version=2",
		26: "eligible.leader.replicas.version=1 group.version=1 kraft.version=1 metadata.version=26 share.version=0 streams.version=0 transaction.version=2",
		28: "eligible.leader.replicas.version=1 group.version=1 kraft.version=1 metadata.version=28 share.version=1 streams.version=0 transaction.version=2",
		30: "eligible.leader.replicas.version=1 group.version=1 kraft.version=1 metadata.version=30 share.version=1 streams.version=1 transaction.version=2",
		33: "eligible.leader.replicas.version=1 group.version=1 kraft.version=1 metadata.version=33 share.version=2 streams.version=1 transaction.version=2",
	} {
		var got []string
		for _, f := range All() {
			got = append(got, fmt.Sprintf("%s=%d", f.Name, f.Default(level)))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", level, text, want)
		}
	}
}

// The way down is lossless only between levels with the same records.
func TestLosesOnWayTo(t *testing.T) {
	for _, c := range []struct {
		from, to Level
		loses    bool
	}{{16, 15, false}, {15, 14, true}, {29, 23, false}, {29, 22, true}, {33, 32, true}, {31, 30, false}, {33, 33, false}} {
		if got := c.from.LosesOnWayTo(c.to); got != c.loses {
			t.Errorf("from %s to %s: %v", c.from, c.to, got)
		}
	}
}
