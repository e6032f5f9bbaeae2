package replay

import (
	"os/exec"
	"strings"
	"testing"
)

// A build that applies batches with an old stamp must not pass the test of them.
func TestBrokenBuildIsCaught(t *testing.T) {
	if brokenStamp {
		t.Skip("this is the broken build")
	}
	if testing.Short() {
		t.Skip("it builds the package again")
	}
	run := func(tags string) (string, bool) {
		out, err := exec.Command("go", "test", "-tags", tags, "-run", "^TestReplay$/^old_stamp", ".").CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := run("broken_stamp"); ok || !strings.Contains(out, "--- FAIL: TestReplay/old_stamp") {
		t.Errorf("the broken build passed, or failed otherwise:\n%s", out)
	}
}
