package sim

import (
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
)

var mutations = flag.Bool("mutations", false, "build each fault in, and see it caught")

// TestMutations builds faults into the product, one at a time, and sees that the
// seeds catch them.
func TestMutations(t *testing.T) {
	if !*mutations {
		t.Skip("it builds everything many times: make sim, or -args -mutations")
	}
	for _, fault := range []struct {
		tag, what string
		seeds     int    // within which it must be caught; 0: by a scenario, few seeds have it
		failure   string // what is said of it
	}{
		{"broken_stamp", "a batch that was decided in another epoch is applied", 200, `invariant 11`},
		{"broken_office", "leadership is granted before the replay", 200, `invariant|a transaction ends that has not begun|panic: controller`},
		{"broken_commit", "an entry is published before it is committed", 200, `of \d controllers have`},
		{"broken_answer", "a decision is answered before it is committed", 200, `invariant 9`},
		{"broken_fence", "an ISR is taken whatever partition epoch it is of", 5000, `invariant [13]`},
		{"broken_life", "an ISR is taken with an earlier life of a broker", 5000, `invariant [123]`},
		{"broken_unclean", "an unclean election where it is forbidden", 200, `invariant [123]`},
		{"broken_kept", "who did not stop in order keeps its places", 200, `did not stop in order`},
		{"broken_bound", "the high watermark does not wait for the ISR", 200, `invariant [1235]`},
		{"broken_maximal", "the high watermark does not wait for a member that is proposed", 500, `invariant [1235]`},
		{"broken_counted", "an ISR counts before it is committed", 200, `invariant [1235]`},
		{"broken_watermark", "the high watermark is beyond the log's end", 200, `invariant 3|has nothing of`},
		{"broken_truncate", "a log is cut to the high watermark, not by epoch", 200, `invariant [1235]`},
		{"broken_unfenced", "a fetch of another leader epoch is answered", 0, `invariant 3`},
		{"broken_late", "a follower appends what an earlier leader answered", 5000, `invariant [1235]|is committed up to|is not replicated`},
		{"broken_early", "a record is acknowledged before the ISR has it", 200, `invariant [1235]`},
		{"broken_ack", "a record is acknowledged that was not appended", 200, `invariant`},
	} {
		t.Run(fault.tag, func(t *testing.T) {
			test, by := "^TestSim$", `(?m)^seed (\d+)$`
			if fault.seeds == 0 {
				test, by = "^TestScenarios$", `--- FAIL: TestScenarios/(\w+)`
			}
			out, err := exec.Command("go", "test", "-tags", fault.tag, "-run", test, "-timeout", "30m", ".",
				"-args", "-seeds", fmt.Sprint(fault.seeds)).CombinedOutput()
			last := regexp.MustCompile(by).FindAllSubmatch(out, -1)
			if err == nil || len(last) == 0 || !regexp.MustCompile(fault.failure).Match(out) {
				t.Fatalf("%s: not caught by %d seeds, or otherwise than by %q: %v\n%s", fault.what, fault.seeds, fault.failure, err, out)
			}
			t.Logf("%s: caught by %s", fault.what, last[len(last)-1][1])
		})
	}
}
