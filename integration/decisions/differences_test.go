//go:build integration

package decisions

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("record", false, "write down what the cluster (KLAMM_NODE=kafka) answers, in testdata")

// differences are the parts in which klamm is not as Kafka is, and why; what it
// says and writes there is in testdata/differences.txt.
var differences = map[string]string{
	"a reassignment without the replicas that an earlier one has brought": "Kafka waits for a replica to come which is to go as soon as it has; klamm lets it go at once",
	"credentials described by a controller":                               "Kafka's controller advertises this and fails whatever is asked; klamm's does not serve it",
	"access":                                                              "Kafka fails with an unknown error, and creates nothing, where an operation is none; klamm says what is wrong",
	"requests to a controller that does not lead":                         "Kafka's answers some of them by what it knows itself, a deletion that of an unknown topic; klamm's refers to the leader",
	"what a controller serves": "klamm has no SASL and no delegation tokens yet, its voters speak Raft among themselves (docs/architecture.md), " +
		"and credentials are not described by controllers",
}

// compare compares what was written down with what Kafka said, or keeps it.
func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, ours, have := parts(t, path), parts(t, filepath.Join("testdata", "differences.txt")), split(got)
	for _, part := range have {
		title, text, _ := strings.Cut(part, "\n")
		kafkas, ok := want[title]
		if !ok {
			t.Errorf("Kafka was not asked this:\n%s", part)
			continue
		}
		delete(want, title)
		reason, differs := differences[title]
		switch {
		case differs && text == kafkas:
			t.Errorf("%s: no difference any more (%s)", title, reason)
		case differs && text != ours[title]:
			t.Errorf("%s: not as testdata/differences.txt has it: -%s", title, diff(ours[title], text))
		case !differs && text != kafkas:
			t.Errorf("%s: - has Kafka only, + klamm only\n%s", title, diff(kafkas, text))
		}
	}
	for title := range want {
		t.Errorf("klamm was not asked this: %s", title)
	}
	if t.Failed() {
		kept := filepath.Join(os.TempDir(), "klamm-decisions-"+name+".txt")
		if err := os.WriteFile(kept, []byte(got), 0o644); err == nil {
			t.Logf("all of it: %s", kept)
		}
	}
}

func parts(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, part := range split(string(text)) {
		title, rest, _ := strings.Cut(part, "\n")
		m[title] = rest
	}
	return m
}

// split gives the parts of a text, each behind "== ".
func split(text string) []string {
	var out []string
	for _, part := range strings.Split("\n"+text, "\n== ")[1:] {
		out = append(out, strings.TrimRight(part, "\n"))
	}
	return out
}

// diff is the lines that two texts do not share, in their order, or both where it
// is only that.
func diff(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	for _, line := range left {
		if !slices.Contains(right, line) {
			out.WriteString("-" + line + "\n")
		}
	}
	for _, line := range right {
		if !slices.Contains(left, line) {
			out.WriteString("+" + line + "\n")
		}
	}
	if out.Len() == 0 {
		return "in another order or number: Kafka has\n" + a + "\nklamm\n" + b
	}
	return out.String()
}
