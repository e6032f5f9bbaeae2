package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The commands of testdata: check, with a history of one event a line,
//
//	SECONDS CLIENT|GROUP/MEMBER KIND VALUE PARTITION OFFSET
//
// (resend is a send of a producer that repeats by itself),
// which prints the report and what it found.
func TestCheck(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "check" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			var events []Event
			for line := range strings.Lines(d.Input) {
				e, err := parse(strings.Fields(line))
				if err != nil {
					d.Fatalf(t, "%s: %v", strings.TrimSpace(line), err)
				}
				events = append(events, e)
			}
			report := Check(events)
			out := report.String() + "\n"
			for _, f := range report.Findings {
				out += f.String() + "\n"
			}
			return out
		})
	})
}

func parse(words []string) (e Event, err error) {
	if len(words) != 6 {
		return e, fmt.Errorf("%d words", len(words))
	}
	var seconds float64
	for i, to := range map[int]any{0: &seconds, 4: &e.Partition, 5: &e.Offset} {
		if _, err := fmt.Sscan(words[i], to); err != nil {
			return e, err
		}
	}
	e.At = time.Duration(seconds * float64(time.Second))
	e.Client = words[1]
	if group, _, ok := strings.Cut(e.Client, "/"); ok {
		e.Group = group
	}
	e.Kind, e.Value = Kind(words[2]), words[3]
	if e.Kind == "resend" {
		e.Kind, e.Repeats = Send, true
	}
	return e, nil
}
