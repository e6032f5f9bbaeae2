//go:build integration

package replication

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol/batch"
)

// A record that is another one on one replica is found, and bytes that are nobody's
// records are; a broker that is away is named.
func TestVerifyFindsDifferences(t *testing.T) {
	w := start(t)
	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	w.Produce("t", "first", "second", "third")
	if out, equal := w.verify("t"); !equal || !strings.Contains(out, "t-0: offsets 0 to 2 of brokers 1,2,3 are equal: ") {
		t.Fatalf("as it should be:\n%s", out)
	}
	victim := w.Leader("t")%3 + 1
	for _, damage := range []struct {
		what string
		do   func(batch.Batch)
		want string
	}{
		{"another record", func(b batch.Batch) {
			copy(b[len(b)-len("second")-1:], "SECOND")
			b.SetCRC()
		}, "DIFFERENT from offset 1 on"},
		{"a flipped bit", func(b batch.Batch) { b[len(b)-2] ^= 1 }, "CRC does not match"},
	} {
		w.Node(victim).Stop()
		if damage.what == "another record" {
			if out, equal := w.verifyWithout(victim); equal || !strings.Contains(out, "does not answer") {
				t.Errorf("without a broker:\n%s", out)
			}
		}
		path := filepath.Join(w.Node(victim).Data(), "t-0", "00000000000000000000.log")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, err := batch.Next(data)
		if err != nil {
			t.Fatal(err)
		}
		second, _, err := batch.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		damage.do(second)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
		if out, equal := w.verify("t"); equal || !strings.Contains(out, damage.want) {
			t.Errorf("%s:\n%s", damage.what, out)
		}
	}
}

// verifyWithout verifies while a broker is away.
func (w *world) verifyWithout(id int32) (out string, equal bool) {
	w.T.Helper()
	var others []string
	for _, other := range w.Others(id) {
		others = append(others, w.Bootstrap()[other-1])
	}
	stdout, stderr, ok := harness.Run(w.T, "replicas", "verify", "t", "--timeout", "1s", "--bootstrap-server", strings.Join(others, ","))
	return stdout + stderr, ok
}
