//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// TestKcatRoundTrip: the same with kcat, whose library is librdkafka. A header
// of kcat's command line is the same for all records of a run, so each run
// has its own.
func TestKcatRoundTrip(t *testing.T) {
	kcat := harness.Need(t, "kcat", "apt-get install kcat")
	n := harness.Start(t)
	recs := make100k()
	for _, codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			topic := "kcat-" + codec
			// No topic is created: asking for it does, auto.create.topics.enable.
			var in strings.Builder
			for i := range recs {
				recs[i].header = codec
				in.WriteString(recs[i].key + "\t" + recs[i].value + "\n")
			}
			output(t, []byte(in.String()), kcat, "-b", n.Address, "-P", "-t", topic, "-p", "0", "-K", "\t", "-z", codec, "-H", "h="+codec)
			out := output(t, nil, kcat, "-q", "-b", n.Address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-f", `%k\t%s\t%h\n`)
			same(t, fromLines(t, out, "h="), recs)
		})
	}
}

// fromLines reads key, value and header, tab between them, a record a line.
func fromLines(t *testing.T, out, headerPrefix string) []rec {
	t.Helper()
	var recs []rec
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("line %q is not key, value, header", line)
		}
		recs = append(recs, rec{key: fields[0], value: fields[1], header: strings.TrimPrefix(fields[2], headerPrefix)})
	}
	return recs
}
