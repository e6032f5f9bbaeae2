package controller

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klamm/klamm/metadata/record"
)

// A record says what the decision says, or else which request it was; of an
// administrator's also whose.
func TestExplain(t *testing.T) {
	for _, c := range []struct{ name, by, cause, want string }{
		{"CreateTopics", "User:alice", "", "CreateTopics by User:alice"},
		{"ElectLeaders", "User:alice", "preferred election", "preferred election by User:alice"},
		{"Rebalance", "", "preferred election", "preferred election"},
		{"Bootstrap records", "", "", "Bootstrap records"},
		{"CreateTopics", strings.Repeat("ä", 1000), "", "CreateTopics by " + strings.Repeat("ä", maxPrincipal/2)},
		{"CreateTopics", "a\xff" + strings.Repeat("ä", 1000), "", "CreateTopics by a" + strings.Repeat("ä", maxPrincipal/2-1)},
	} {
		rec := &record.Topic{}
		rec.Cause = c.cause
		(&op{name: c.name, by: c.by}).explain([]record.Record{rec})
		if rec.Cause != c.want || !utf8.ValidString(rec.Cause) {
			t.Errorf("%s by %.20q: %q, want %q", c.name, c.by, rec.Cause, c.want)
		}
	}
	(&op{name: "NoOp"}).explain([]record.Record{&record.NoOp{}}) // which has no room for it
}
